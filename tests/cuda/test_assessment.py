"""Judging a pod costs bounded time and memory, whatever tenants write."""

import pytest

from tests.rules.test_cuda_driver import T4, cluster, gpu_pod, told
from webhook.cuda import assessment


def test_at_most_64_containers_of_a_pod_are_judged():
    """Each container has another image, so no earlier answer helps."""
    found = told(gpu_pod(*(f"registry.example.com/app:{at}" for at in range(5000))), cluster(T4), unknown="warn")
    assert len(found) == 64


def test_assessments_of_pods_with_many_containers_are_not_kept():
    before = len(assessment._kept), assessment._pod_verdict.cache_info().currsize
    for number in range(3):
        told(gpu_pod(*(f"registry.example.com/{number}:{at}-cu124" for at in range(5))), cluster(T4))
    assert (len(assessment._kept), assessment._pod_verdict.cache_info().currsize) == before


@pytest.mark.parametrize("nodes", [0, 1, 7])
def test_kept_assessments_are_bounded(nodes):
    facts = cluster(*({**T4, "nvidia.com/gpu.product": f"GPU-{at}"} for at in range(nodes)))
    assessment._kept.clear()
    most = 0
    for number in range(6000 // (nodes + 1)):
        told(gpu_pod(f"registry.example.com/{number}:1-cu124"), facts)
        most = max(most, len(assessment._kept))
    assert 1 < most * (nodes + 1) <= 4096 + nodes + 1


@pytest.mark.parametrize(("containers", "is_told"), [(4, True), (5, False)], ids=["a few", "many"])
def test_the_toolkits_check_is_evaluated_for_pods_with_few_containers_only(containers, is_told):
    """Authors of pods decide what the check costs for each kind of node."""
    raw = gpu_pod(*(f"registry.example.com/app:{at}-cu124" for at in range(containers)))
    for container in raw["spec"]["containers"]:
        container["env"] = [
            {"name": "CUDA_VERSION", "value": "12.4.1"},
            {"name": "NVIDIA_REQUIRE_X", "value": "cuda>=99"},
        ]
    found = told(raw, cluster(T4))
    assert any("NVIDIA_REQUIRE_CUDA" in one.found for one in found) is is_told
