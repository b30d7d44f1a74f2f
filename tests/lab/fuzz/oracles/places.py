"""Oracles of the rules about nodes: they ask which nodes of the world a pod is let onto, before and after."""

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from tests.lab.fuzz.cluster import NODES, OLD
from tests.lab.fuzz.pods import LABEL_KEYS, LABEL_VALUES
from tests.lab.fuzz.raw import (
    AFFINITY,
    Raw,
    amount,
    asks_nvidia,
    at,
    containers,
    controller,
    gpu_faults,
    gpus_of,
    has_passthrough,
    holds,
    lasting,
    maps,
    placed,
    reserved,
    tolerates,
)
from tests.lab.fuzz.seen import Complaints, Seen, exactly

_KEYS = LABEL_KEYS[:3]
_IMAGINED: list[Raw] = [
    {
        "metadata": {
            "name": "imagined",
            "labels": {key: value for key, value in zip(_KEYS, values, strict=True) if value},
        }
    }
    for values in product((None, *LABEL_VALUES[:3]), (None, *LABEL_VALUES[2:4]), (None, LABEL_VALUES[4]))
]
"""Nodes of many labels, beside those that there are."""


def tolerations(seen: Seen) -> Complaints:
    """Every configured toleration whose GPU is asked for is covered, none is added twice or for another pod's GPU."""
    before, after = maps(seen.before, "spec", "tolerations"), maps(seen.after, "spec", "tolerations")
    added, gpus = after[len(before) :], reserved(seen.before)
    wanted = [
        {key: value for key, value in entry.items() if key != "resources"}
        for entry in seen.settings["tolerations"]["add"]
        if gpus and (not entry["resources"] or any(name.startswith("nvidia.com/") for name in gpus))
    ]
    for one in added:
        if one not in wanted or added.count(one) > 1 or any(_covers(old, one) for old in before):
            yield f"added {one}"
    for one in wanted if seen.completes("tolerations") else ():
        if not any(_covers(found, one) for found in after):
            yield f"{one} is not tolerated"


def _covers(one: Raw, other: Raw) -> bool:
    """Whether all that `other` tolerates for ever is tolerated by `one` for ever."""
    if any(one.get(part) and one.get(part) != other.get(part, "") for part in ("effect", "key")):
        return False
    if one.get("tolerationSeconds") is not None:
        return False
    operator = one.get("operator") or "Equal"
    same = operator == other["operator"] and (one.get("value") or "") == other.get("value", "")
    return operator == "Exists" or (same and bool(one.get("key")))


def node_affinity(seen: Seen) -> Complaints:
    """What is required holds on every node that is left, no node is added, and no other one is taken away."""
    required = seen.settings["nodeAffinity"]["required"]
    gpus, refused = bool(reserved(seen.after)), bool(seen.violations("nodeAffinity"))
    before, after = seen.before["spec"], seen.after["spec"]
    fits, narrowed = False, False
    for node in [*_IMAGINED, *NODES]:
        labels: Mapping[str, str] = at(node, "metadata", "labels")
        allowed = all(holds(one, labels) for one in required)
        was, now = placed({**before, "nodeName": ""}, node), placed({**after, "nodeName": ""}, node)
        fits |= was and allowed
        narrowed |= was and not now and allowed
        if now and not was:
            yield f"{labels} was no node for the pod, and is one now"
        if now and not allowed and gpus and not refused and seen.completes("nodeAffinity"):
            yield f"{labels} is a node for the pod, though not what {required} allows"
    if narrowed and not (seen.has_injected("cudaDriver") or seen.has_injected("gpuTypes")):
        yield "a node that the policy allows was taken away"
    if refused and (fits or not gpus):
        yield "refused, although there is a node for the pod that the policy allows"
    stated = [one for one in required if one["key"] in (before.get("nodeSelector") or {}) and one["operator"] == "In"]
    if any(before["nodeSelector"][one["key"]] not in one["values"] for one in stated) and gpus and not refused:
        yield "not refused, although nodeSelector asks for what the policy excludes"


def replica_spread(seen: Seen) -> Complaints:
    """Replicas with GPUs that say nothing of it are spread over nodes by their labels, and nothing else is."""
    spec = seen.before["spec"]
    added = len(maps(seen.after, "spec", "topologySpreadConstraints")) > len(maps(spec, "topologySpreadConstraints"))
    says = bool(spec.get("topologySpreadConstraints")) or any((at(spec, "affinity", "podAntiAffinity") or {}).values())
    is_bound = bool(spec.get("nodeName")) or "kubernetes.io/hostname" in (spec.get("nodeSelector") or {})
    labels = at(seen.before, "metadata", "labels") or {}
    is_replica = controller(seen.before) == "ReplicaSet" and bool(reserved(seen.before))
    expected = is_replica and not says and not is_bound and any(key != "pod-template-hash" for key in labels)
    yield from exactly(added, expected and seen.completes("replicaSpread"), "spread over nodes")


def gpu_nodes(seen: Seen) -> Complaints:
    """Who has no GPUs and names the taint of a node with GPUs is told so, unless no node would take the pod anyway."""
    spec = seen.after["spec"]
    keys = {one["key"] for one in seen.settings["gpuNodesForGpuPods"]["taints"]}
    named = [one for one in maps(spec, "tolerations") if one.get("key") in keys]
    everything = any(not one.get("key") for one in maps(spec, "tolerations"))
    exempt = bool(reserved(seen.after)) or everything or controller(seen.after) == "DaemonSet"
    refused = bool(seen.violations("gpuNodesForGpuPods"))
    if refused and (exempt or not named):
        yield "refused, without a toleration of GPU nodes or with a right to it"
    opened = [n for n in NODES if maps(n, "spec", "taints") and placed(spec, n) and tolerates(spec, n)]
    if named and opened and not exempt and not refused and not _wants_devices(seen.after):
        yield f"not refused, although {at(opened[0], 'metadata', 'name')} takes it"


def _wants_devices(pod: Raw) -> bool:
    """Whether it asks for anything but a little cpu and memory."""
    spec = pod["spec"]
    if spec.get("resourceClaims") or spec.get("runtimeClassName") or at(spec, "resources"):
        return True
    parts = (part for _, one in containers(pod) for part in (at(one, "resources") or {}).values())
    return any("/" in name or (amount(value) or 0) > 2**36 for part in parts for name, value in (part or {}).items())


def schedulable(seen: Seen) -> Complaints:
    """Nobody is told that no node takes a pod while one does; whoever asks for more than any node has is told."""
    if any(gpu_faults(one) for one in lasting(seen.after)):
        return
    refused = bool(seen.violations("schedulable"))
    gpus = reserved(seen.after)
    if refused and any(_takes(node, seen.after) for node in NODES):
        yield "refused, although a node takes it"
    if refused and (not gpus or seen.after["spec"].get("nodeName")):
        yield "refused without GPUs, or with a node of its own"
    most = {name: max(int(at(node, "status", "capacity").get(name, 0)) for node in NODES) for name in gpus}
    too_many = any(count > most[name] for name, count in gpus.items())
    by_name = any(maps(term, "matchFields") for term in at(seen.after, "spec", *AFFINITY) or ())
    is_bound = by_name or seen.after["spec"].get("nodeName") or controller(seen.after) == "DaemonSet"
    spec, metadata = seen.after["spec"], at(seen.after, "metadata") or {}
    is_queued = spec.get("schedulingGates") or "kueue.x-k8s.io/queue-name" in (metadata.get("labels") or {})
    if too_many and not is_bound and not is_queued and not refused:
        yield f"not refused, although no node has {gpus}"


def _takes(node: Raw, pod: Raw) -> bool:
    has = at(node, "status", "capacity")
    spec = pod["spec"]
    if not (placed(spec, node) and tolerates(spec, node)) or _other_devices(pod):
        return False
    if any(count > int(has.get(name, 0)) for name, count in reserved(pod).items()):
        return False
    return _together(pod, "cpu") <= 64 and _together(pod, "memory") <= 512 * 1024**3


def _other_devices(pod: Raw) -> bool:
    parts = (part for one in lasting(pod) for part in (at(one, "resources") or {}).values())
    return any(
        "/" in name and name not in reserved(pod) and amount(value) for part in parts for name, value in part.items()
    )


def _together(pod: Raw, name: str) -> Any:
    """At least what all containers ask for, as if they all ran at once."""
    parts = [at(one, "resources") or {} for one in [*lasting(pod), pod["spec"]]]
    asked = [{**(part.get("limits") or {}), **(part.get("requests") or {})}.get(name, 0) for part in parts]
    return sum(max(amount(value) or 0, 0) for value in asked)


def cuda_driver(seen: Seen) -> Complaints:
    """Images that need CUDA 13 keep off nodes whose driver is older, if there are others, and are refused if not."""
    refused, steered = bool(seen.violations("cudaDriver")), seen.has_injected("cudaDriver")
    needs = any(
        str(one.get("image")).startswith("registry.example.com/new/") and _uses_nvidia(one)
        for one in lasting(seen.before)
    )
    built = re.compile("nvidia|/new/")
    of_others = any(_uses_others(one) and built.search(str(one.get("image"))) for one in lasting(seen.before))
    if (refused or steered) and not asks_nvidia(seen.before) and not of_others:
        yield "judged a pod without NVIDIA GPUs"
    unfit = [node for node in NODES if at(node, "metadata", "labels").get("nvidia.com/cuda.driver-version.full") == OLD]
    open_to = [at(node, "metadata", "name") for node in candidates(seen.after)]
    if needs and not has_passthrough(seen.before) and not refused and open_to == ["big-old"] and not _gpu_faults(seen):
        yield "not refused, although the driver of every node that takes it is too old"
    names = any(maps(term, "matchFields") for term in at(seen.before, "spec", *AFFINITY) or ())
    is_bound = names or bool(seen.before["spec"].get("nodeName"))
    if needs and seen.completes("cudaDriver") and not is_bound and len(open_to) > 1 and "big-old" in open_to:
        yield "not kept off big-old, whose driver is too old"
    known = needs or any(not _is_known(one) for one in lasting(seen.before) if _uses_nvidia(one))
    if (refused or steered) and not known and not of_others:
        yield "judged images that need no CUDA"
    lost = [node for node in candidates(seen.before) if steered and node not in candidates(seen.after)]
    lost = [node for node in lost if not (seen.has_injected("gpuTypes") and _is_denied(node))]
    if any(node not in unfit and at(node, "metadata", "labels")["pool"] == "gpu" for node in lost):
        yield "kept off a node whose driver is new enough"


def gpu_types(seen: Seen) -> Complaints:
    """Pods are kept off the denied H100, whatever they tolerate, and are refused if they may get one."""
    refused, steered = bool(seen.violations("gpuTypes")), seen.has_injected("gpuTypes")
    if not reserved(seen.after):
        yield from exactly(refused or steered, False, "judged a pod without GPUs")
        return
    tolerations = at(seen.after, "spec", "tolerations")
    before = list(candidates({**seen.before, "spec": {**seen.before["spec"], "tolerations": tolerations}}))
    after = list(candidates(seen.after))
    selected = list(
        candidates({**seen.before, "spec": {**seen.before["spec"], "tolerations": [{"operator": "Exists"}]}})
    )
    if refused and not any(map(_is_denied, after or selected)):
        yield "refused, although it can get no GPU that is denied"
    if after and all(map(_is_denied, after)) and not refused and not _gpu_faults(seen):
        yield "not refused, although only GPUs that are denied are left"
    is_bound = bool(seen.before["spec"].get("nodeName"))
    if seen.completes("gpuTypes") and not is_bound and any(map(_is_denied, after)) and not all(map(_is_denied, after)):
        yield "not kept off a node with GPUs that are denied"
    lost = [node for node in before if steered and node not in after]
    if any(not _is_denied(node) for node in lost) and not seen.has_injected("cudaDriver"):
        yield "kept off a node with GPUs that are not denied"


def _is_denied(node: Raw) -> bool:
    return "H100" in str(at(node, "metadata", "labels").get("nvidia.com/gpu.product"))


def _gpu_faults(seen: Seen) -> bool:
    return bool(seen.violations("gpuLimits"))


def _uses_nvidia(container: Raw) -> bool:
    return any(name.startswith("nvidia.com/") for name in gpus_of(container))


def _uses_others(container: Raw) -> bool:
    return any(name.startswith(("amd.com/", "gpu.intel.com/")) for name in gpus_of(container))


def _is_known(container: Raw) -> bool:
    """Whether the policy says that the image needs no CUDA."""
    return str(container.get("image")).startswith("registry.example.com/train:")


def shares(node: Raw) -> bool:
    """Whether its labels say that pods share its GPUs."""
    return at(node, "metadata", "labels").get("nvidia.com/gpu.sharing-strategy") == "mps"


def candidates(pod: Raw, *, whatever_taints: bool = False) -> Iterator[Raw]:
    """Nodes that have what the pod asks for at all."""
    spec, gpus = pod["spec"], reserved(pod)
    for node in NODES:
        if (
            placed(spec, node)
            and (whatever_taints or tolerates(spec, node))
            and gpus.keys() <= at(node, "status", "capacity").keys()
        ):
            yield node
