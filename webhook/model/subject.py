"""What an exception is compared with: a pod, and the workloads that make it, by kind and name, labels and images.

A workload is known by the pod's owner references, by the names that controllers of Kubernetes give to what they make,
and by labels of other controllers:

- a ReplicaSet of a Deployment has its name and the label `pod-template-hash` at the end (pkg/controller/deployment),
  one of a Rollout its name and `rollouts-pod-template-hash` (utils/replicaset in argoproj/argo-rollouts);
- a Job of a CronJob has its name and the minutes since 1970 (pkg/controller/cronjob).

A template of a workload is compared as the pods that will come of it, so that nothing is said of a workload that does
not hold for its pods. Pods of a RayJob name a RayCluster whose name is generated, and nothing says which job it is of.

Whoever may create a pod can write all of this, and so take any name of the namespace. So an exception is worth what its
namespaces and labels are worth; `docs/threat-model.md` says more.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from webhook.model.json_parts import listed, mapped, part, text
from webhook.model.pod import APP, EPHEMERAL, INIT, POD_TEMPLATE_HASH
from webhook.model.pod_reader import controller_of
from webhook.model.workloads.controllers import INDEX
from webhook.model.workloads.template import Template

ANY_SUFFIX = "xxxxx"
"""Stands for the five letters that Kubernetes adds to a generateName. A glob with particular letters there does not
match before the name is generated, and so never matches."""
_LONGEST_GENERATED = 58
"""Characters of a generateName that are kept (maxGeneratedNameLength in apiserver/pkg/storage/names)."""
_ANY_NUMBER = "xxxxxxxxxx"
"""Stands for the number of a pod or a Job among several. It is longer than any number, because no glob that counts
characters holds for all of them."""
_ANY_HASH = "xxxxxxxxxx"
_ANY_MINUTE = "00000000"
_MINUTES = re.compile(r"(.+)-[0-9]{8,9}", re.DOTALL)

MAKERS: Mapping[str, str] = {
    "jobset.sigs.k8s.io/jobset-name": "JobSet",
    "leaderworkerset.sigs.k8s.io/name": "LeaderWorkerSet",
    "notebook-name": "Notebook",
    "serving.knative.dev/service": "Service",
    "serving.kserve.io/inferenceservice": "InferenceService",
}
"""Label that a controller adds to pods -> kind of the object with the name in it, where that is not the owner."""
_LABELS = {kind: label for label, kind in MAKERS.items()}

_HASHES = {"Deployment": POD_TEMPLATE_HASH, "Rollout": "rollouts-pod-template-hash"}
"""Kind that makes ReplicaSets -> label with the hash at the end of their names."""

_NAMED_BY_NO_POD = {
    "ClusterServingRuntime": "",
    "ClusterTrainingRuntime": "",
    "ClusterWorkflowTemplate": "Workflow",
    "CronWorkflow": "Workflow",
    "DisaggregatedSet": "StatefulSet",
    "Experiment": "ReplicaSet",
    "JobTemplate": "Job",
    "LLMInferenceServiceConfig": "",
    "PodCliqueSet": "PodClique",
    "PodTemplate": "",
    "RayCronJob": "RayCluster",
    "RayJob": "RayCluster",
    "RayService": "RayCluster",
    "RoleBasedGroupSet": "",
    "ScheduledSparkApplication": "SparkApplication",
    "ServingRuntime": "",
    "TrainingRuntime": "",
    "WorkflowTemplate": "Workflow",
}
"""Kind whose pods do not name it -> kind of their controller, whose name is generated or not known; empty if that is
not known either. Of kinds that are neither here nor known by a label, pods are taken to name the workload."""

CLAIMS = "resource claims"
"""Stands for the devices of a container that uses resource claims. No resource has this name."""

Member = tuple[str, str]
"""Kind and name of a pod, or of a workload that makes it."""


@dataclass(frozen=True, slots=True)
class PodSubject:
    """A pod, or another object that is judged: what it is called, and what makes it.

    `containers` are name and image of each container, init containers included.
    """

    members: tuple[Member, ...]
    labels: Mapping[str, str]
    containers: tuple[tuple[str, str], ...]
    devices: tuple[frozenset[str], ...] = ()
    """For each container the names of extended resources that it requests, and CLAIMS if it uses resource claims."""


def subject_of(raw: Mapping[str, Any], kind: str = "Pod") -> PodSubject:
    """A pod, or an object of another kind that is judged by itself. Malformed parts count as missing."""
    metadata, labels = mapped(raw, "metadata"), _labels(raw)
    members = [(kind, _name(metadata)), *makers_of(raw)]
    return _subject(members, labels, mapped(raw, "spec"))


def subject_of_template(workload: Mapping[str, Any], template: Template) -> PodSubject:
    """The pods that a workload makes from one of its templates: what holds for each of them."""
    owner, added, name = _made_by(workload, template)
    labels = {**_labels(template.made), **added}
    members = [("Pod", name), *_makers(owner, labels)]
    return _subject(members, labels, mapped(template.made, "spec"))


def makers_of(raw: Mapping[str, Any]) -> tuple[Member, ...]:
    """What made a pod: its controller first, then what made that, as far as the pod says it."""
    owner = controller_of(raw)
    return tuple(_makers((text(owner, "kind"), text(owner, "name")), _labels(raw)))


def _subject(members: Iterable[Member], labels: Mapping[str, str], spec: Mapping[str, Any]) -> PodSubject:
    found = [one for key in (INIT, APP, EPHEMERAL) for one in listed(spec, key)]
    containers = [(text(one, "name"), text(one, "image")) for one in found]
    devices = [frozenset(_devices(mapped(one, "resources"))) for one in found]
    return PodSubject(tuple(dict.fromkeys(members)), labels, tuple(containers), tuple(devices))


def _devices(resources: Mapping[str, Any]) -> Iterator[str]:
    for key in ("limits", "requests"):
        for name, amount in mapped(resources, key).items():
            if "/" in name and amount not in (0, "0", None):
                yield name
    if resources.get("claims"):
        yield CLAIMS


def _made_by(workload: Mapping[str, Any], template: Template) -> tuple[Member, Mapping[str, str], str]:
    """The controller that the pods of a template will name, the labels that say who made them, and a name like theirs.

    The name of a controller is empty where it is not known.
    """
    kind, name = text(workload, "kind"), _name(mapped(workload, "metadata"))
    owner, added, stem = "", {}, name
    of = template.owner_kind or kind
    if kind in {"NIMService", "NIMPipeline"}:
        kind, name = "Deployment", template.group or name
    if kind in _HASHES and of == "ReplicaSet":
        owner = stem = f"{name}-{_ANY_HASH}"
        added = {_HASHES[kind]: _ANY_HASH}
    elif kind == "CronJob" and of == "Job":
        owner = stem = f"{name}-{_ANY_MINUTE}"
    elif kind == "JobSet":
        of, owner = "Job", f"{name}-{template.group}-{_ANY_NUMBER}"
        stem = f"{owner}-{_ANY_NUMBER}"
        added = {_LABELS[kind]: name}
    elif kind == "TrainJob":
        of, added = "Job", {_LABELS["JobSet"]: name}
    elif kind in _LABELS and not text(workload, "apiVersion").startswith("ome.io/"):
        of, added = template.owner_kind, {_LABELS[kind]: name}
        owner = name if kind == "Notebook" or template.group == "leader" else ""
    elif kind == "CronJob" or kind in _NAMED_BY_NO_POD:
        of = _NAMED_BY_NO_POD.get(kind, "Job")
    else:
        owner = name
        stem = f"{name}-{_ANY_NUMBER}" if INDEX in template.labels else name
    if of == "StatefulSet" and owner:
        return (of, owner), added, f"{owner}-{_ordinal(workload, template)}"
    return (of, owner), added, f"{stem}-"[:_LONGEST_GENERATED] + ANY_SUFFIX


def _ordinal(workload: Mapping[str, Any], template: Template) -> str:
    """The number of the only pod of a StatefulSet; what stands for it if there may be others."""
    if template.pods != 1 or template.group:
        return _ANY_NUMBER
    first = part(workload, "spec", "ordinals", "start")
    return str(first) if isinstance(first, int) else "0"


def _makers(owner: Member, labels: Mapping[str, str]) -> Iterator[Member]:
    """The controller of a pod, whose kind is empty if there is none, and what makes the controller if that is known."""
    kind, name = owner
    if kind:
        yield owner
    if kind == "ReplicaSet":
        for maker, label in _HASHES.items():
            suffix = f"-{labels.get(label)}"
            if label in labels and name.endswith(suffix):
                yield maker, name.removesuffix(suffix)
    if kind == "Job" and (made := _MINUTES.fullmatch(name)) is not None:
        yield "CronJob", made[1]
    yield from ((kind, labels[label]) for label, kind in MAKERS.items() if labels.get(label))


def _name(metadata: Mapping[str, Any]) -> str:
    """The name; of a generated one, what is known before and after it is generated."""
    name, stem = text(metadata, "name"), text(metadata, "generateName")[:_LONGEST_GENERATED]
    is_generated = stem and (not name or (name.startswith(stem) and len(name) == len(stem) + len(ANY_SUFFIX)))
    return stem + ANY_SUFFIX if is_generated else name


def _labels(raw: Mapping[str, Any]) -> Mapping[str, str]:
    labels = mapped(raw, "metadata", "labels")
    return {key: value for key, value in labels.items() if isinstance(value, str)}
