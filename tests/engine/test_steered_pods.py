"""Where completed pods can land, whatever the cluster: on no node that fails them while a label can tell it apart."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.build import policy
from tests.facts.samples import expressions, fields, node, runtime_class
from tests.strategies import checked
from webhook import engine
from webhook.cuda.assessment import expected_labels
from webhook.cuda.checks import Verdict
from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.offer import offer_of
from webhook.cuda.verdict import judge
from webhook.facts.facts import ClusterFacts
from webhook.model.node import NodeClass, NodePool
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.outcome import FindingKind, Outcome
from webhook.policy.cluster_settings import PoolSettings
from webhook.policy.policy_set import Policy

GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
DRIVERS = {"470.82.01": "11.4", "535.183.01": "12.2", "545.23.06": "12.3", "550.54.15": "12.4", "580.95.05": "13.0"}
PRODUCTS = {
    "Tesla-V100-SXM2-32GB": "7.0",
    "Tesla-T4-SHARED": "7.5",
    "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb": "8.0",
    "NVIDIA-GeForce-RTX-3090": "8.6",
    "NVIDIA-H100-80GB-HBM3": "9.0",
    "NVIDIA-B200": "10.0",
}
IMAGES = (
    "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime",
    "nvidia/cuda:13.0.0-base-ubuntu24.04",
    "nvidia/cuda:12.8.0-base-ubuntu24.04",
    "pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime",
    "nvidia/cuda:11.4.3-base-ubuntu20.04",
    "tensorflow/tensorflow:1.15.0-gpu-py3",
    "rocm/vllm:latest",
    "registry.example.com/team/app:1",
    "python:3.12",
    "no image",
)
TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}


def published(driver: str, product: str, arch: str, zone: str) -> dict[str, str]:
    """What GPU Feature Discovery and the kubelet write."""
    major, minor = DRIVERS[driver].split(".")
    numbers = dict(zip(("major", "minor", "revision"), driver.split("."), strict=True))
    compute = dict(zip(("major", "minor"), PRODUCTS[product].split("."), strict=True))
    return {
        "zone": zone,
        "kubernetes.io/arch": arch,
        "nvidia.com/gpu.product": product,
        "nvidia.com/cuda.driver-version.full": driver,
        "nvidia.com/cuda.runtime-version.full": DRIVERS[driver],
        "nvidia.com/cuda.runtime-version.major": major,
        "nvidia.com/cuda.runtime-version.minor": minor,
        **{f"nvidia.com/cuda.driver-version.{part}": number for part, number in numbers.items()},
        **{f"nvidia.com/gpu.compute.{part}": number for part, number in compute.items()},
    }


ZONES = st.sampled_from("ab")
LABELS = st.builds(
    published,
    st.sampled_from(list(DRIVERS)),
    st.sampled_from(list(PRODUCTS)),
    st.just("amd64") | st.just("arm64"),
    ZONES,
)
SOME_LABELS = st.one_of(
    LABELS,
    st.tuples(LABELS, st.sets(st.sampled_from(list(published("470.82.01", "NVIDIA-B200", "amd64", "a"))))).map(
        lambda pair: {key: value for key, value in pair[0].items() if key not in pair[1]}
    ),
)
"""All of them, or what is there while some are missing."""
NODES = st.lists(
    st.builds(
        lambda labels, taints, resources: {
            "labels": labels,
            "taints": taints,
            "capacity": dict.fromkeys(resources, "8"),
        },
        SOME_LABELS,
        st.sampled_from([[], [TAINT], [{**TAINT, "value": "team"}]]),
        st.sampled_from([[GPU], [MIG], [GPU, MIG], []]),
    ),
    max_size=6,
).map(lambda parts: [node(f"n{at}", **part) for at, part in enumerate(parts)])
POOLS = st.lists(
    st.fixed_dictionaries(
        {"labels": ZONES.map(lambda zone: {"zone": zone})},
        optional={"driver": st.sampled_from(["550", *DRIVERS]), "product": st.sampled_from(list(PRODUCTS))},
    ),
    max_size=2,
).map(lambda found: tuple(PoolSettings(name=f"p{at}", **one).pool for at, one in enumerate(found)))
RUNTIME_CLASSES = st.lists(
    ZONES.map(lambda zone: runtime_class("nvidia", scheduling={"nodeSelector": {"zone": zone}})), max_size=1
)
TERMS = st.one_of(
    st.builds(lambda zone: expressions(("zone", "In", [zone])), ZONES),
    st.builds(lambda key: expressions((key, "Exists", [])), st.sampled_from(["nvidia.com/gpu.product", "zone"])),
    st.builds(lambda value: expressions(("nvidia.com/gpu.compute.major", "Gt", [value])), st.sampled_from(["7", "8"])),
    st.just(expressions(("nvidia.com/cuda.runtime-version.major", "In", ["12", "13"]))),
    st.just({}),
    st.sampled_from(["n0", "n1"]).map(lambda name: fields(("metadata.name", "In", [name]))),
)


def _container(name: str, image: str, resource: str) -> dict[str, Any]:
    return {"name": name, "image": image, "resources": {"limits": {resource: "1"}, "requests": {resource: "1"}}}


def _pod(images: list[str], resource: str, affinity: dict[str, Any], **spec: Any) -> dict[str, Any]:
    containers = [_container(f"c{at}", image, resource) for at, image in enumerate(images)]
    spec = {key: value for key, value in spec.items() if value} | ({"affinity": affinity} if affinity else {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}


def _affinity(terms: list[dict[str, Any]] | None, zone: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if terms is not None:
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if zone is not None:
        wish = {"weight": 1, "preference": expressions(("zone", "In", [zone]))}
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [wish]
    return {"nodeAffinity": found} if found else {}


PODS = st.builds(
    _pod,
    st.lists(st.sampled_from(IMAGES), min_size=1, max_size=3),
    st.sampled_from([GPU, GPU, MIG]),
    st.builds(_affinity, st.none() | st.lists(TERMS, min_size=1, max_size=2), st.none() | ZONES),
    nodeSelector=st.sampled_from([{}, {}, {"zone": "a"}]),
    nodeName=st.sampled_from(["", "", "", "n0"]),
    tolerations=st.sampled_from([[], [], [{"operator": "Exists"}]]),
    runtimeClassName=st.sampled_from(["", "", "nvidia"]),
)
SETTINGS = st.fixed_dictionaries({"forwardCompat": st.sampled_from(["allow", "deny"])})


def policy_of(cuda: Mapping[str, Any], pools: tuple[NodePool, ...] = ()) -> Policy:
    in_force = policy({"tolerations": {}, "runtimeClass": {}, "cudaDriver": cuda})
    return Policy(in_force.name, in_force.files, in_force.hash, in_force.rules, pools)


def fates(raw: Mapping[str, Any], nodes: NodeClass, *, allows_compat: bool) -> Verdict:
    """What becomes of the pod's containers on nodes of this class, asked one by one and image by image."""
    verdicts = {
        judge(need_of(container["image"], ImageContext()), offer_of(nodes.labels)).verdict
        for container in raw["spec"]["containers"]
    }
    if Verdict.INCOMPATIBLE in verdicts or (Verdict.FORWARD_COMPAT_ONLY in verdicts and not allows_compat):
        return Verdict.INCOMPATIBLE
    return Verdict.UNKNOWN if Verdict.UNKNOWN in verdicts else Verdict.COMPATIBLE


def separates(unfit: NodeClass, others: list[NodeClass]) -> bool:
    """Whether the unfit nodes have a label about driver, GPU or processor that no other candidate has or will have."""
    theirs = [expected_labels(other.labels, offer_of(other.labels)) for other in others]
    read = [key for key in unfit.labels if key.endswith((".major", ".full", ".product", "/arch"))]
    return any(all(labels.get(key) != unfit.labels[key] for labels in theirs) for key in read)


def is_bound(pod: Pod) -> bool:
    return bool(pod.node_name) or any(term.fields for term in pod.required or ())


def classes(found: Any) -> set[tuple[Any, ...]]:
    return {(tuple(one.labels.items()), one.taints, one.gpu_resources, one.count) for one in found}


@checked
@given(nodes=NODES, pools=POOLS, runtime_classes=RUNTIME_CLASSES, raw=PODS, cuda=SETTINGS)
def test_a_completed_pod_keeps_every_node_that_may_run_it_and_loses_those_that_a_label_tells_apart(
    nodes, pools, runtime_classes, raw, cuda
):
    snapshot = ClusterFacts.of(nodes, runtime_classes)
    facts = snapshot.with_pools(pools)
    without = engine.mutate(raw, policy_of({**cuda, "steer": False}, pools), snapshot)
    steered = engine.mutate(raw, policy_of(cuda, pools), snapshot)
    before, after = (facts.matching_nodes(pod_from_raw(outcome.object)) for outcome in (without, steered))
    fate = {id(one): fates(raw, one, allows_compat=cuda["forwardCompat"] == "allow") for one in before}
    fit = [one for one in before if fate[id(one)] is not Verdict.INCOMPATIBLE]
    assert classes(fit) <= classes(after) <= classes(before)
    left = [one for one in before if classes([one]) <= classes(after) and one not in fit]
    if fit and not is_bound(pod_from_raw(raw)):
        assert not any(separates(one, fit) for one in left)
    else:
        assert steered.object.get("spec") == without.object.get("spec")
    assert engine.mutate(steered.object, policy_of(cuda, pools), snapshot).patch == ()
    _is_judged(engine.validate(steered.object, policy_of(cuda, pools), snapshot), list(before), fit, left)


def _is_judged(outcome: Outcome, before: list[NodeClass], fit: list[NodeClass], left: list[NodeClass]) -> None:
    assert bool(outcome.refusals) == (bool(before) and not fit)
    told = [one for one in outcome.findings if one.kind is FindingKind.ADVICE and "some nodes" in one.message]
    assert bool(told) == bool(fit and left)


@checked
@given(
    nodes=st.lists(LABELS, min_size=1, max_size=3),
    declared=LABELS,
    image=st.sampled_from(IMAGES[:6]),
    names=st.sampled_from([{}, {"nvidia.com/gpu.family": "undefined"}]),
)
def test_labels_that_come_late_take_no_node_away_from_a_pod_that_it_runs(nodes, declared, image, names):
    """GPU Feature Discovery starts after its node, and pools declare a driver and a product at most."""
    driver, product = declared["nvidia.com/cuda.driver-version.full"], declared["nvidia.com/gpu.product"]
    pool = PoolSettings(name="p", driver=driver, product=product, arch=declared["kubernetes.io/arch"]).pool
    there = ClusterFacts.of([node(f"n{at}", labels=names | one, capacity={GPU: "8"}) for at, one in enumerate(nodes)])
    raw = _pod([image], GPU, {})
    completed = pod_from_raw(engine.mutate(raw, policy_of({}, (pool,)), there).object)
    (of_pool,) = ClusterFacts().with_pools((pool,)).matching_nodes(pod_from_raw(raw))
    come = ClusterFacts.of([node("come", labels=names | declared | dict(pool.labels), capacity={GPU: "8"})])
    if fates(raw, of_pool, allows_compat=True) is not Verdict.INCOMPATIBLE:
        assert ClusterFacts().with_pools((pool,)).matching_nodes(completed)
        assert come.matching_nodes(completed)
