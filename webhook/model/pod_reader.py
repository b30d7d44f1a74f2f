"""Reads pods from JSON. An error names the place for which the API server would refuse the pod."""

from collections.abc import Iterable, Mapping
from itertools import count
from math import ceil
from typing import Any

from webhook.model.accelerators import BUILT_IN, GPU_ATTRIBUTES, Accelerator, Accelerators
from webhook.model.gpu_fractions import fractions_of
from webhook.model.json_parts import listed, mapped, part
from webhook.model.json_parts import text as text_at
from webhook.model.node import Toleration, toleration_from_raw
from webhook.model.pod import APP, EPHEMERAL, INIT, Container, ContainerClaim, GpuRequest, Mount, Pod, Volume, reserved
from webhook.model.quantity import Number, parse_quantity, positive
from webhook.model.selectors import Expression, Term
from webhook.model.shape import FormatError, ShapeError, each, entries, mapping, text

_NODES = ("affinity", "nodeAffinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


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
    metadata: Mapping[str, Any] = pod.get("metadata") or {}
    labels: Mapping[str, Any] = metadata.get("labels") or {}
    runtime_class = spec.get("runtimeClassName")
    affinity = mapping(spec.get("affinity"), "affinity")
    lists = [name for name in (INIT, APP, EPHEMERAL) if spec.get(name) is not None]
    containers = tuple([container for name in lists for container in _containers(spec, name, known)])
    reserving = reserved(containers, lambda one: [(gpu.accelerator.resource, gpu.count) for gpu in one.gpu_requests])
    gpus = {name: number for name, number in reserving.items() if number > 0}
    nodes = mapping(affinity.get("nodeAffinity"), *_NODES)
    beside = (
        listed(mapping(affinity["podAffinity"], "affinity", "podAffinity"), _REQUIRED)
        if "podAffinity" in affinity
        else []
    )
    apart = mapping(affinity.get("podAntiAffinity"), "affinity", "podAntiAffinity") if affinity else {}
    resources = mapping(spec.get("resources"), "resources")
    for key in ("limits", "requests") if resources else ():
        entries(resources.get(key), "resources", key)
    annotations = metadata.get("annotations") or {}
    node_name = text(spec.get("nodeName"), "nodeName")
    return Pod(
        containers=containers,
        volumes=each(spec, "volumes", _volume),
        node_selector=_node_selector(spec),
        tolerations=each(spec, "tolerations", _toleration),
        required=_required(nodes.get(_REQUIRED)),
        preferred=each(
            nodes, _PREFERRED, lambda one: _term(mapping(one.get("preference"), "preference"), "preference"), at=_NODES
        ),
        node_name=node_name,
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
        stands_within=tuple(dict.fromkeys([key for one in beside if (key := text_at(one, "topologyKey"))]))
        if beside
        else (),
        says_how_it_spreads=bool(spec.get("topologySpreadConstraints")) or any(apart.values()),
        resources=resources,
        overhead=entries(spec.get("overhead"), "overhead"),
        is_gated=bool(spec.get("schedulingGates")),
        annotations=annotations,
        labels=labels,
        owner_kind=owner_kind(metadata),
        namespace=namespace or text_at(metadata, "namespace"),
        has_started=part(pod, "status", "startTime") is not None,
        fractions=fractions_of(annotations, containers, gpus, node_name) if annotations or gpus else (),
    )


def _required(selector: object) -> tuple[Term, ...] | None:
    if selector is None:
        return None
    place = (*_NODES, _REQUIRED)
    return each(mapping(selector, *place), "nodeSelectorTerms", _term, at=place)


def _term(term: Mapping[str, Any], *place: str) -> Term:
    return Term(*[each(term, key, _expression, at=place) for key in ("matchExpressions", "matchFields")])


def _expression(expression: Mapping[str, Any]) -> Expression:
    values = each(expression, "values", text, are_maps=False)
    return Expression(text(expression.get("key"), "key"), text(expression.get("operator"), "operator"), values)


def _stands_beside_pods(terms: Iterable[object], labels: Mapping[str, Any]) -> bool:
    """Whether the pod has to be on the same host as pods with other labels than its own."""
    return any(
        part(one, "topologyKey") == "kubernetes.io/hostname"
        and any(labels.get(key) != value for key, value in mapped(one, "labelSelector", "matchLabels").items())
        for one in terms
    )


def _seconds(value: object, place: str) -> int | None:
    if value is None or type(value) is int:
        return value
    raise ShapeError(value, "a whole number", place)


def _node_selector(spec: Mapping[str, Any]) -> dict[str, str]:
    selector = entries(spec.get("nodeSelector"), "nodeSelector")
    return {key: text(value, f"nodeSelector[{key}]") for key, value in selector.items()} if selector else {}


def _toleration(toleration: Mapping[str, Any]) -> Toleration:
    for key, value in toleration.items():
        if key == "tolerationSeconds":
            _seconds(value, key)
        elif type(value) is not str and key in ("key", "operator", "value", "effect"):
            text(value, key)
    return toleration_from_raw(toleration)


def _volume(volume: Mapping[str, Any]) -> Volume:
    name = text(volume.get("name"), "name")
    if "hostPath" not in volume and "emptyDir" not in volume:
        return Volume(name)
    path = text(mapping(volume.get("hostPath"), "hostPath").get("path"), "hostPath", "path")
    empty = mapping(volume.get("emptyDir"), "emptyDir")
    medium = text(empty.get("medium"), "emptyDir", "medium")
    if medium != "Memory":
        return Volume(name, path, is_huge=medium.startswith("HugePages"))
    return Volume(name, path, is_memory=True, size_limit=empty.get("sizeLimit"))


def _containers(spec: Mapping[str, Any], list_name: str, known: Accelerators) -> tuple[Container, ...]:
    numbers = count()
    return each(spec, list_name, lambda raw: _container(raw, list_name, next(numbers), known), by_name=True)


def _container(container: Mapping[str, Any], list_name: str, index: int, known: Accelerators) -> Container:
    name = text(container.get("name"), "name")
    resources = mapping(container.get("resources"), "resources")
    requests = entries(resources.get("requests"), "resources", "requests")
    limits = entries(resources.get("limits"), "resources", "limits")
    security = mapping(container.get("securityContext"), "securityContext")
    amounts = {**limits, **requests} if requests else limits
    gpu_requests: list[GpuRequest] = []
    unknown: list[tuple[str, int]] = []
    for resource, amount in amounts.items():
        if "/" not in resource:  # as the names of GPUs are not
            continue
        if (gpu := known.of(resource)) is not None:
            gpu_requests.append(_gpu_request(gpu, requests, limits))
        elif known.may_be_gpus(resource) and (number := positive(amount)) is not None:
            unknown.append((resource, number))
    env, claims = each(container, "env", _env), resources.get("claims")
    return Container(
        name=name,
        list_name=list_name,
        index=index,
        path=f"spec.{list_name}[{name or index}]",
        gpu_requests=tuple(gpu_requests),
        env=env,
        mounts=each(container, "volumeMounts", _mount),
        memory_limit=positive(limits.get("memory")),
        env_from=each(container, "envFrom", lambda one: text(one.get("prefix"), "prefix"))
        if "envFrom" in container
        else (),
        is_sidecar=list_name == INIT and container.get("restartPolicy") == "Always",
        is_privileged=security.get("privileged") is True,
        capabilities=_words(part(security, "capabilities", "add")) if "capabilities" in security else (),
        has_claims=bool(unknown or claims),
        claims=tuple([ContainerClaim(text_at(one, "name"), text_at(one, "request")) for one in listed(claims)])
        if claims
        else (),
        unknown_classes=tuple(unknown),
        asks_gpu_attributes=not GPU_ATTRIBUTES.isdisjoint(amounts)
        and any(positive(amounts[name]) for name in GPU_ATTRIBUTES if name in amounts),
        image=text(container.get("image"), "image"),
        gpu_count=sum([request.count for request in gpu_requests]),
        requests=requests,
        limits=limits,
        env_names=frozenset(dict(env)),
        command=_words(container["command"]) if "command" in container else (),
        args=_words(container["args"]) if "args" in container else (),
    )


def _gpu_request(gpu: Accelerator, requests: Mapping[str, Any], limits: Mapping[str, Any]) -> GpuRequest:
    """The GPUs count by the limit where there is one, else by the request.

    For a device class the request comes first: its limit may be larger, and the scheduler reads requests.
    """
    name = gpu.resource
    (request, fault), (limit, fault_of_limit) = _amount(name, requests), _amount(name, limits)
    if fault or fault_of_limit:
        fault = f"in requests: {fault}" if fault else f"in limits: {fault_of_limit}"
    first, second = (request, limit) if gpu.is_of_a_class else (limit, request)
    amount = second if first is None else first
    number = 0 if amount is None else max(ceil(amount), 0)
    return GpuRequest(gpu, request, limit, (requests.get(name), limits.get(name)), number, fault)


def _amount(resource: str, amounts: Mapping[str, Any]) -> tuple[Number | None, str]:
    """The amount of a resource and an empty text; or None and the reason, which is empty where the key is missing."""
    if resource not in amounts:
        return None, ""
    try:
        return parse_quantity(amounts[resource]), ""
    except FormatError as error:
        return None, str(error)


def _words(raw: object) -> tuple[str, ...]:
    return tuple([word for word in raw if isinstance(word, str)]) if isinstance(raw, list) else ()


def _env(entry: Mapping[str, Any]) -> tuple[str, str | None]:
    name, value = entry.get("name"), entry.get("value")
    if name.__class__ is str and value.__class__ is str and "valueFrom" not in entry:
        return name, value
    return text(name, "name"), None if entry.get("valueFrom") else text(value, "value")


def _mount(mount: Mapping[str, Any]) -> Mount:
    name, path, sub_path = mount.get("name"), mount.get("mountPath"), mount.get("subPath") or mount.get("subPathExpr")
    if name.__class__ is str and path.__class__ is str and sub_path is None:
        return Mount(name, path)
    return Mount(text(name, "name"), text(path, "mountPath"), text(sub_path, "subPath"))


def owner_kind(metadata: Mapping[str, Any]) -> str:
    """Kind of the controller that made the pod; empty where no controller made it.

    Anybody can write owner references, so nothing that protects other users may depend on them.
    """
    return text_at(_controller(metadata), "kind") if "ownerReferences" in metadata else ""


def controller_of(raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner reference of the controller that made an object; None where nothing controls it."""
    return _controller(mapped(raw, "metadata"))


def _controller(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((one for one in listed(metadata, "ownerReferences") if part(one, "controller") is True), None)


def is_made_or_ending(raw: Mapping[str, Any]) -> bool:
    """Whether a controller made the object, so that its owner is judged instead, or the object is being deleted."""
    return part(raw, "metadata", "deletionTimestamp") is not None or controller_of(raw) is not None
