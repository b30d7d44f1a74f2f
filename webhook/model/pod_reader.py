"""Reads pods from JSON. An error names the place for which the API server would refuse the pod."""

from collections.abc import Mapping
from itertools import count
from typing import Any

from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.container import APP, EPHEMERAL, INIT, Container, container_from_raw, positive
from webhook.model.node import Toleration, toleration_from_raw
from webhook.model.pod import Pod, Volume, effective_gpus
from webhook.model.selectors import Expression, Term
from webhook.model.shape import ShapeError, each, entries, mapping, text

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node_terms(affinity: Mapping[str, Any]) -> tuple[tuple[Term, ...] | None, tuple[Term, ...]]:
    """The required terms (None where there is no required node affinity), and the preferred terms.

    Raises ShapeError, which names the place in the spec.
    """
    nodes = mapping(affinity.get("nodeAffinity"), "affinity", "nodeAffinity")
    if not nodes:
        return None, ()
    try:
        return _required(nodes), each(nodes, _PREFERRED, _preference)
    except ShapeError as error:
        raise error.inside("affinity", "nodeAffinity") from None


def stands_beside_pods(affinity: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Whether the pod has to be on the same host as pods with other labels than its own. Raises ShapeError."""
    pods = mapping(affinity.get("podAffinity"), "affinity", "podAffinity")
    terms = pods.get("requiredDuringSchedulingIgnoredDuringExecution")
    for term in terms if isinstance(terms, list) else ():
        selector = term.get("labelSelector") if isinstance(term, dict) else None
        wanted = selector.get("matchLabels") if isinstance(selector, dict) else None
        is_of_others = isinstance(wanted, dict) and any(labels.get(key) != value for key, value in wanted.items())
        if is_of_others and term.get("topologyKey") == "kubernetes.io/hostname":
            return True
    return False


def topologies_of(affinity: Mapping[str, Any]) -> tuple[str, ...]:
    """The topology keys of the required pod affinity. Raises ShapeError."""
    terms = mapping(affinity.get("podAffinity"), "affinity", "podAffinity").get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    keys = [term.get("topologyKey") for term in (terms if isinstance(terms, list) else ()) if isinstance(term, dict)]
    return tuple(dict.fromkeys(key for key in keys if isinstance(key, str) and key))


def has_anti_affinity(affinity: Mapping[str, Any]) -> bool:
    """Whether there is any term of pod anti-affinity; empty lists do not count.

    Raises ShapeError, which names the place in the spec.
    """
    terms = affinity.get("podAntiAffinity")
    return bool(terms) and any(mapping(terms, "affinity", "podAntiAffinity").values())


def _required(nodes: Mapping[str, Any]) -> tuple[Term, ...] | None:
    selector = nodes.get(_REQUIRED)
    if selector is None:
        return None
    try:
        return each(mapping(selector), "nodeSelectorTerms", _term)
    except ShapeError as error:
        raise error.inside(_REQUIRED) from None


def _preference(raw: object) -> Term:
    try:
        return _term(mapping(raw).get("preference"))
    except ShapeError as error:
        raise error.inside("preference") from None


def _term(raw: object) -> Term:
    term = mapping(raw)
    return Term(each(term, "matchExpressions", _expression), each(term, "matchFields", _expression))


def _expression(raw: object) -> Expression:
    expression = mapping(raw)
    return Expression(
        text(expression.get("key"), "key"),
        text(expression.get("operator"), "operator"),
        each(expression, "values", text),
    )


def pod_from_raw(raw: object, accelerators: Accelerators = BUILT_IN, namespace: str = "") -> Pod:
    """Read a pod from JSON, such as `{"metadata": {"name": "a"}, "spec": {"containers": [...]}}`.

    `accelerators` says which resource names are GPUs. `namespace` is the pod's namespace; where it is empty, the pod's
    own metadata counts.

    Raises ShapeError, which names the place, where a part has a type that the API server would refuse, or more entries
    than the API server stores.
    """
    pod = mapping(raw, "object")
    metadata = mapping(pod.get("metadata"), "metadata")
    annotations = entries(metadata.get("annotations"), "metadata", "annotations")
    labels = entries(metadata.get("labels"), "metadata", "labels")
    try:
        return _read(mapping(pod.get("spec")), accelerators, annotations, labels, metadata, namespace, has_started(pod))
    except ShapeError as error:
        raise error.inside("spec") from None


def _read(  # noqa: PLR0913, PLR0917  # all parts of a pod
    spec: Mapping[str, Any],
    known: Accelerators,
    annotations: Mapping[str, Any],
    labels: Mapping[str, Any],
    metadata: Mapping[str, Any],
    namespace: str,
    has_started: bool,
) -> Pod:
    runtime_class = spec.get("runtimeClassName")
    affinity = mapping(spec.get("affinity"), "affinity")
    containers = _containers(spec, known)
    gpus = effective_gpus(containers)
    volumes, node_selector = each(spec, "volumes", _volume), _node_selector(spec)
    tolerations = each(spec, "tolerations", _toleration)
    required, preferred = node_terms(affinity)
    return Pod(
        containers=tuple(containers),
        volumes=volumes,
        node_selector=node_selector,
        tolerations=tolerations,
        required=required,
        preferred=preferred,
        node_name=text(spec.get("nodeName"), "nodeName"),
        runtime_class=None if runtime_class is None else text(runtime_class, "runtimeClassName"),
        host_ipc=spec.get("hostIPC") is True,
        host_network=spec.get("hostNetwork") is True,
        os=text(mapping(spec["os"], "os").get("name"), "os", "name") if spec.get("os") else "",
        memory_limit=_pod_memory_limit(spec),
        annotations=annotations,
        gpus=gpus,
        accelerators=tuple([gpu for name in gpus if (gpu := known.of(name)) is not None]),
        known=known,
        labels=labels,
        owner_kind=owner_kind(metadata),
        namespace=namespace or namespace_of(metadata),
        priority_class=text(spec.get("priorityClassName"), "priorityClassName"),
        active_deadline=_seconds(spec.get("activeDeadlineSeconds")),
        resource_claims=spec.get("resourceClaims"),
        stands_beside_pods=stands_beside_pods(affinity, labels) if "podAffinity" in affinity else False,
        stands_within=topologies_of(affinity) if "podAffinity" in affinity else (),
        says_how_it_spreads=bool(spec.get("topologySpreadConstraints")) or has_anti_affinity(affinity),
        resources=_resources(spec),
        overhead=entries(spec.get("overhead"), "overhead"),
        is_gated=bool(spec.get("schedulingGates")),
        has_started=has_started,
    )


def _containers(spec: Mapping[str, Any], known: Accelerators) -> list[Container]:
    containers: list[Container] = []
    for list_name in (INIT, APP, EPHEMERAL):
        if spec.get(list_name) is None:
            continue
        position = count()
        containers += each(
            spec,
            list_name,
            lambda raw, name=list_name, at=position: container_from_raw(raw, name, next(at), known),  # type: ignore[misc]  # defaults bind early
            by_name=True,
        )
    return containers


def has_started(pod: Mapping[str, Any]) -> bool:
    """Whether a kubelet has started the pod."""
    status = pod.get("status")
    return isinstance(status, dict) and status.get("startTime") is not None


def namespace_of(metadata: Mapping[str, Any]) -> str:
    """The namespace in the metadata; empty where there is none."""
    found = metadata.get("namespace")
    return found if isinstance(found, str) else ""


def owner_kind(metadata: Mapping[str, Any]) -> str:
    """Kind of the controller that made the pod; empty where no controller made it.

    Anybody can write owner references, so nothing that protects other users may depend on them.
    """
    controller = _controller(metadata)
    kind = controller.get("kind") if controller is not None else None
    return kind if isinstance(kind, str) else ""


def controller_of(raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner reference of the controller that made an object; None where nothing controls it."""
    metadata = raw.get("metadata")
    return _controller(metadata) if isinstance(metadata, dict) else None


def is_made_or_ending(raw: Mapping[str, Any]) -> bool:
    """Whether a controller made the object, so that its owner is judged instead, or the object is being deleted."""
    metadata = raw.get("metadata")
    is_ending = isinstance(metadata, dict) and metadata.get("deletionTimestamp") is not None
    return is_ending or controller_of(raw) is not None


def _controller(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    references = metadata.get("ownerReferences")
    for one in references if isinstance(references, list) else ():
        if isinstance(one, dict) and one.get("controller") is True:
            return one
    return None


def _seconds(value: object) -> int | None:
    if value is None or value.__class__ is int:
        return value
    raise ShapeError(value, "a whole number", "activeDeadlineSeconds")


def _node_selector(spec: Mapping[str, Any]) -> dict[str, str]:
    selector = entries(spec.get("nodeSelector"), "nodeSelector")
    return {key: text(value, f"nodeSelector[{key}]") for key, value in selector.items()} if selector else {}


def _toleration(raw: object) -> Toleration:
    toleration = raw if raw.__class__ is dict else mapping(raw)
    for part, value in toleration.items():
        if value is not None and value.__class__ is not (int if part == "tolerationSeconds" else str):
            _check_part(part, value)
    return toleration_from_raw(toleration)


def _check_part(part: str, value: object) -> None:
    """Raise ShapeError for a part of a toleration whose type the API server refuses."""
    if part in ("key", "operator", "value", "effect"):
        text(value, part)
    elif part == "tolerationSeconds" and value.__class__ is not int:
        raise ShapeError(value, "a whole number", part)


def _volume(raw: object) -> Volume:
    volume = raw if raw.__class__ is dict else mapping(raw)
    name = volume.get("name")
    if name.__class__ is str and "hostPath" not in volume and "emptyDir" not in volume:
        return Volume(name)
    name = text(name, "name")
    path = text(mapping(volume.get("hostPath"), "hostPath").get("path"), "hostPath", "path")
    empty = mapping(volume.get("emptyDir"), "emptyDir")
    if empty.get("medium") != "Memory":
        return Volume(name, path, is_huge=str(empty.get("medium")).startswith("HugePages"))
    return Volume(name, path, is_memory=True, size_limit=empty.get("sizeLimit"))


def _resources(spec: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    resources = mapping(spec.get("resources"), "resources")
    for part in ("limits", "requests") if resources else ():
        entries(resources.get(part), "resources", part)
    return resources


def _pod_memory_limit(spec: Mapping[str, Any]) -> int | None:
    """The memory limit of the pod as a whole in bytes (spec.resources, Kubernetes 1.34); None where there is none."""
    resources = mapping(spec.get("resources"), "resources")
    if not resources:
        return None
    return positive(mapping(resources.get("limits"), "resources", "limits").get("memory"))
