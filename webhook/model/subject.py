"""What an exception is compared with: a pod, and the workloads that make it, by kind and name, labels and images.

A workload is known by the pod's owner references, by the names that controllers of Kubernetes give to what they make,
and by labels of other controllers:

- a ReplicaSet of a Deployment has its name and the label `pod-template-hash` at the end (pkg/controller/deployment);
- a Job of a CronJob has its name and the minutes since 1970 (pkg/controller/cronjob).

Whoever may create a pod can write all of this, and so take any name of the namespace. So an exception is worth what its
namespaces and labels are worth; `docs/threat-model.md` says more.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from webhook.model.container import APP, EPHEMERAL, INIT
from webhook.model.json_parts import listed, mapped, part
from webhook.model.pod_reader import controller_of
from webhook.model.workloads.template import Template

ANY_SUFFIX = "xxxxx"
"""Stands for the five letters that Kubernetes adds to a generateName. A glob that asks for particular ones never holds
before the name is generated, so it never holds."""
_LONGEST_GENERATED = 58
"""Characters of a generateName that are kept (maxGeneratedNameLength in apiserver/pkg/storage/names)."""
_HASH = "pod-template-hash"
_ANY_HASH = "xxxxxxxxxx"
_ANY_MINUTE = "00000000"
_MINUTES = re.compile(r"(.+)-[0-9]{8,9}", re.DOTALL)

MAKERS: Mapping[str, str] = {
    "jobset.sigs.k8s.io/jobset-name": "JobSet",
    "leaderworkerset.sigs.k8s.io/name": "LeaderWorkerSet",
    "serving.kserve.io/inferenceservice": "InferenceService",
}
"""Label that a controller adds to pods -> kind of the object with the name in it, where that is not the owner."""

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
    members = [(kind, _name(metadata)), *_makers(raw, labels)]
    return _subject(members, labels, mapped(raw, "spec"))


def subject_of_template(workload: Mapping[str, Any], template: Template) -> PodSubject:
    """The pods that a workload makes from one of its templates."""
    kind, name = _text(workload.get("kind")), _name(mapped(workload, "metadata"))
    made = template.made
    labels = _labels(made)
    members = [*_made_by(kind, name, template), *_makers(workload, {}), *_labelled(labels), (kind, name)]
    return _subject(members, labels, mapped(made, "spec"))


def _subject(members: Iterable[Member], labels: Mapping[str, str], spec: Mapping[str, Any]) -> PodSubject:
    found = [one for key in (INIT, APP, EPHEMERAL) for one in listed(spec, key)]
    containers = [(_text(part(one, "name")), _text(part(one, "image"))) for one in found]
    devices = [frozenset(_devices(mapped(one, "resources"))) for one in found]
    return PodSubject(tuple(dict.fromkeys(members)), labels, tuple(containers), tuple(devices))


def _devices(resources: Mapping[str, Any]) -> Iterator[str]:
    for key in ("limits", "requests"):
        for name, amount in mapped(resources, key).items():
            if "/" in name and amount not in (0, "0", None):
                yield name
    if resources.get("claims"):
        yield CLAIMS


def _made_by(kind: str, name: str, template: Template) -> Iterator[Member]:
    """What a workload makes, with names like those that it will have."""
    match kind:
        case "Deployment":
            name = f"{name}-{_ANY_HASH}"
            yield "ReplicaSet", name
        case "CronJob":
            name = f"{name}-{_ANY_MINUTE}"
            yield "Job", name
        case "JobSet":
            name = f"{name}-{template.group}-0"
            yield "Job", name
            name += "-0"
        case _:
            if template.owner_kind not in ("", kind):
                yield template.owner_kind, name
    yield "Pod", f"{name}-0" if kind == "StatefulSet" else f"{name}-{ANY_SUFFIX}"


def _makers(raw: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[Member]:
    """The controller of an object, and what makes the controller as far as that can be known."""
    owner = controller_of(raw)
    if owner is not None:
        kind, name = _text(owner.get("kind")), _text(owner.get("name"))
        yield kind, name
        suffix = f"-{labels.get(_HASH)}"
        if kind == "ReplicaSet" and _HASH in labels and name.endswith(suffix):
            yield "Deployment", name.removesuffix(suffix)
        if kind == "Job" and (made := _MINUTES.fullmatch(name)) is not None:
            yield "CronJob", made[1]
    yield from _labelled(labels)


def _labelled(labels: Mapping[str, str]) -> Iterator[Member]:
    for label, kind in MAKERS.items():
        if labels.get(label):
            yield kind, labels[label]


def _name(metadata: Mapping[str, Any]) -> str:
    """The name; of a generated one, what is known before and after it is generated."""
    name, stem = _text(metadata.get("name")), _text(metadata.get("generateName"))[:_LONGEST_GENERATED]
    is_generated = stem and (not name or (name.startswith(stem) and len(name) == len(stem) + len(ANY_SUFFIX)))
    return stem + ANY_SUFFIX if is_generated else name


def _labels(raw: Mapping[str, Any]) -> Mapping[str, str]:
    labels = mapped(raw, "metadata", "labels")
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
