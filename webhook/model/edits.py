"""The closed set of changes to a pod, as values. No other code writes pod JSON.

Edits add. Only SetPriorityClass and SetActiveDeadline may also replace a value, within the bounds of their rules.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from webhook.model.node import PriorityClass, Toleration
from webhook.model.pod import POD_TEMPLATE_HASH, Container
from webhook.model.selectors import Expression

Path = tuple[str | int, ...]

MOST_OPERATIONS = 10_000
"""Most operations of a JSON Patch that a client may send (`maxJSONPatchOperations` of k8s.io/apiserver)."""

LONGEST_PATCH = 3 * 1024**2
"""Most bytes of a JSON Patch: `MaxRequestBodyBytes` of k8s.io/apiserver. Our patches only add, so an object with a
longer patch would be too large for the API server."""


class Draft:
    """The changed copy of a pod, and the operations of its JSON Patch so far."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.object = dict(raw)
        self.patch: list[dict[str, Any]] = []
        self._copies: dict[int, Any] = {}
        """The copied maps and lists below, which may be changed, by their id()."""

    def get(self, path: Path) -> Any:
        current: Any = self.object
        for key in path:
            if isinstance(key, int):
                current = current[key] if isinstance(current, list) and key < len(current) else None
            else:
                current = current.get(key) if isinstance(current, dict) else None
            if current is None:
                return None
        return current

    def put(self, path: Path, value: Any) -> None:
        self._add(*self._reach(path[:-1]), path, value)

    def replace(self, path: Path, value: Any) -> None:
        if self.get(path) is None:
            self.put(path, value)
            return
        parent, _ = self._reach(path[:-1])
        parent[path[-1]] = value
        self.patch.append({"op": "replace", "path": _pointer(path), "value": value})

    def append(self, path: Path, value: Any) -> None:
        parent, depth = self._reach(path)
        if depth < len(path):
            self._add(parent, depth, path, [value])
        elif not parent:
            self.put(path, [value])
        else:
            parent.append(value)
            self.patch.append({"op": "add", "path": _pointer(path) + "/-", "value": value})

    def _add(self, parent: Any, depth: int, path: Path, value: Any) -> None:
        """Add the missing part of `path`. The first `depth` keys lead to `parent`, the last part that exists."""
        for missing in reversed(path[depth + 1 :]):
            value = {missing: value}
        key = path[depth]
        parent[key] = value
        operation = "replace" if parent.__class__ is list else "add"  # add to a list would insert before its null
        self.patch.append({"op": operation, "path": _pointer(path[: depth + 1]), "value": value})

    def _reach(self, path: Path) -> tuple[Any, int]:
        """The last existing part on the way down `path`, copied for changes, and the number of keys that lead to it."""
        part: Any = self.object
        for depth, key in enumerate(path):
            found = None if part.__class__ is dict and key not in part else part[key]
            if found is None:
                return part, depth
            if id(found) not in self._copies:
                part[key] = found = found.copy()
                self._copies[id(found)] = found
            part = found
        return part, len(path)


@lru_cache(maxsize=4096)
def _pointer(path: Path) -> str:
    return "/" + "/".join([str(part).replace("~", "~0").replace("/", "~1") for part in path])


REQUIRED = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
PREFERRED = ("spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")


class Edit:
    """A change to a pod."""

    __slots__ = ()

    is_preference: ClassVar[bool] = False
    """Whether the pod also runs without the edit, so that its absence alone never refuses a pod."""

    def write(self, draft: Draft) -> None:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class AddToleration(Edit):
    """Let the pod onto nodes with a taint."""

    toleration: Toleration

    def __str__(self) -> str:
        t = self.toleration
        value = f"={t.value}" if t.operator == "Equal" else f" {t.operator}"
        return f"toleration {(t.key + value).strip()}{':' + t.effect if t.effect else ''}"

    def write(self, draft: Draft) -> None:
        draft.append(("spec", "tolerations"), self.toleration.to_raw())


@dataclass(frozen=True, slots=True)
class SetRuntimeClass(Edit):
    """Run the pod under a RuntimeClass."""

    name: str

    def __str__(self) -> str:
        return f"runtimeClassName {self.name}"

    def write(self, draft: Draft) -> None:
        draft.put(("spec", "runtimeClassName"), self.name)


@dataclass(frozen=True, slots=True)
class AddMemoryVolume(Edit):
    """Give the pod a memory-backed emptyDir. `size_limit` is a quantity."""

    name: str
    size_limit: str

    def __str__(self) -> str:
        return f"memory volume {self.name} of {self.size_limit}"

    def write(self, draft: Draft) -> None:
        volume = {"name": self.name, "emptyDir": {"medium": "Memory", "sizeLimit": self.size_limit}}
        draft.append(("spec", "volumes"), volume)


@dataclass(frozen=True, slots=True)
class AddMount(Edit):
    """Mount a volume in a container."""

    container: Container
    volume: str
    directory: str

    def __str__(self) -> str:
        return f"mount {self.directory} in {self.container.name or self.container.path}"

    def write(self, draft: Draft) -> None:
        mount = {"name": self.volume, "mountPath": self.directory}
        draft.append(("spec", self.container.list_name, self.container.index, "volumeMounts"), mount)


@dataclass(frozen=True, slots=True)
class AddEnv(Edit):
    """Set an environment variable of a container."""

    container: Container
    name: str
    value: str

    def __str__(self) -> str:
        return f"env {self.name}={self.value} in {self.container.name or self.container.path}"

    def write(self, draft: Draft) -> None:
        entry = {"name": self.name, "value": self.value}
        draft.append(("spec", self.container.list_name, self.container.index, "env"), entry)


@dataclass(frozen=True, slots=True)
class RequireNodes(Edit):
    """Add an expression to one term of the required node affinity, or make the first term (`term` is None)."""

    expression: Expression
    term: int | None

    def __str__(self) -> str:
        return f"required node affinity {self.expression}"

    def write(self, draft: Draft) -> None:
        """Append to a term. Several expressions for a missing affinity go into one term, because terms are ORed."""
        terms = (*REQUIRED, "nodeSelectorTerms")
        if self.term is None and not draft.get(terms):
            draft.append(terms, {"matchExpressions": [self.expression.to_raw()]})
        else:
            draft.append((*terms, self.term or 0, "matchExpressions"), self.expression.to_raw())


@dataclass(frozen=True, slots=True)
class PreferNodes(Edit):
    """Add a preferred node affinity. `weight` is from 1 to 100."""

    expression: Expression
    weight: int
    is_preference: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"preferred node affinity {self.expression} of weight {self.weight}"

    def write(self, draft: Draft) -> None:
        preference = {"matchExpressions": [self.expression.to_raw()]}
        draft.append(PREFERRED, {"weight": self.weight, "preference": preference})


@dataclass(frozen=True, slots=True)
class AddGpuLimit(Edit):
    """Add GPUs to a container's limits that only its requests have. `quantity` is as the user wrote it."""

    container: Container
    resource: str
    quantity: str

    def __str__(self) -> str:
        return f"limit {self.resource}={self.quantity} in {self.container.name or self.container.path}"

    def write(self, draft: Draft) -> None:
        container = ("spec", self.container.list_name, self.container.index)
        draft.put((*container, "resources", "limits", self.resource), self.quantity)


@dataclass(frozen=True, slots=True)
class SetPriorityClass(Edit):
    """Give the pod a PriorityClass; a pod with the cluster's default class gets this class instead.

    Kubernetes has computed `priority` and `preemptionPolicy` from the class that the pod had. The values of the new
    class replace them: Kubernetes refuses a pod with the values of another class, and does not compute them again if
    this webhook is the last to change the pod.
    """

    priority_class: PriorityClass

    def __str__(self) -> str:
        return f"priorityClassName {self.priority_class.name}"

    def write(self, draft: Draft) -> None:
        policy = "PreemptLowerPriority" if self.priority_class.preempts else "Never"
        draft.replace(("spec", "priorityClassName"), self.priority_class.name)
        draft.replace(("spec", "priority"), self.priority_class.value)
        draft.replace(("spec", "preemptionPolicy"), policy)


@dataclass(frozen=True, slots=True)
class SetActiveDeadline(Edit):
    """End the pod this many seconds after its start, whatever deadline the pod sets itself."""

    seconds: int

    def __str__(self) -> str:
        return f"activeDeadlineSeconds {self.seconds}"

    def write(self, draft: Draft) -> None:
        draft.replace(("spec", "activeDeadlineSeconds"), self.seconds)


@dataclass(frozen=True, slots=True)
class SpreadOverNodes(Edit):
    """Have the scheduler spread pods with these labels over nodes where it can.

    Pods of other revisions of their Deployment do not count, by matchLabelKeys (on since Kubernetes 1.27). The
    constraint replaces the scheduler's default, a weak spread over nodes and zones. Zones are not named here, because
    nodes without a zone would be left out of the count.
    """

    labels: tuple[tuple[str, str], ...]
    is_preference: ClassVar[bool] = True

    @classmethod
    def of(cls, labels: Mapping[str, Any]) -> "SpreadOverNodes | None":
        """The spread of a pod with these labels over nodes; None where no label can be shared with other pods."""
        shared = ((key, value) for key, value in labels.items() if key != POD_TEMPLATE_HASH and isinstance(value, str))
        ordered = tuple(sorted(shared))
        return cls(ordered) if ordered else None

    def __str__(self) -> str:
        return "topologySpreadConstraints over kubernetes.io/hostname"

    def write(self, draft: Draft) -> None:
        constraint = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": dict(self.labels)},
            "matchLabelKeys": [POD_TEMPLATE_HASH],
        }
        draft.append(("spec", "topologySpreadConstraints"), constraint)


@dataclass(frozen=True, slots=True)
class Annotate(Edit):
    """Add an annotation, which says how the pod was changed."""

    key: str
    value: str
    is_preference: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"annotation {self.key}={self.value}"

    def write(self, draft: Draft) -> None:
        draft.put(("metadata", "annotations", self.key), self.value)


def apply(raw: Mapping[str, Any], edits: Iterable[Edit]) -> Draft:
    """Apply the edits to a copy of the pod, which shares all untouched parts. `raw` is never changed."""
    draft = Draft(raw)
    for edit in edits:
        edit.write(draft)
    return draft
