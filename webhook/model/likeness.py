"""The parts of a pod that can matter to a judgement, so that a plan judges pods that are alike once.

Pods of one controller differ only in names and numbers.

Parts that the engine never reads are left out: metadata beside labels and annotations, the sources of volumes other
than host paths and memory, the host name, and the values of labels by which controllers number their pods. The service
account's volume has another name in every pod (`kube-api-access-` and five letters); the name is left out where it
occurs nowhere else. `tests/admission/test_likeness_reads.py` records what the engine reads, and checks this.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from webhook.model.container import APP, EPHEMERAL, INIT
from webhook.model.pod_reader import has_started, namespace_of, owner_kind

LONGEST = 16 * 1024
"""Most bytes of a pod's likeness. Usual pods have a fifth of that."""

_INDEX = "batch.kubernetes.io/job-completion-index"
_OF_KUBEFLOW = frozenset({"training.kubeflow.org/replica-index"})
NUMBERS: Mapping[str, frozenset[str]] = {
    "Job": frozenset({_INDEX}),
    "StatefulSet": frozenset(
        {
            "apps.kubernetes.io/pod-index",
            "statefulset.kubernetes.io/pod-name",
            "leaderworkerset.sigs.k8s.io/worker-index",
        }
    ),
    "PyTorchJob": _OF_KUBEFLOW,
    "MPIJob": _OF_KUBEFLOW,
}
"""Kind of a controller -> the labels and annotations by which it numbers its pods."""

_TOKEN = re.compile(r"kube-api-access-[a-z0-9]{5}", re.ASCII)
"""The name of the service account's volume (plugin/pkg/admission/serviceaccount of Kubernetes)."""
_ANY_NAME = b"\0"
"""Stands for that name. JSON never has this byte unescaped."""
_READ_OF_A_VOLUME = ("name", "hostPath", "emptyDir")
_NOT_COPIED = frozenset({"volumes", "hostname"})


class Likeness(NamedTuple):
    """Bytes that are equal for pods that are alike. `volume` is the name that was left out; empty where none was."""

    text: bytes
    volume: str = ""


def likeness_of(raw: Mapping[str, Any], labels_read: frozenset[str] = frozenset()) -> Likeness | None:
    """The likeness of a pod; None where the pod is malformed or too large.

    `labels_read` are the labels that policies read. Their values are always kept.
    """
    metadata, spec = raw.get("metadata"), raw.get("spec")
    if metadata.__class__ is not dict or spec.__class__ is not dict:
        return None
    volumes = spec.get("volumes")
    if volumes is not None and (volumes.__class__ is not list or any(one.__class__ is not dict for one in volumes)):
        return None
    labels, annotations, owner = metadata.get("labels"), metadata.get("annotations"), owner_kind(metadata)
    if owner in NUMBERS:
        numbers = NUMBERS[owner] - labels_read
        labels, annotations = _without_values(labels, numbers), _without_values(annotations, numbers)
    mattering = (
        owner,
        namespace_of(metadata),
        has_started(raw),
        labels,
        annotations,
        volumes and [{key: one[key] for key in _READ_OF_A_VOLUME if key in one} for one in volumes],
        {key: value for key, value in spec.items() if key not in _NOT_COPIED},
    )
    try:
        text = orjson.dumps(mattering)
    except orjson.JSONEncodeError:  # too deep
        return None
    return _with_any_name(text, spec, volumes or []) if len(text) <= LONGEST else None


def _without_values(entries: object, keys: frozenset[str]) -> object:
    """The entries with empty values for these keys. The keys themselves are kept, because rules may look for them."""
    if not isinstance(entries, dict) or keys.isdisjoint(entries):
        return entries
    return {key: "" if key in keys and value.__class__ is str else value for key, value in entries.items()}


def _with_any_name(text: bytes, spec: Mapping[str, Any], volumes: list[dict[str, Any]]) -> Likeness:
    """Leave out the name of the service account's volume, where it stands for that volume and for nothing else."""
    for volume in volumes:
        name = volume.get("name")
        if name.__class__ is str and _TOKEN.fullmatch(name):
            found = name.encode()
            if text.count(found) == 1 + _mounts(spec, name):
                return Likeness(text.replace(b'"%b"' % found, _ANY_NAME), name)
            break
    return Likeness(text)


def _mounts(spec: Mapping[str, Any], volume: str) -> int:
    """In how many places the containers mount the volume."""
    mounted = 0
    for key in (INIT, APP, EPHEMERAL):
        containers = spec.get(key)
        for container in containers if isinstance(containers, list) else ():
            mounts = container.get("volumeMounts") if isinstance(container, dict) else None
            for mount in mounts if isinstance(mounts, list) else ():
                mounted += isinstance(mount, dict) and mount.get("name") == volume
    return mounted
