"""Reads pods from JSON. An error names the place for which the API server would refuse the pod."""

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.container import APP, EPHEMERAL, INIT, Container, container_from_raw, positive
from webhook.model.json_parts import listed, mapped, part
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


def _pods_beside(affinity: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The terms of the required pod affinity that have the shape of terms. Raises ShapeError."""
    return [mapped(one) for one in listed(mapping(affinity.get("podAffinity"), "affinity", "podAffinity"), _REQUIRED)]


def _stands_beside_pods(terms: Iterable[Mapping[str, Any]], labels: Mapping[str, Any]) -> bool:
    """Whether the pod has to be on the same host as pods with other labels than its own."""
    return any(
        part(one, "topologyKey") == "kubernetes.io/hostname"
        and any(labels.get(key) != value for key, value in mapped(one, "labelSelector", "matchLabels").items())
        for one in terms
    )


def _topologies(terms: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    keys = [_text_or_empty(one.get("topologyKey")) for one in terms]
    return tuple(dict.fromkeys(filter(None, keys)))


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
    for key in ("annotations", "labels"):
        entries(metadata.get(key), "metadata", key)
    try:
        return _read(mapping(pod.get("spec")), pod, accelerators, namespace)
    except ShapeError as error:
        raise error.inside("spec") from None


def _read(spec: Mapping[str, Any], pod: Mapping[str, Any], known: Accelerators, namespace: str) -> Pod:
    metadata = mapping(pod.get("metadata"))
    labels = mapping(metadata.get("labels"))
    runtime_class = spec.get("runtimeClassName")
    affinity = mapping(spec.get("affinity"), "affinity")
    containers = _containers(spec, known)
    gpus = effective_gpus(containers)
    required, preferred = node_terms(affinity)
    beside = _pods_beside(affinity) if "podAffinity" in affinity else []
    apart = mapping(affinity.get("podAntiAffinity"), "affinity", "podAntiAffinity") if affinity else {}
    resources = mapping(spec.get("resources"), "resources")
    for key in ("limits", "requests") if resources else ():
        entries(resources.get(key), "resources", key)
    return Pod(
        containers=tuple(containers),
        volumes=each(spec, "volumes", _volume),
        node_selector=_node_selector(spec),
        tolerations=each(spec, "tolerations", _toleration),
        required=required,
        preferred=preferred,
        node_name=text(spec.get("nodeName"), "nodeName"),
        runtime_class=None if runtime_class is None else text(runtime_class, "runtimeClassName"),
        host_ipc=spec.get("hostIPC") is True,
        host_network=spec.get("hostNetwork") is True,
        os=text(mapping(spec["os"], "os").get("name"), "os", "name") if "os" in spec else "",
        memory_limit=positive(part(resources, "limits", "memory")) if resources else None,
        gpus=gpus,
        accelerators=tuple([gpu for name in gpus if (gpu := known.of(name)) is not None]),
        known=known,
        priority_class=text(spec.get("priorityClassName"), "priorityClassName"),
        active_deadline=_seconds(spec.get("activeDeadlineSeconds"), "activeDeadlineSeconds"),
        resource_claims=spec.get("resourceClaims"),
        stands_beside_pods=bool(beside) and _stands_beside_pods(beside, labels),
        stands_within=_topologies(beside) if beside else (),
        says_how_it_spreads=bool(spec.get("topologySpreadConstraints")) or any(apart.values()),
        resources=resources,
        overhead=entries(spec.get("overhead"), "overhead"),
        is_gated=bool(spec.get("schedulingGates")),
        annotations=mapping(metadata.get("annotations")),
        labels=labels,
        owner_kind=owner_kind(metadata),
        namespace=namespace or _text_or_empty(metadata.get("namespace")),
        has_started=part(pod, "status", "startTime") is not None,
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


def _text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


def owner_kind(metadata: Mapping[str, Any]) -> str:
    """Kind of the controller that made the pod; empty where no controller made it.

    Anybody can write owner references, so nothing that protects other users may depend on them.
    """
    return _text_or_empty(part(_controller(metadata), "kind")) if "ownerReferences" in metadata else ""


def controller_of(raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner reference of the controller that made an object; None where nothing controls it."""
    return _controller(mapped(raw, "metadata"))


def _controller(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((one for one in listed(metadata, "ownerReferences") if part(one, "controller") is True), None)


def is_made_or_ending(raw: Mapping[str, Any]) -> bool:
    """Whether a controller made the object, so that its owner is judged instead, or the object is being deleted."""
    return part(raw, "metadata", "deletionTimestamp") is not None or controller_of(raw) is not None


def _seconds(value: object, place: str) -> int | None:
    if value is None or type(value) is int:
        return value
    raise ShapeError(value, "a whole number", place)


def _node_selector(spec: Mapping[str, Any]) -> dict[str, str]:
    selector = entries(spec.get("nodeSelector"), "nodeSelector")
    return {key: text(value, f"nodeSelector[{key}]") for key, value in selector.items()} if selector else {}


def _toleration(raw: object) -> Toleration:
    toleration = raw if raw.__class__ is dict else mapping(raw)
    for key, value in toleration.items():
        if key == "tolerationSeconds":
            _seconds(value, key)
        elif type(value) is not str and key in ("key", "operator", "value", "effect"):
            text(value, key)
    return toleration_from_raw(toleration)


def _volume(raw: object) -> Volume:
    volume = raw if raw.__class__ is dict else mapping(raw)
    name = volume.get("name")
    if name.__class__ is str and "hostPath" not in volume and "emptyDir" not in volume:
        return Volume(name)
    name = text(name, "name")
    path = text(mapping(volume.get("hostPath"), "hostPath").get("path"), "hostPath", "path")
    empty = mapping(volume.get("emptyDir"), "emptyDir")
    medium = text(empty.get("medium"), "emptyDir", "medium")
    if medium != "Memory":
        return Volume(name, path, is_huge=medium.startswith("HugePages"))
    return Volume(name, path, is_memory=True, size_limit=empty.get("sizeLimit"))
