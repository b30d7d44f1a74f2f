"""Rules that steer by what is known at the moment: replicas out of step, and templates whose pods cannot be steered."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import pod, policy, workload
from tests.gpus.discovered_labels import MPS
from tests.strategies import checked
from webhook import engine
from webhook.facts.facts import ClusterFacts
from webhook.model.pod_reader import pod_from_raw
from webhook.outcome import FindingKind, Outcome

DRIVER = "nvidia.com/cuda.driver-version.full"
OLD_CUDA = policy({"cudaDriver": {"images": {"*": "11.4"}}})
NEW_CUDA = policy({"cudaDriver": {"images": {"*": "13.0"}}})
GENERATIONS_RAW = [
    {
        "metadata": {
            "name": name,
            "labels": {"nvidia.com/gpu.product": product, "nvidia.com/cuda.driver-version.full": driver},
        },
        "status": {"capacity": {"nvidia.com/gpu": "8"}},
    }
    for name, product, driver in (("t4", "Tesla-T4", "535.183.01"), ("b200", "NVIDIA-B200", "580.95.05"))
]
GENERATIONS = ClusterFacts.of(GENERATIONS_RAW)
"""The older node runs CUDA 11, the newer one CUDA 13, and neither runs the other."""


def kinds(outcome: Outcome) -> list[FindingKind]:
    return [finding.kind for finding in outcome.findings]


def cuda_pod(**annotations: str) -> dict[str, Any]:
    """A pod whose image brings no cuda-compat."""
    raw = pod(1, annotations=annotations)
    raw["spec"]["containers"][0]["image"] = "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime"
    return raw


def test_a_pod_that_another_policy_steered_off_the_nodes_that_fit_is_not_refused_for_it() -> None:
    """The platform corrects what it says of an image, and one replica has heard of it before the other."""
    completed = engine.mutate(cuda_pod(), OLD_CUDA, GENERATIONS).object
    assert engine.validate(completed, NEW_CUDA, GENERATIONS).refusals == ()
    completed = engine.mutate(cuda_pod(), NEW_CUDA, GENERATIONS).object
    assert engine.validate(completed, NEW_CUDA, GENERATIONS).findings == ()


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        pytest.param("Deployment", [], id="steered"),
        pytest.param("DaemonSet", [FindingKind.ADVICE], id="one pod for each node"),
    ],
)
def test_a_template_is_told_of_nodes_that_its_pods_cannot_be_kept_off(kind: str, told: list[FindingKind]) -> None:
    outcome = engine.validate_workload(workload(kind, cuda_pod()), "team", NEW_CUDA, GENERATIONS)
    assert (kinds(outcome), outcome.patch) == (told, ())


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_a_template_whose_image_no_node_can_run_is_told_so(kind: str) -> None:
    old = ClusterFacts.of(GENERATIONS_RAW[:1])
    (finding,) = engine.validate_workload(workload(kind, cuda_pod()), "team", NEW_CUDA, old).findings
    assert (finding.kind, finding.warns) == (FindingKind.VIOLATION, True)
    assert "needs driver 580.65.06 or newer" in finding.message


SHARES = policy({"sharedGpus": {}})
BY_MPS = ClusterFacts.of(
    [{"metadata": {"name": "t4", "labels": dict(MPS)}, "status": {"capacity": {"nvidia.com/gpu": "4"}}}]
)


@pytest.mark.parametrize(
    ("resource", "refuses"),
    [pytest.param("nvidia.com/gpu", 0, id="by labels"), pytest.param("nvidia.com/gpu.shared", 1, id="by name")],
)
def test_a_queue_may_choose_other_nodes_than_those_that_share_and_a_name_stays(resource: str, refuses: int) -> None:
    """A rule may judge by nodes and by the pod alone; only what follows from nodes waits for the queue."""
    raw = workload("Job", pod(0))
    container = raw["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {resource: 2}}
    assert len(engine.validate_workload(raw, "team", SHARES, BY_MPS).findings) == 1
    raw["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    assert len(engine.validate_workload(raw, "team", SHARES, BY_MPS).findings) == refuses


def test_an_update_that_narrows_down_the_nodes_to_those_that_share_is_not_refused() -> None:
    """A scheduler or a queue places a pod that was admitted."""
    (new,) = engine.validate(pod(2), SHARES, BY_MPS).findings
    assert new.refuses
    gated = pod(2)
    gated["spec"]["nodeSelector"] = {"pool": "later"}
    (updated,) = engine.validate(pod(2), SHARES, BY_MPS, old=gated).findings
    assert not updated.refuses


ADD_UP = policy({"gpuTypes": {"denied": ["H100"]}, "cudaDriver": {}})
MEMORY = "nvidia.com/gpu.memory"
THREE_KINDS = [
    {
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": product, MEMORY: memory, DRIVER: driver}},
        "status": {"capacity": {"nvidia.com/gpu": "8"}},
    }
    for name, product, memory, driver in (
        ("t4", "Tesla-T4", "15360", "580.95.05"),
        ("h100", "NVIDIA-H100-80GB-HBM3", "81559", "580.95.05"),
        ("a100", "NVIDIA-A100-SXM4-40GB", "40960", "535.183.01"),
    )
]
NEW_A100 = {
    "metadata": {"name": "new", "labels": {**THREE_KINDS[2]["metadata"]["labels"], DRIVER: "580.95.05"}},
    "status": {"capacity": {"nvidia.com/gpu": "8"}},
}


def test_a_pod_to_which_memory_models_and_drivers_together_leave_no_node_is_told_each_reason_once() -> None:
    """Each rule by itself leaves a node, and would have excluded the others in silence."""
    raw = cuda_pod(**{"gpupolicy.dev/gpu-memory": "24Gi"})
    facts = ClusterFacts.of(THREE_KINDS)
    completed = engine.mutate(raw, ADD_UP, facts)
    assert completed.object["spec"] == raw["spec"]
    (found,) = engine.validate(completed.object, ADD_UP, facts).refusals
    assert found.rule == "gpuTypes"
    for reason in ("T4 is too small (15Gi)", "H100-80GB is denied", "A100 has driver 535"):
        assert found.message.count(reason) == 1


def test_a_pod_is_kept_off_the_nodes_of_all_rules_at_once_while_one_is_left() -> None:
    facts = ClusterFacts.of([*THREE_KINDS, NEW_A100])
    completed = engine.mutate(cuda_pod(**{"gpupolicy.dev/gpu-memory": "24Gi"}), ADD_UP, facts)
    (left,) = facts.matching_nodes(pod_from_raw(completed.object))
    assert left.labels == NEW_A100["metadata"]["labels"]
    assert engine.validate(completed.object, ADD_UP, facts).refusals == ()


_KINDS = st.builds(
    lambda product, memory, driver, shared: {
        **({"nvidia.com/gpu.product": product + ("-SHARED" if shared else "")} if product else {}),
        **({MEMORY: memory} if memory else {}),
        **({DRIVER: driver} if driver else {}),
        **({"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "mps"} if shared and product else {}),
    },
    st.sampled_from(("Tesla-T4", "NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3", "")),
    st.sampled_from(("15360", "40960", "81559", "")),
    st.sampled_from(("535.183.01", "580.95.05", "")),
    st.booleans(),
)
_TYPES = st.fixed_dictionaries(
    {},
    optional={
        "allowed": st.sampled_from((["T4"], ["A100", "H100"], ["*"])),
        "denied": st.sampled_from((["H100"], ["A100-80GB"])),
        "prefer": st.sampled_from((["T4", "H100"],)),
    },
)


@checked
@given(
    st.lists(_KINDS, min_size=1, max_size=5),
    _TYPES,
    st.sampled_from(("any", "exclusive", "shared")),
    st.sampled_from(("", "16Gi", "40Gi", "80Gi")),
)
def test_three_rules_together_take_no_last_node_in_silence_and_none_that_says_nothing(
    kinds: list[dict[str, str]], types: dict[str, Any], isolation: str, memory: str
) -> None:
    nodes = [
        {"metadata": {"name": f"n{at}", "labels": kind}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}
        for at, kind in enumerate(kinds)
    ]
    facts = ClusterFacts.of(nodes)
    under = policy({"gpuTypes": types, "cudaDriver": {}, "sharedGpus": {"isolation": isolation}})
    raw = cuda_pod(**({"gpupolicy.dev/gpu-memory": memory} if memory else {}))
    completed = engine.mutate(raw, under, facts)
    left = facts.matching_nodes(pod_from_raw(completed.object))
    assert left
    assert engine.mutate(completed.object, under, facts).patch == ()
    refused = engine.validate(completed.object, under, facts).refusals
    if {} in kinds:
        assert any(one.labels == {} for one in left)
        assert refused == ()
    assert not refused or engine.validate(raw, under, facts).refusals
    barred = {*types.get("denied", ())} & {"H100"}
    allowed = types.get("allowed", ["*"])
    for labels in [one.labels for one in left] if not refused else ():
        product = labels.get("nvidia.com/gpu.product", "")
        assert not any(model in product for model in barred)
        assert not product or "*" in allowed or any(model in product for model in allowed)
        assert isolation != "exclusive" or "nvidia.com/gpu.sharing-strategy" not in labels
