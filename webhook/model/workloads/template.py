"""Pod templates of workloads, as values, and how readers make them of one or several parts of an object.

A template may have the /dev/shm that an operator mounts by itself, so that no finding predicts another one.

Placeholders, such as `{{workflow.parameters.gpus}}`, are filled in later, and their values are unknown until then. They
are removed from a pod, so that rules do not judge a guess: rules then see no image, or no constraint on nodes. A pod
whose number of GPUs is a placeholder is not judged at all.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Any

from webhook.model.accelerators import DEVICE_CLASSES
from webhook.model.json_parts import entries, listed, mapped, part, text
from webhook.model.pod import APP, INIT, Mount
from webhook.model.requirements import is_extended

MOST_PODS = 2**31 - 1
"""The largest count in Kubernetes, which has 32 bits."""

_FILLED_IN = "filled in"
"""Stands for an amount that another program fills in. It is no quantity, so it is never compared with one."""
_SPEC = "spec"
_NOWHERE: Mapping[str, str] = MappingProxyType({})
_PART = re.compile(r"[.\[]")
_MOST_PARTS = 8
"""Most parts of a field that are tried in `elsewhere`; only names with many dots have more."""


@dataclass(frozen=True, slots=True)
class Template:
    """One pod template of a workload.

    `pod` is a pod of the template, `{"metadata": ..., "spec": ...}`, composed of its parts where the kind keeps them in
    several places. It shares parts with the object and must not be changed.
    """

    pod: Mapping[str, Any]
    path: str
    """Place of its spec in the object, such as `spec.template.spec`."""
    group: str = ""
    """The object's name for these pods, such as `Worker`; empty where it has only one template."""
    pods: int | None = None
    """The number of these pods that run at a time; None where the object does not say."""
    is_per_node: bool = False
    """Whether each pod is made for one node, as by a DaemonSet, so that its own spec does not decide where it runs."""
    owner_kind: str = ""
    """Kind of the pods' controller, such as ReplicaSet; empty where it is not known."""
    is_validated: bool = False
    """Whether the API server validates the template as it validates pods, and refuses the object itself."""
    elsewhere: Mapping[str, str] = field(default_factory=lambda: _NOWHERE)
    """Place in the pod -> place of its value in the object, for parts that are not below `path`."""
    unknown: frozenset[str] = frozenset()
    """Places in the pod whose values are unknown, because they are filled in later."""
    is_queued: bool = False
    """Whether a queue decides later where the pods run."""
    labels: Mapping[str, str] = field(default_factory=lambda: _NOWHERE)
    """Labels that the controller will add and rules look for, and marks; their values are empty: they are not known."""
    told: tuple[str, str, str] | None = None
    """What its author should know of the template itself: a place in the pod, what was found, and the remedy."""

    @property
    def made(self) -> Mapping[str, Any]:
        """`pod` with the owner reference and the labels that its controller will add."""
        metadata = part(self.pod, "metadata")
        if not isinstance(self.pod, dict) or not isinstance(metadata, dict | None):
            return self.pod
        added: dict[str, Any] = {}
        if self.owner_kind:
            added["ownerReferences"] = [{"kind": self.owner_kind, "controller": True}]
        own = (metadata or {}).get("labels")
        if self.labels and (own is None or isinstance(own, dict)):
            added["labels"] = {**self.labels, **(own or {})}
        return {**self.pod, "metadata": {**(metadata or {}), **added}} if added else self.pod

    def place(self, field: str) -> str:
        """The place in the object of the value at `field` of the pod.

        >>> Template({}, "spec.template.spec").place("spec.containers[a].image")
        'spec.template.spec.containers[a].image'
        >>> somewhere = {"spec.containers[main]": "spec.templates[train].container"}
        >>> Template({}, "spec.templates[train]", elsewhere=somewhere).place("spec.containers[main].resources")
        'spec.templates[train].container.resources'
        """
        for above in _above(field):
            if above in self.elsewhere:
                return self.elsewhere[above] + field[len(above) :]
        if field == _SPEC or field.startswith(f"{_SPEC}."):
            return self.path + field[len(_SPEC) :]
        return f"{self.path.removesuffix('.spec')}.{field}"

    def is_unknown(self, field: str) -> bool:
        """Whether the value at `field` of the pod is filled in later."""
        return any(above in self.unknown for above in _above(field))


def _above(field: str) -> Iterator[str]:
    """A field and the fields around it, from the inside out; at most a few for a very long field.

    >>> list(_above("spec.containers[main].image"))
    ['spec.containers[main].image', 'spec.containers[main]', 'spec.containers', 'spec']
    """
    yield field
    ends = [match.start() for match in islice(_PART.finditer(field), _MOST_PARTS)]
    for end in reversed(ends):
        yield field[:end]


def count_of(value: object, otherwise: int | None) -> int | None:
    """A count in a manifest; `otherwise` where the value is missing, and None where it is no count.

    >>> count_of(4, 1), count_of(None, 1), count_of("{{n}}", 1), count_of(-1, 1)
    (4, 1, None, None)
    """
    if value is None:
        return otherwise
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_PODS else None


def at_least_one(value: object) -> int | None:
    """A count in a manifest that is 1 where it is missing or 0; None where it is no count."""
    count = count_of(value, 1)
    return None if count is None else max(count, 1)


def annotated_count(annotations: Mapping[str, Any], keys: Iterable[str]) -> int | None:
    """The count in the first of these annotations that is there; None for 0, and where there is none."""
    written = next((annotations[key] for key in keys if key in annotations), None)
    if not isinstance(written, str) or not (written.isascii() and written.isdigit() and len(written) < 10):
        return None
    return int(written) or None


def product(*counts: int | None) -> int | None:
    """The product of these counts; None where one of them is None.

    >>> product(2, 3), product(0, None)
    (6, None)
    """
    total = 1
    for count in counts:
        if count is None:
            return None
        total *= count
    return total


def with_the_rest(resources: Mapping[str, Any]) -> dict[str, Any]:
    """The resources of a container, with memory and CPU marked as filled in by another program where they are missing.

    >>> with_the_rest({"limits": {"nvidia.com/gpu": 1, "memory": "8Gi"}})["limits"]
    {'memory': '8Gi', 'nvidia.com/gpu': 1}
    """
    limits, requests = (resources.get(key) or {} for key in ("limits", "requests"))
    if not (isinstance(limits, dict) and isinstance(requests, dict)):
        return dict(resources)
    cpu = {} if "cpu" in limits else {"cpu": _FILLED_IN}
    return {**resources, "limits": {"memory": _FILLED_IN, **limits}, "requests": {**cpu, **requests}}


def pods_of_job(spec: object) -> int | None:
    """The number of pods that a Job with this spec runs at a time; None where its counts cannot be read."""
    parallelism, completions = count_of(part(spec, "parallelism"), 1), count_of(part(spec, "completions"), MOST_PODS)
    return None if parallelism is None or completions is None else min(parallelism, completions)


def pods_of_replicated_job(job: Mapping[str, Any]) -> int | None:
    """The number of pods that a job of a JobSet runs at a time."""
    return product(replicas(job), pods_of_job(part(job, "template", "spec")))


def from_template(
    template: object, where: str, *, group: str = "", pods: int | None = None, owner_kind: str = ""
) -> Iterator[Template]:
    """The template at `where` of an object; none where it has no spec."""
    if mapped(template, "spec"):
        yield Template(mapped(template), f"{where}.spec", group, pods, owner_kind=owner_kind)


def from_spec(
    spec: object, where: str, *, group: str = "", pods: int | None = None, annotated: Mapping[str, Any] | None = None
) -> Iterator[Template]:
    """The template of the bare pod spec at `where` of an object; none where it has no containers.

    `annotated` is the map beside or above the spec that has the pods' `annotations`.
    """
    if listed(spec, "containers"):
        yield Template({"metadata": annotated or {}, "spec": mapped(spec)}, where, group, pods)


Reader = Callable[[Mapping[str, Any]], Iterator[Template]]
"""Finds the templates of an object of one kind. Missing and malformed parts yield no template; nothing is raised."""
_Count = Callable[[Mapping[str, Any]], int | None]


def replicas(raw: Mapping[str, Any]) -> int | None:
    """The count in `replicas`, which is 1 where it is missing."""
    return count_of(raw.get("replicas"), 1)


def at(path: str, read: Callable[[Any, str], Iterator[Template]]) -> Reader:
    """The reader of kinds whose pods are described by the map at `path`, which `read` gets with its place."""
    keys = path.split(".")
    return lambda raw: read(mapped(raw, *keys), path)


def templates_in(parts: str, template: str, pods: _Count = replicas, owner_kind: str = "") -> Reader:
    """The reader of kinds with a list or map of parts, each with a template. `pods` counts those of one part."""

    def read(raw: Mapping[str, Any]) -> Iterator[Template]:
        for where, name, one in entries(raw, *parts.split(".")):
            found = part(one, *template.split("."))
            yield from from_template(found, f"{where}.{template}", group=name, pods=pods(one), owner_kind=owner_kind)

    return read


_LEVELS = 4
"""Levels of maps that are merged: template, container, resources, limits."""
_MOST_WORK = 1_000_000
"""Most values of defaults that are merged, for all parts together."""


def merged(defaults: Mapping[str, Any], own: Mapping[str, Any], levels: int = _LEVELS) -> dict[str, Any]:
    """A part's own values, and defaults for missing values. Items of lists are matched by name.

    >>> merged({"limits": {"cpu": 1}, "image": "a"}, {"limits": {"memory": 2}, "image": "b"})
    {'limits': {'cpu': 1, 'memory': 2}, 'image': 'b'}
    """
    whole = {**defaults, **{key: value for key, value in own.items() if value is not None}}
    for key in defaults.keys() & own.keys():
        whole[key] = _merged_value(defaults[key], own[key], levels - 1)
    return whole


def _merged_value(default: Any, own: Any, levels: int) -> Any:
    if own is None:
        return default
    if isinstance(default, dict) and isinstance(own, dict) and levels:
        return merged(default, own, levels)
    if isinstance(default, list) and isinstance(own, list) and _are_named(default) and _are_named(own):
        names = {item["name"] for item in own}
        return [*(item for item in default if item["name"] not in names), *own]
    return own


def _are_named(items: list[Any]) -> bool:
    return all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items)


def is_worth(defaults: object, parts: int) -> bool:
    """Whether defaults are small enough to be merged into this many parts, as in every manifest that people write."""
    most = _MOST_WORK // max(parts, 1)
    rest, seen = [defaults], 0
    while rest:
        value = rest.pop()
        seen += 1
        if seen > most:
            return False
        if isinstance(value, dict):
            rest.extend(value.values())
        elif isinstance(value, (list, tuple)):
            rest.extend(value)
    return True


def mounted(volumes: Mapping[str, Any], *containers: list[Any]) -> Iterator[Any]:
    """The volumes that one of these containers mounts; `volumes`: name -> volume."""
    names = (part(mount, "name") for some in containers for one in some for mount in listed(one, "volumeMounts"))
    for name in dict.fromkeys(name for name in names if isinstance(name, str)):
        if name in volumes:
            yield volumes[name]


_DIRECTORY = "/dev/shm"  # noqa: S108  # where the memory of a pod is shared


def with_shared_memory(template: Template, container: int | str, volume: str, size: object = None) -> Template:
    """The template with the memory volume that its operator mounts in one container.

    `container` is its place in the list, or its name. A container that mounts something at /dev/shm keeps it, and an
    existing volume of this name is used as it is. `size` is the operator's sizeLimit. No finding is about the
    operator's volume, because it cannot be changed in the object.
    """
    spec = mapped(template.pod, "spec")
    containers = list(listed(spec, "containers"))
    at = _place(containers, container)
    if not isinstance(spec.get("volumes"), list | None):
        return template
    if at is None:
        return template
    paths = (text(mount, "mountPath") for mount in listed(containers[at], "volumeMounts"))
    if any(Mount("", path).is_at(_DIRECTORY) for path in paths):
        return template
    mount = {"name": volume, "mountPath": _DIRECTORY}
    containers[at] = {**containers[at], "volumeMounts": [*listed(containers[at], "volumeMounts"), mount]}
    changed, unknown = {**spec, "containers": containers}, template.unknown
    if not any(part(one, "name") == volume for one in listed(spec, "volumes")):
        memory = {"medium": "Memory"} if size is None else {"medium": "Memory", "sizeLimit": size}
        changed["volumes"] = [*listed(spec, "volumes"), {"name": volume, "emptyDir": memory}]
        unknown |= {f"spec.volumes[{volume}]"}
    return replace(template, pod={**template.pod, "spec": changed}, unknown=unknown)


def _place(containers: list[Any], wanted: int | str) -> int | None:
    """The place of a container in the list; None where it is missing or its volumeMounts are no list."""
    for at, container in enumerate(containers):
        if wanted in (at, part(container, "name")):
            mounts = part(container, "volumeMounts")
            return at if isinstance(container, dict) and (mounts is None or isinstance(mounts, list)) else None
    return None


_PLACEHOLDER = re.compile(
    r"\{\{|\$[({A-Za-z_]|<[^<>]*[a-z][^<>]*>|^(your[-_].*|.*[-_]here|placeholder|todo|fixme|tbd|xxx+|%\w+%|@\w+@|__\w+__)$"
    r"|(^|[-_])(replace|change)[-_]?(me|this|with)([-_]|$)",
    re.IGNORECASE,
)
"""`{{...}}` of Argo and of templates in Go, `${...}`, `$(...)` and `$NAME` of many others, and what people write to be
replaced by people: `<name>`, `your-node`, `REPLACE_ME`.
"""
FILL_IN = ("it is a placeholder of a template", "Fill in the template first")
"""What a message says of a placeholder: what it is, and the remedy."""
_ANYWHERE: tuple[Mapping[str, Any], ...] = ({"operator": "Exists"},)
_NODES = ("nodeSelector", "affinity", "runtimeClassName", "nodeName")
_DEADLINE, _PRIORITY = "activeDeadlineSeconds", "priorityClassName"


def is_placeholder(value: object) -> bool:
    """Whether a value is a text with a placeholder."""
    return isinstance(value, str) and _PLACEHOLDER.search(value) is not None


def settled_template(template: Template) -> Iterator[Template]:
    """The template without placeholders; no template where the number of GPUs is a placeholder."""
    found = settled(template.pod)
    if found is not None:
        yield replace(template, pod=found[0], unknown=template.unknown | found[1])


def settled(pod: Mapping[str, Any]) -> tuple[Mapping[str, Any], frozenset[str]] | None:
    """The pod without placeholders, and their places, such as `spec.containers[main].image`.

    None where the number of GPUs is a placeholder.
    """
    spec = mapped(pod, "spec")
    containers = list(_containers(spec))
    if any(map(_asks_for_unknown, (container for _, container in containers))):
        return None
    unknown = frozenset(f"{where}{field}" for where, container in containers for field in _unknown(container))
    unknown |= {f"spec.{key}" for key in (_DEADLINE, _PRIORITY) if is_placeholder(spec.get(key))}
    open_parts = [key for key in (*_NODES, _DEADLINE, "tolerations") if key in spec and _holds_placeholder(spec[key])]
    annotations = mapped(pod, "metadata", "annotations")
    settled_annotations = {key: value for key, value in annotations.items() if not is_placeholder(value)}
    if open_parts:
        kept = {key: value for key, value in spec.items() if key not in open_parts}
        if "tolerations" in open_parts:
            kept["tolerations"] = list(_ANYWHERE)
        pod = {**pod, "spec": kept}
    if len(settled_annotations) < len(annotations):
        pod = {**pod, "metadata": {**mapped(pod, "metadata"), "annotations": settled_annotations}}
    return pod, unknown


def _containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key in (INIT, APP):
        for index, container in enumerate(listed(spec, key)):
            if isinstance(container, dict):
                yield f"spec.{key}[{text(container, 'name') or index}]", container


def _asks_for_unknown(container: Mapping[str, Any]) -> bool:
    """Whether a placeholder may stand for GPUs. The policy is not known here, and may declare their name."""
    for key in ("requests", "limits"):
        amounts = part(container, "resources", key)
        if is_placeholder(amounts) or any(
            is_placeholder(name) or (is_placeholder(amount) and (is_extended(name) or name.startswith(DEVICE_CLASSES)))
            for name, amount in mapped(amounts).items()
        ):
            return True
    return is_placeholder(container.get("resources"))


def _unknown(container: Mapping[str, Any]) -> Iterator[str]:
    if is_placeholder(container.get("image")):
        yield ".image"
    for entry in listed(container, "env"):
        if is_placeholder(part(entry, "value")):
            yield f".env[{part(entry, 'name')}]"


def _holds_placeholder(value: object) -> bool:
    """Whether any text in `value` has a placeholder."""
    rest = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, dict):
            rest.extend(one)
            rest.extend(one.values())
        elif isinstance(one, list):
            rest.extend(one)
        elif is_placeholder(one):
            return True
    return False
