"""Groups of pods that start together: how a pod names its group, and how many pods of which parts the group needs.

A pod names an object of the API server. That object alone says how large the group is, because anybody can write labels
and annotations. Pods and objects are as the API server has them; what cannot be read makes no group.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any

from webhook.model.json_parts import listed, mapped, part, text
from webhook.model.pod_reader import controller_of
from webhook.model.workloads.table import workload_of
from webhook.model.workloads.template import MOST_PODS, count_of, templates_in

_LONGEST = 253
"""Characters of the name of an object."""
_MOST_PARTS = 64
"""Most parts of a group that are read: authors write them."""

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupPart:
    """Pods of a group that are alike: how many start together, and the pod that they are made of, if that is known."""

    name: str
    size: int
    template: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A group as its object says it. `is_lasting`: its pods are made one after the other, when others are ready.

    `resources` are what its pods request together, as `minResources` has them; None where nothing says so.
    A group that `has_begun` was there as a whole once, at least in a part: a pod of it that comes now replaces another
    one, and others may have finished. One that `has_started` needs no more room.
    """

    uid: str
    parts: tuple[GroupPart, ...]
    is_lasting: bool = False
    has_begun: bool = False
    has_started: bool = False
    resources: Mapping[str, Any] | None = None


def _label(key: str) -> Path:
    return ("metadata", "labels", key)


def _annotation(key: str) -> Path:
    return ("metadata", "annotations", key)


_Raw = Mapping[str, Any]
_Parts = Callable[[_Raw], Iterator[tuple[str, int | None, _Raw | None]]]


def _templates(change: Callable[[_Raw], _Raw]) -> _Parts:
    """The reader of kinds with templates, of the object as `change` leaves it: with one group, and its minimum."""

    def read(raw: _Raw) -> Iterator[tuple[str, int | None, _Raw | None]]:
        kind = workload_of(raw.get("apiVersion"), raw.get("kind"))
        for one in () if kind is None else kind.templates(change(raw)):
            yield one.group, one.pods, one.pod

    return read


def _changed(raw: _Raw, **spec: Any) -> _Raw:
    return {**raw, "spec": {**mapped(raw, "spec"), **spec}}


def _at_first(raw: _Raw) -> _Raw:
    """A JobSet without the jobs that wait for others."""
    jobs = [one for one in listed(raw, "spec", "replicatedJobs") if not part(one, "dependsOn")]
    return _changed(raw, replicatedJobs=jobs)


def _at_least(raw: _Raw) -> _Raw:
    """A RayCluster with the fewest workers."""
    workers = [{**one, "replicas": None} for one in listed(raw, "spec", "workerGroupSpecs") if isinstance(one, dict)]
    return _changed(raw, workerGroupSpecs=workers)


_POD_SETS = templates_in("spec.podSets", "template", lambda one: count_of(one.get("count"), 1))


def _admitted(raw: _Raw) -> Iterator[tuple[str, int | None, _Raw | None]]:
    """The pod sets of a Workload of Kueue as it was admitted, without the pods that have finished."""
    assigned = listed(raw, "status", "admission", "podSetAssignments")
    counts = {text(one, "name"): part(one, "count") for one in assigned}
    finished = {text(one, "name"): part(one, "count") for one in listed(raw, "status", "reclaimablePods")}
    for one in _POD_SETS(raw):
        if one.group in counts and (count := count_of(counts[one.group], one.pods)) is not None:
            yield one.group, max(0, count - (count_of(finished.get(one.group), 0) or 0)), one.pod


@dataclass(frozen=True, slots=True)
class GroupKind:
    """A kind of object that groups are read from. `names` are the places where a pod may name it, best first.

    `part` is where a pod says its part, in the words of `words`, or else as the object does. `within` tells the groups
    of one object apart. `uid` is where a pod says the uid of the object.
    """

    group: str
    kind: str
    versions: tuple[str, ...]
    names: tuple[Path, ...]
    parts: _Parts
    part: Path = ()
    words: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    otherwise: str | None = None
    within: Path = ()
    uid: Path = ()
    is_lasting: Callable[[_Raw, _Raw], bool] = lambda _raw, _pod: False

    @property
    def resource(self) -> str:
        return f"{self.kind.lower()}s"

    @property
    def key(self) -> str:
        return f"{self.resource}.{self.group}"


def _pod_group(group: str, version: str, names: tuple[Path, ...], *minimum: str) -> GroupKind:
    """A PodGroup. It says how many pods start together at the least, and at most what these request together."""

    def read(raw: _Raw) -> Iterator[tuple[str, int | None, _Raw | None]]:
        yield "", count_of(part(raw, "spec", *minimum), 1), None

    return GroupKind(group, "PodGroup", (version,), names, read)


_LWS, _JOBSET, _KUEUE = "leaderworkerset.sigs.k8s.io/", "jobset.sigs.k8s.io/", "kueue.x-k8s.io/"
_IN_POD = ("spec", "schedulingGroup", "podGroupName")
_VOLCANO = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")

_KINDS = (
    _pod_group("scheduling.k8s.io", "v1beta1", (_IN_POD,), "schedulingPolicy", "gang", "minCount"),
    GroupKind(
        "leaderworkerset.x-k8s.io",
        "LeaderWorkerSet",
        ("v1",),
        (_label(_LWS + "name"),),
        _templates(lambda raw: _changed(raw, replicas=1)),
        part=_label(_LWS + "worker-index"),
        words={"0": "leader"},
        otherwise="worker",
        within=_label(_LWS + "group-index"),
        is_lasting=lambda raw, _pod: part(raw, "spec", "startupPolicy") == "LeaderReady",
    ),
    GroupKind(
        "kueue.x-k8s.io",
        "Workload",
        ("v1beta2", "v1beta1"),
        (
            _annotation(_KUEUE + "workload"),
            _label(_KUEUE + "prebuilt-workload-name"),
            _label(_KUEUE + "pod-group-name"),
        ),
        _admitted,
        part=_label(_KUEUE + "podset"),
        is_lasting=lambda _raw, pod: mapped(controller_of(pod)).get("kind") == "StatefulSet",
    ),
    GroupKind(
        "jobset.x-k8s.io",
        "JobSet",
        ("v1alpha2",),
        (_label(_JOBSET + "jobset-name"),),
        _templates(_at_first),
        part=_label(_JOBSET + "replicatedjob-name"),
        uid=_label(_JOBSET + "jobset-uid"),
        is_lasting=lambda raw, _pod: part(raw, "spec", "startupPolicy", "startupPolicyOrder") == "InOrder",
    ),
    GroupKind(
        "ray.io",
        "RayCluster",
        ("v1",),
        (_label("ray.io/cluster"),),
        _templates(_at_least),
        part=_label("ray.io/group"),
        words={"headgroup": "head"},
    ),
    _pod_group("scheduling.volcano.sh", "v1beta1", tuple(map(_annotation, _VOLCANO)), "minMember"),
    _pod_group("scheduling.run.ai", "v2alpha2", (_annotation("pod-group-name"),), "minMember"),
    _pod_group("scheduling.x-k8s.io", "v1alpha1", (_label("scheduling.x-k8s.io/pod-group"),), "minMember"),
)
"""The kinds, of which a pod may name several: the group is the first whose object exists. The names of labels are those
of kubernetes (scheduling/v1beta1), lws, kueue (pkg/controller/constants), jobset, kuberay (utils/constant.go),
volcano (scheduling/v1beta1/labels.go), KAI-Scheduler (pkg/common/constants) and scheduler-plugins."""

GROUP_KINDS: Mapping[str, GroupKind] = {one.key: one for one in _KINDS}
"""Resource and API group, such as podgroups.scheduling.k8s.io -> the kind's row."""


@dataclass(frozen=True, slots=True)
class NamedGroup:
    """The group that a pod names. `part` is the pod's part of it, in the words of the group's object."""

    kind: GroupKind
    name: str
    within: str = ""
    part: str = ""

    @property
    def text(self) -> str:
        """The group in one text, whose parts have no slash; a slash and the name of a part say which pods are meant."""
        return f"{self.kind.key}/{self.name}/{self.within}"

    @property
    def called(self) -> str:
        return f"{self.kind.kind} {self.name}"


def named_groups(pod: object) -> Iterator[NamedGroup]:
    """The groups that a pod names, as it says itself: at most one of each kind, and perhaps none that exists."""
    for kind in _KINDS:
        name = next((found for path in kind.names if (found := text(pod, *path))), "")
        if not name:
            continue
        within, said = (text(pod, *path) if path else "" for path in (kind.within, kind.part))
        own = kind.words.get(said, said if kind.otherwise is None else kind.otherwise)
        if len(name) <= _LONGEST and not any("/" in one for one in (name, within, own)):
            yield NamedGroup(kind, name, within, own)


def group_in(of: str) -> NamedGroup | None:
    """The group and the part that the `text` of a NamedGroup, a slash and the name of a part say."""
    key, *rest = of.split("/")
    kind = GROUP_KINDS.get(key)
    return None if kind is None or len(rest) != 3 else NamedGroup(kind, *rest)


def group_of(named: NamedGroup, raw: Mapping[str, Any], pod: Mapping[str, Any] = MappingProxyType({})) -> Group | None:
    """The group that an object says, with the part of the pod first; None where it makes no demand on this pod.

    It makes none if it is another object than the pod means, or has no such part.
    """
    kind, uid = named.kind, text(raw, "metadata", "uid")
    owner = mapped(controller_of(pod))
    said = [text(pod, *kind.uid)] if kind.uid and pod else []
    if owner.get("kind") == kind.kind and str(owner.get("apiVersion")).startswith(f"{kind.group}/"):
        said.append(str(owner.get("uid")))
    if not uid or any(one != uid for one in said):
        return None
    read = islice(kind.parts(raw), _MOST_PARTS)
    found = [GroupPart(name, size, template) for name, size, template in read if size is not None]
    own = [one for one in found if one.name in (named.part, "")]
    if not own or own[0].size > MOST_PODS:
        return None
    others = [one for one in found if one is not own[0] and one.size]
    conditions = listed(raw, "status", "conditions")
    has_started = any(text(one, "type") in _STARTED and text(one, "status") == "True" for one in conditions)
    has_started = has_started or text(raw, "status", "phase") in _PHASES
    is_ready = text(raw, "status", "state") == "ready"  # a RayCluster has had all its pods (raycluster_controller.go)
    ready = listed(raw, "status", "replicatedJobsStatus")
    has_begun = has_started or is_ready or any(part(one, key) for one in ready for key in ("ready", "succeeded"))
    together = part(raw, "spec", "minResources")  # of Volcano and scheduler-plugins
    resources = together if isinstance(together, dict) else None
    return Group(uid, (own[0], *others), kind.is_lasting(raw, pod), has_begun, has_started, resources)


_STARTED = frozenset(("PodGroupInitiallyScheduled", "PodsReady"))
"""Conditions of a PodGroup of Kubernetes, where it never reverts (scheduling/v1beta1/types.go), and of Kueue."""
_PHASES = frozenset(("Scheduled", "Running", "Completed", "Finished"))
"""Phases of the PodGroups of Volcano and scheduler-plugins that have as many pods as they need."""
