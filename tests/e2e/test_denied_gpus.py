"""Three replicas and the real scheduler: no pod gets a GPU that its policy forbids."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from tests.denied_gpus import LATER, NODES, RULES, attempts, is_forbidden
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import change, remove_node
from tests.e2e.installation import Installation
from tests.e2e.load_balancer import HAPROXY
from tests.e2e.objects import JUDGED
from tests.e2e.quota_site import QuotaSite
from tests.e2e.scheduler import decided_pods

Namespaces = Callable[[str], str]
PODS = 40
QUOTA = {"mode": "enforce", "byModel": {"T4": 500, "H100": 500, "L4": 500}}


def _policy(name: str) -> str:
    head = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUPolicy", "metadata": {"name": name}}
    rules = yaml.safe_load(JUDGED) | RULES[name] | {"gpuQuota": QUOTA, "cudaDriver": {"mode": "disabled"}}
    return yaml.safe_dump({**head, "spec": {"namespaces": [f"{name}-*"], "rules": rules}})


def _add(plane: ControlPlane, name: str) -> None:
    labels, taints = (NODES | LATER)[name]
    metadata = {"name": name, "labels": {**labels, "kubernetes.io/hostname": name}}
    status, answer = plane.raw("POST", "/api/v1/nodes", {"metadata": metadata, "spec": {"taints": taints}})
    assert status == 201, answer
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "500", **({"nvidia.com/gpu": "200"} if labels else {})}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    state = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
    change(plane, name, {"status": state}, subresource="/status")
    change(plane, name, {"spec": {"taints": taints}})


@pytest.fixture(scope="module")
def site(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuotaSite]:
    if HAPROXY is None:
        pytest.skip("no haproxy here; Debian's package is haproxy")
    plane = installation.plane
    plane.start_scheduler()
    policies = {f"{name}.yaml": _policy(name) for name in RULES}
    try:
        for name in NODES:
            _add(plane, name)
        with QuotaSite(installation, tmp_path_factory.mktemp("denied"), policies, in_flight_seconds=90) as site:
            yield site
    finally:
        for name in NODES | LATER:
            remove_node(plane, name)


def _sent(site: QuotaSite, path: str, seed: int, *, comes: str) -> Counter[str]:
    """Create the pods of all attempts with their updates, while a node comes; how many requests were answered how."""
    answers: Counter[str] = Counter()
    for at, attempt in enumerate(attempts(seed, PODS)):
        if at == PODS // 2:
            _add(site.plane, comes)
        status, stored = site.plane.raw("POST", path, attempt.pod)
        answers[f"created {status}"] += 1
        if status != 201:
            assert status == 403, stored
            continue
        own = f"{path}/{attempt.pod['metadata']['name']}"
        for update in attempt.updates:
            status, answer = site.plane.raw("PUT", own, attempt.after(site.plane.raw("GET", own)[1], update))
            answers[f"updated {status}"] += 1
            assert status in {200, 403, 409, 422}, answer
    return answers


@contextmanager
def bound(site: QuotaSite, namespace: str, name: str) -> Iterator[dict[str, str]]:
    """The nodes of the pods of all attempts by their uids; the pods go with the block."""
    plane, path = site.plane, f"/api/v1/namespaces/{namespace}/pods"
    comes = "h100-nvl" if name == "allowing" else "h100-2"
    eventually(lambda: plane.raw("POST", f"{path}?dryRun=All", _on_forbidden(name))[0] == 403)
    try:
        answers = _sent(site, path, 7, comes=comes)
        assert answers["created 201"] > PODS // 4
        assert answers["created 403"]
        assert answers["updated 200"]
        pods = decided_pods(plane, namespace)
        yield {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}
    finally:
        plane.raw("DELETE", f"{path}?gracePeriodSeconds=0")
        eventually(lambda: plane.raw("GET", path)[1]["items"] == [])
        remove_node(plane, comes)


@pytest.mark.parametrize("name", RULES)
def test_no_pod_is_bound_to_a_gpu_that_its_policy_forbids(
    site: QuotaSite, make_namespace: Namespaces, name: str
) -> None:
    """Pods select by field and by name, and get tolerations, selectors and gates later; a node comes meanwhile."""
    with bound(site, make_namespace(name), name) as nodes:
        assert [node for node in nodes.values() if is_forbidden(name, node)] == []
        assert len(nodes) > PODS // 8


def _on_forbidden(policy: str) -> dict[str, Any]:
    node = next(one for one in NODES if is_forbidden(policy, one))
    pod = next(attempts(0, 1)).pod
    containers = pod["spec"]["containers"]
    return {**pod, "spec": {"containers": containers, "nodeSelector": {"kubernetes.io/hostname": node}}}
