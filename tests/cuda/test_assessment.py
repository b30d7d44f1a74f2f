"""What judging pods costs is bounded, whatever tenants write into them."""

import pytest

from tests.rules.test_cuda_driver import T4, cluster, gpu_pod, told
from webhook.cuda import assessment


def test_a_pod_of_thousands_of_containers_is_judged_by_as_many_as_a_node_has_room_for():
    """Each has another image, so that nothing is remembered of the one before."""
    found = told(gpu_pod(*(f"registry.example.com/app:{at}" for at in range(5000))), cluster(T4), unknown="warn")
    assert len(found) == 64


def test_pods_of_many_containers_are_not_remembered():
    before = len(assessment._kept), assessment._pod_verdict.cache_info().currsize
    for number in range(3):
        told(gpu_pod(*(f"registry.example.com/{number}:{at}-cu124" for at in range(5))), cluster(T4))
    assert (len(assessment._kept), assessment._pod_verdict.cache_info().currsize) == before


@pytest.mark.parametrize("nodes", [0, 1, 7])
def test_what_is_remembered_of_pods_has_a_bound(nodes):
    facts = cluster(*({**T4, "nvidia.com/gpu.product": f"GPU-{at}"} for at in range(nodes)))
    assessment._kept.clear()
    most = 0
    for number in range(6000 // (nodes + 1)):
        told(gpu_pod(f"registry.example.com/{number}:1-cu124"), facts)
        most = max(most, len(assessment._kept))
    assert 1 < most * (nodes + 1) <= 4096 + nodes + 1


@pytest.mark.parametrize(("containers", "is_told"), [(4, True), (5, False)], ids=["a few", "many"])
def test_the_toolkits_check_is_made_for_pods_of_few_containers(containers, is_told):
    """Their authors decide what it costs for each kind of node."""
    raw = gpu_pod(*(f"registry.example.com/app:{at}-cu124" for at in range(containers)))
    for container in raw["spec"]["containers"]:
        container["env"] = [
            {"name": "CUDA_VERSION", "value": "12.4.1"},
            {"name": "NVIDIA_REQUIRE_X", "value": "cuda>=99"},
        ]
    found = told(raw, cluster(T4))
    assert any("NVIDIA_REQUIRE_CUDA" in one.found for one in found) is is_told
