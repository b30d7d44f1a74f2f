"""The closed set of changes to a pod, as values. This is the only code that writes pod JSON.

An edit only ever adds. `apply` copies what it changes and nothing else, and gives the JSON Patch (RFC 6902) that makes
the same change.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from webhook.model.container import Container
from webhook.model.selectors import Expression
from webhook.model.tolerations import Toleration

Path = tuple[str | int, ...]

REQUIRED = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
PREFERRED = ("spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")


class Draft:
    """A pod being completed: the changed copy and the operations so far."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.object: dict[str, Any] = dict(raw)
        self.patch: list[dict[str, Any]] = []
        self._owned: dict[int, Any] = {id(self.object): self.object}  # kept alive, or an id might be given again

    def get(self, path: Path) -> Any:
        """What stands at `path` of the pod; None where nothing does."""
        current: Any = self.object
        for key in path:
            if isinstance(key, int):
                current = current[key] if isinstance(current, list) and key < len(current) else None
            else:
                current = current.get(key) if isinstance(current, dict) else None
        return current

    def put(self, path: Path, value: Any) -> None:
        """Add a map entry, with the maps above it where they are missing."""
        parent, depth = self._reach(path[:-1])
        for missing in reversed(path[depth + 1 :]):
            value = {missing: value}
        parent[path[depth]] = value
        operation = "add" if isinstance(parent, dict) else "replace"  # add to a list would insert before its null
        self.patch.append({"op": operation, "path": _pointer(path[: depth + 1]), "value": value})

    def append(self, path: Path, value: Any) -> None:
        """Append to a list, making it where it is missing or empty."""
        parent, depth = self._reach(path)
        if depth < len(path) or not parent:
            self.put(path, [value])
        else:
            parent.append(value)
            self.patch.append({"op": "add", "path": _pointer(path) + "/-", "value": value})

    def _reach(self, path: Path) -> tuple[Any, int]:
        """The last part on the way down `path` that exists, free to be changed, and how many keys lead to it."""
        parent: Any = self.object
        for depth, key in enumerate(path):
            child = parent[key] if isinstance(key, int) else parent.get(key)
            if child is None:
                return parent, depth
            if id(child) not in self._owned:
                child = dict(child) if isinstance(child, dict) else list(child)
                parent[key] = child
                self._owned[id(child)] = child
            parent = child
        return parent, len(path)


@lru_cache(maxsize=1024)
def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _pointer(path: Path) -> str:
    return "/" + "/".join([_escape(part) if part.__class__ is str else str(part) for part in path])


@dataclass(frozen=True, slots=True)
class AddToleration:
    """Let the pod onto nodes with a taint."""

    toleration: Toleration
    is_preference: ClassVar[bool] = False

    def __str__(self) -> str:
        t = self.toleration
        value = f"={t.value}" if t.operator == "Equal" else f" {t.operator}"
        return f"toleration {(t.key + value).strip()}{':' + t.effect if t.effect else ''}"

    def write(self, draft: Draft) -> None:
        """Write it."""
        draft.append(("spec", "tolerations"), self.toleration.to_raw())


@dataclass(frozen=True, slots=True)
class SetRuntimeClass:
    """Run the pod under a RuntimeClass."""

    name: str
    is_preference: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"runtimeClassName {self.name}"

    def write(self, draft: Draft) -> None:
        """Write it."""
        draft.put(("spec", "runtimeClassName"), self.name)


@dataclass(frozen=True, slots=True)
class AddMemoryVolume:
    """Give the pod a memory-backed emptyDir. `size_limit` is a quantity."""

    name: str
    size_limit: str
    is_preference: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"memory volume {self.name} of {self.size_limit}"

    def write(self, draft: Draft) -> None:
        """Write it."""
        volume = {"name": self.name, "emptyDir": {"medium": "Memory", "sizeLimit": self.size_limit}}
        draft.append(("spec", "volumes"), volume)


@dataclass(frozen=True, slots=True)
class AddMount:
    """Mount a volume in a container."""

    container: Container
    volume: str
    directory: str
    is_preference: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"mount {self.directory} in {self.container.name or self.container.path}"

    def write(self, draft: Draft) -> None:
        """Write it."""
        mount = {"name": self.volume, "mountPath": self.directory}
        draft.append(("spec", self.container.list_name, self.container.index, "volumeMounts"), mount)


@dataclass(frozen=True, slots=True)
class AddEnv:
    """Set an environment variable of a container."""

    container: Container
    name: str
    value: str
    is_preference: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"env {self.name}={self.value} in {self.container.name or self.container.path}"

    def write(self, draft: Draft) -> None:
        """Write it."""
        entry = {"name": self.name, "value": self.value}
        draft.append(("spec", self.container.list_name, self.container.index, "env"), entry)


@dataclass(frozen=True, slots=True)
class RequireNodes:
    """Add an expression to one term of the required node affinity, or make the first term (`term` is None)."""

    expression: Expression
    term: int | None
    is_preference: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"required node affinity {self.expression}"

    def write(self, draft: Draft) -> None:
        """Write it. Several expressions for a missing affinity end in one term, because terms are ORed."""
        terms = (*REQUIRED, "nodeSelectorTerms")
        if self.term is None and not draft.get(terms):
            draft.append(terms, {"matchExpressions": [self.expression.to_raw()]})
        else:
            draft.append((*terms, self.term or 0, "matchExpressions"), self.expression.to_raw())


@dataclass(frozen=True, slots=True)
class PreferNodes:
    """Add a preferred node affinity. `weight` is from 1 to 100."""

    expression: Expression
    weight: int
    is_preference: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"preferred node affinity {self.expression} of weight {self.weight}"

    def write(self, draft: Draft) -> None:
        """Write it."""
        preference = {"matchExpressions": [self.expression.to_raw()]}
        draft.append(PREFERRED, {"weight": self.weight, "preference": preference})


@dataclass(frozen=True, slots=True)
class AddGpuLimit:
    """Add to a container's limits the GPUs that stand in its requests only. `quantity` is as the user wrote it."""

    container: Container
    resource: str
    quantity: str
    is_preference: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"limit {self.resource}={self.quantity} in {self.container.name or self.container.path}"

    def write(self, draft: Draft) -> None:
        """Write it."""
        container = ("spec", self.container.list_name, self.container.index)
        draft.put((*container, "resources", "limits", self.resource), self.quantity)


@dataclass(frozen=True, slots=True)
class Annotate:
    """Tell people what was done to the pod."""

    key: str
    value: str
    is_preference: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"annotation {self.key}={self.value}"

    def write(self, draft: Draft) -> None:
        """Write it."""
        draft.put(("metadata", "annotations", self.key), self.value)


Edit = (
    AddToleration
    | SetRuntimeClass
    | AddMemoryVolume
    | AddMount
    | AddEnv
    | RequireNodes
    | PreferNodes
    | AddGpuLimit
    | Annotate
)
"""Every change that can be made to a pod."""


def apply(raw: Mapping[str, Any], edits: Iterable[Edit]) -> Draft:
    """Apply the edits to a copy of the pod, which shares with it what no edit touches. `raw` is never changed."""
    draft = Draft(raw)
    for edit in edits:
        edit.write(draft)
    return draft
