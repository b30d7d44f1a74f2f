"""Groups and single pods that race for a quota over replicas that are killed."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Any

from tests.e2e.eventually import eventually
from tests.e2e.objects import gpu_pod
from tests.e2e.quota_fixtures import create, pods
from tests.e2e.quota_site import QuotaSite
from tests.e2e.test_groups import MOST, groups, held, member, podgroup

__all__ = ["groups"]

Namespaces = Callable[[str], str]


def test_groups_and_single_pods_race_over_replicas_that_are_killed(
    groups: QuotaSite, make_namespace: Namespaces
) -> None:
    """Never more than the quota, no group that began stays half, and nothing is held in the end."""
    namespace, plane = make_namespace("many"), groups.plane
    source = random.Random(39)
    sizes = {f"g{number}": (source.randint(2, 5), source.randint(1, 3)) for number in range(24)}
    for name, (size, _) in sizes.items():
        podgroup(plane, namespace, name, size)

    def tried(manifest: dict[str, Any]) -> int:
        try:
            status, said = create(groups, namespace, manifest)
        except HTTPException:  # the API server ends a connection whose request takes too long
            path = f"/api/v1/namespaces/{namespace}/pods/{manifest['metadata']['name']}"
            return 201 if plane.raw("GET", path)[0] == 200 else 504
        assert status in {201, 403, 429, 500, 503, 504}, said
        return status

    def work(name: str) -> str:
        size, gpus = sizes[name]
        for number in range(size):
            for attempt in range(60):
                status = tried(member(f"{name}-{number}-{attempt}", name, gpus))
                if status == 201:
                    break
                if status == 403:
                    assert not number, f"{name} began and is refused"
                    return "refused"
            else:
                return "given up"
        return "in"

    def single(number: int) -> str:
        name = f"one-{number}"
        if tried(gpu_pod(name, 1)) == 201 and number % 2:
            plane.raw("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0")
        return ""

    def used() -> int:
        limits = (pod["spec"]["containers"][0]["resources"]["limits"] for pod in pods(plane, namespace))
        found = sum(int(one["nvidia.com/gpu"]) for one in limits)
        assert found <= MOST
        return found

    with ThreadPoolExecutor(64) as threads:
        asked = [threads.submit(work, name) for name in sizes] + [threads.submit(single, n) for n in range(60)]
        groups.replicas.running[0].kill()
        while not all(one.done() for one in asked):
            used()
        results = [one.result() for one in asked]
    assert results.count("in")
    assert "given up" not in results
    for name, result in zip(sizes, results, strict=False):
        there = sum(pod["metadata"]["name"].startswith(f"{name}-") for pod in pods(plane, namespace))
        assert there == (sizes[name][0] if result == "in" else 0), name
    plane.raw("DELETE", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
    eventually(lambda: groups.entered(f"namespace.{namespace}") == set() and held(groups, namespace) == [])
