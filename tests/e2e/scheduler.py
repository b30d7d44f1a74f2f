"""What the real scheduler knows and decides. It watches nodes and pods separately, so it may judge a pod too early."""

import time
from collections.abc import Iterable
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually


def wait_until_known(plane: ControlPlane, nodes: Iterable[str]) -> None:
    """Return once the scheduler knows the labels and taints of these nodes, and what was changed before them.

    For each node a pod is created that selects all labels and tolerates no other taints. It requests nothing.
    """
    path = f"/api/v1/namespaces/{plane.namespace(f'known-{time.monotonic_ns()}')}/pods"
    for name in nodes:
        node = plane.raw("GET", f"/api/v1/nodes/{name}")[1]
        taints = node["spec"].get("taints", [])
        spec = {
            "containers": [{"name": "main", "image": "busybox"}],
            "nodeSelector": node["metadata"]["labels"],
            "tolerations": [{key: taint.get(key, "") for key in ("key", "value", "effect")} for taint in taints],
        }
        status, answer = plane.raw("POST", path, {"metadata": {"name": name}, "spec": spec})
        assert status == 201, answer
    eventually(lambda: all(pod["spec"].get("nodeName") for pod in plane.raw("GET", path)[1]["items"]))
    plane.raw("DELETE", f"{path}?gracePeriodSeconds=0")


def decided_pods(plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    """The pods of a namespace, once each is bound, gated, or without a node that is left for it."""

    def decided() -> list[dict[str, Any]]:
        pods: list[dict[str, Any]] = plane.raw("GET", f"/api/v1/namespaces/{namespace}/pods")[1]["items"]
        return pods if all(map(_is_decided, pods)) else []

    return eventually(decided)


def _is_decided(pod: dict[str, Any]) -> bool:
    reasons = {condition.get("reason") for condition in pod.get("status", {}).get("conditions", [])}
    return bool(pod["spec"].get("nodeName") or reasons & {"Unschedulable", "SchedulingGated"})
