"""Pods that get parts of GPUs by annotations of KAI and Run:ai: counted and judged, and otherwise left as they are."""

from fractions import Fraction
from typing import Any

import pytest

from tests.build import NAMESPACE, container, node, pod, policies, policy, request, workload
from tests.facts.pod_samples import stored
from tests.rules.every_rule import INJECTING
from webhook import engine
from webhook.admission import phases
from webhook.facts.facts import ClusterFacts
from webhook.ledger.gpu_pods import stored_from_raw
from webhook.ledger.ledger_store import demands_of
from webhook.model.pod_reader import pod_from_raw
from webhook.quota.demand import pod_demand
from webhook.quota.quotas import Counting

PRODUCT, GPU = "nvidia.com/gpu.product", "nvidia.com/gpu"
T4 = {PRODUCT: "Tesla-T4", "nvidia.com/gpu.memory": "15360", "nvidia.com/cuda.driver-version.full": "470.82.01"}
H100 = {PRODUCT: "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}
UNKNOWN = {"nvidia.com/gpu.present": "true"}


def cluster(*kinds: dict[str, str]) -> ClusterFacts:
    return ClusterFacts.of([node(f"n{at}", labels=one, capacity={GPU: "8"}) for at, one in enumerate(kinds)])


def asking(annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    return pod(0, spec=spec, annotations=annotations)


HALF = asking({"gpu-fraction": "0.5"})


@pytest.mark.parametrize(
    ("raw", "kinds", "gpus"),
    [
        pytest.param(HALF, [], {"nvidia.com/gpu@1/2": 1}, id="a fraction"),
        pytest.param(
            asking({"gpu-fraction": "0.9", "gpu-fraction-num-devices": "2"}),
            [],
            {"nvidia.com/gpu@9/10": 2},
            id="of two",
        ),
        pytest.param(asking({"gpu-fraction": "x"}), [], {GPU: 1}, id="unreadable"),
        pytest.param(asking({"gpu-memory": "8192"}), [T4, H100], {"nvidia.com/gpu@267/500": 1}, id="of the smallest"),
        pytest.param(
            asking({"gpu-memory": "20000"}),
            [T4, H100],
            {"nvidia.com/gpu@123/500": 1},
            id="of the smallest with so much",
        ),
        pytest.param(asking({"gpu-memory": "8192"}, nodeSelector=H100), [T4, H100], {"nvidia.com/gpu@101/1000": 1}),
        pytest.param(asking({"gpu-memory": "8192"}), [T4, UNKNOWN], {GPU: 1}, id="a GPU of unknown size"),
        pytest.param(asking({"gpu-memory": "8192"}), [], {GPU: 1}, id="no node is known"),
        pytest.param(asking({"gpu-memory": "90000"}), [T4, H100], {GPU: 1}, id="more than there is"),
        pytest.param(
            pod(container(limits={GPU: 2, "nvidia.com/gpumem": 7680}), 1), [T4], {"nvidia.com/gpu@1/2": 2, GPU: 1}
        ),
    ],
)
def test_a_pod_counts_its_parts_of_gpus(raw: dict[str, Any], kinds: list[dict[str, str]], gpus: dict[str, int]) -> None:
    demand = pod_demand(pod_from_raw(raw), NAMESPACE, Counting(), cluster(*kinds)).all
    assert demand is not None
    assert dict(demand.gpus) == gpus


def test_the_stored_pod_counts_the_same() -> None:
    raw = stored("a", gpus=0)
    raw["metadata"]["annotations"] = {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "3", "note": "x" * 9000}
    seen = stored_from_raw(raw).gpu_pod
    assert seen is not None
    assert [demand.gpus for demand in demands_of([seen], Counting()).values()] == [(("nvidia.com/gpu@1/2", 3),)]
    assert seen.pod.annotations == {}


@pytest.mark.parametrize(
    ("rules", "raw", "said"),
    [
        ({"gpuQuota": {"gpus": 0}}, HALF, "spec: requests 1/2 GPU (1 share); GPUs are not enabled in namespace team"),
        ({"gpuQuota": {"gpus": "1/4"}}, HALF, "requests 1/2 GPU (1 share); the GPU quota allows 1/4 GPU in all"),
        ({"gpuQuota": {"byModel": {"T4": 0}}}, HALF, "requests 1/2 T4 (1 share)"),
        (
            {"gpuQuota": {"gpus": 4}},
            asking({"gpu-fraction": "2"}),
            'metadata.annotations[gpu-fraction]: is "2"; KAI and',
        ),
        ({"gpuLimits": {"maxPerPod": 0}}, HALF, "GPUs are not enabled in namespace team"),
        (
            {"gpuLimits": {"maxPerContainer": 2}},
            asking({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "3"}),
            "requests 3 GPUs; the policy allows at most 2 per container",
        ),
        ({"gpuTypes": {"allowed": ["L4"]}}, HALF, "could land on no GPU that it may use"),
        (
            {"cudaDriver": {}},
            pod(container(image="pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime"), annotations={"gpu-fraction": "0.5"}),
            "needs CUDA 13.0",
        ),
    ],
)
def test_a_pod_is_judged_by_its_parts_of_gpus(rules: dict[str, Any], raw: dict[str, Any], said: str) -> None:
    bare = raw | {"metadata": {**raw["metadata"], "annotations": {}}}
    assert engine.simulate(bare, policy(rules), cluster(T4), namespace="team").findings == ()
    (refused,) = engine.simulate(raw, policy(rules), cluster(T4), namespace="team").refusals
    assert said in f"{refused.where}: {refused.message}"


def test_what_is_wrong_with_an_annotation_is_a_warning_where_no_quota_counts_it() -> None:
    outcome = engine.simulate(asking({"gpu-memory": "abc"}), policy({"gpuLimits": {}, "gpuQuota": {}}), cluster())
    (warning,) = outcome.warnings
    assert 'metadata.annotations[gpu-memory]: is "abc"; KAI and Run:ai take a whole number of MiB' in warning


def test_nothing_is_injected_but_what_keeps_the_pod_off_nodes() -> None:
    """No toleration, runtime class, /dev/shm or variable; nodes that rules forbid are excluded."""
    assert engine.simulate(HALF, policy(INJECTING), cluster(T4), namespace="team").injected == ()
    outcome = engine.simulate(HALF, policy({"gpuTypes": {"allowed": ["T4"]}}), cluster(T4, H100), namespace="team")
    assert (outcome.refusals, outcome.injected) == ((), ("gpuTypes",))


def test_a_workload_counts_all_its_pods() -> None:
    made = workload("Deployment", HALF)
    made["spec"] |= {"replicas": 3, "template": HALF}
    quotas = policies({"gpuQuota": {"gpus": 1}}).quotas_for("team")
    outcome = engine.validate_workload(made, "team", policy({}), cluster(T4), quotas)
    assert "its 3 pods request 1 1/2 GPUs (3 shares) together" in " ".join(outcome.warnings)


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        pytest.param("0.5", "0.5", "", id="as it was"),
        pytest.param("0.1", "0.9", 'was "0.1" and is "0.9"', id="more"),
        pytest.param("0.9", "0.1", 'was "0.9" and is "0.1"', id="less"),
        pytest.param("0.9", None, 'was "0.9" and is missing', id="nothing any more"),
        pytest.param(None, "0.9", 'was missing and is "0.9"', id="a CPU pod until now"),
    ],
)
def test_a_quota_keeps_annotations_as_they_were_counted(before: str | None, after: str | None, refused: str) -> None:
    old, new = (asking({} if value is None else {"gpu-fraction": value}) for value in (before, after))
    update = request(new, "UPDATE", old=old)
    answer = phases.validate(update, policies({"gpuQuota": {"gpus": 8}}), cluster(T4)).answer
    assert answer.is_allowed is not bool(refused)
    assert refused in answer.message
    assert phases.validate(update, policies({"gpuQuota": {}}), cluster(T4)).answer.is_allowed


def test_parts_add_up_exactly() -> None:
    thirds = pod_demand(pod_from_raw(asking({"gpu-fraction": "0.333"})), "team", Counting(), cluster()).all
    assert thirds is not None
    assert thirds.gpus == ((f"nvidia.com/gpu@{Fraction(333, 1000)}", 1),)
