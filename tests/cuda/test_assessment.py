"""Judging a pod costs bounded time and memory, whatever tenants write."""

from tests.rules.test_cuda_driver import T4, cluster, gpu_pod, told
from webhook.cuda import assessment


def test_at_most_64_containers_of_a_pod_are_judged():
    """Each container has another image, so no earlier answer helps."""
    found = told(gpu_pod(*(f"registry.example.com/app:{at}" for at in range(5000))), cluster(T4), unknown="warn")
    assert len(found) == 64


def test_assessments_of_pods_with_many_containers_are_not_kept():
    before = assessment._assessment.cache_info().currsize
    for number in range(3):
        told(gpu_pod(*(f"registry.example.com/{number}:{at}-cu124" for at in range(5))), cluster(T4))
    assert assessment._assessment.cache_info().currsize == before
