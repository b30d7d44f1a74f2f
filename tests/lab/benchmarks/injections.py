"""What the measured pod becomes in each case, and whether every pod that was stored is that."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jsonpatch

from tests.lab.benchmarks.runs import demand

Raw = dict[str, Any]

_TERM = {"key": "nvidia.com/cuda.driver-version.full", "operator": "NotIn", "values": ["560.54.15"]}
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [_TERM]}]}
INJECTED: Mapping[str, Any] = {
    "/spec/tolerations/-": {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
    "/spec/runtimeClassName": "nvidia",
    "/spec/volumes/-": {"name": "gpu-policy-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
    "/spec/containers/0/volumeMounts/-": {"name": "gpu-policy-shm", "mountPath": "/dev/shm"},
    "/spec/containers/0/env/-": {"name": "NCCL_DEBUG", "value": "WARN"},
    "/spec/affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERMS}},
}
"""What the shipped policies add to the pod of the benchmark, by JSON Pointer, on nodes some of which cannot run it."""
_OF_ITS_OWN = ("name", "uid", "creationTimestamp", "resourceVersion", "managedFields", "generation", "selfLink")


def completed(base: Raw, annotations: Mapping[str, str], injected: Mapping[str, Any] = INJECTED) -> Raw:
    """The pod with all of it. `base` is the pod as the API server stores it when nobody changes it."""
    patch = [{"op": "add", "path": path, "value": value} for path, value in injected.items()]
    pod: Raw = jsonpatch.apply_patch(base, patch)
    pod["metadata"]["annotations"] |= annotations
    return pod


def shared(pod: Raw) -> Raw:
    """What a pod has in common with the others of its run, also as an item of a list, which does not say its kind."""
    metadata = {key: value for key, value in pod["metadata"].items() if key not in _OF_ITS_OWN}
    return {**{key: value for key, value in pod.items() if key not in ("apiVersion", "kind")}, "metadata": metadata}


def demand_all(pods: Sequence[Raw], expected: Raw, counts: range, case: str) -> None:
    """So many pods were stored, and each is what is expected, in everything but its own name and the like."""
    demand(len(pods) in counts, f"{case}: {len(pods)} pods were stored; {counts[0]} to {counts[-1]} are expected")
    wanted = shared(expected)
    for pod in pods:
        if (found := shared(pod)) != wanted:
            left, right = dict(_leaves(found)), dict(_leaves(wanted))
            paths = sorted(path for path in left.keys() | right.keys() if left.get(path) != right.get(path))
            texts = [f"{path} is {left.get(path)!r}, not {right.get(path)!r}" for path in paths[:5]]
            demand(False, f"{case}: {pod['metadata']['name']} is not as it should be: {'; '.join(texts)}")


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from _leaves(one, f"{path}/{key}")
    elif isinstance(value, list) and value:
        for number, one in enumerate(value):
            yield from _leaves(one, f"{path}/{number}")
    else:
        yield path, value
