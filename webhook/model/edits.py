"""The closed set of changes to a pod, as values. Nothing else writes pod JSON.

An edit adds. Two also take the place of something else, within bounds that their rules keep: SetPriorityClass and
SetActiveDeadline.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from webhook.model.container import Container
from webhook.model.draft import Draft
from webhook.model.fixed import fixed
from webhook.model.node import PriorityClass, Toleration
from webhook.model.selectors import Expression

REQUIRED = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
PREFERRED = ("spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")


@fixed(frozen=True, slots=True)
class AddToleration:
    """Let the pod onto nodes with a taint.

    `is_momentary` where that follows from resource claims as they are known at the moment: then the lack of it is not
    held against a pod.
    """

    toleration: Toleration
    is_momentary: bool = False
    is_preference: ClassVar[bool] = False

    def __str__(self) -> str:
        t = self.toleration
        value = f"={t.value}" if t.operator == "Equal" else f" {t.operator}"
        return f"toleration {(t.key + value).strip()}{':' + t.effect if t.effect else ''}"

    def write(self, draft: Draft) -> None:
        """Write it."""
        draft.append(("spec", "tolerations"), self.toleration.to_raw())


@fixed(frozen=True, slots=True)
class SetRuntimeClass:
    """Run the pod under a RuntimeClass."""

    name: str
    is_preference: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"runtimeClassName {self.name}"

    def write(self, draft: Draft) -> None:
        """Write it."""
        draft.put(("spec", "runtimeClassName"), self.name)


@fixed(frozen=True, slots=True)
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


@fixed(frozen=True, slots=True)
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


@fixed(frozen=True, slots=True)
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


@fixed(frozen=True, slots=True)
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


@fixed(frozen=True, slots=True)
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


@fixed(frozen=True, slots=True)
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


@fixed(frozen=True, slots=True)
class SetPriorityClass:
    """Give the pod a PriorityClass, in the place of the cluster's default class if it has that.

    `priority` and `preemptionPolicy` are what Kubernetes computed from the class that the pod had. Those of the new
    class take their place: Kubernetes refuses a pod in which they are those of another one, and does not compute them
    any more where this webhook is the last that changes the pod.
    """

    priority_class: PriorityClass
    is_preference: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"priorityClassName {self.priority_class.name}"

    def write(self, draft: Draft) -> None:
        """Write it."""
        policy = "PreemptLowerPriority" if self.priority_class.preempts else "Never"
        draft.replace(("spec", "priorityClassName"), self.priority_class.name)
        draft.replace(("spec", "priority"), self.priority_class.value)
        draft.replace(("spec", "preemptionPolicy"), policy)


@fixed(frozen=True, slots=True)
class SetActiveDeadline:
    """End the pod so many seconds after its start, whatever it says itself."""

    seconds: int
    is_preference: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"activeDeadlineSeconds {self.seconds}"

    def write(self, draft: Draft) -> None:
        """Write it."""
        draft.replace(("spec", "activeDeadlineSeconds"), self.seconds)


_REVISION = "pod-template-hash"
"""The label by which a Deployment tells its revisions apart."""


@fixed(frozen=True, slots=True)
class SpreadOverNodes:
    """Have the scheduler spread pods with these labels over nodes where it can.

    Pods of other revisions of their Deployment do not count, by matchLabelKeys (on since Kubernetes 1.27). What the
    scheduler does by default for pods that say nothing, a weak spread over nodes and zones, gives way to it. Zones are
    not named here, since nodes without a zone would be left out of the count.
    """

    labels: tuple[tuple[str, str], ...]
    is_preference: ClassVar[bool] = True

    @classmethod
    def of(cls, labels: Mapping[str, Any]) -> "SpreadOverNodes | None":
        """The spread of a pod with these labels over nodes; None where they say nothing that others share."""
        shared = ((key, value) for key, value in labels.items() if key != _REVISION and isinstance(value, str))
        ordered = tuple(sorted(shared))
        return cls(ordered) if ordered else None

    def __str__(self) -> str:
        return "topologySpreadConstraints over kubernetes.io/hostname"

    def write(self, draft: Draft) -> None:
        """Write it."""
        constraint = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": dict(self.labels)},
            "matchLabelKeys": [_REVISION],
        }
        draft.append(("spec", "topologySpreadConstraints"), constraint)


@fixed(frozen=True, slots=True)
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
    | SetPriorityClass
    | SetActiveDeadline
    | SpreadOverNodes
    | Annotate
)
"""Every change that can be made to a pod."""


def apply(raw: Mapping[str, Any], edits: Iterable[Edit]) -> Draft:
    """Apply the edits to a copy of the pod, which shares with it what no edit touches. `raw` is never changed."""
    draft = Draft(raw)
    for edit in edits:
        edit.write(draft)
    return draft
