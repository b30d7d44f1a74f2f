"""Warnings about pods of controllers, from `kubectl apply` to `kubectl describe`."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import NAMESPACE, Installation
from tests.e2e.objects import deployment, gpu_pod, job
from tests.e2e.registration import Registration
from tests.replica.quota_cluster import DEFINITIONS, GROUP
from webhook.replica.warning_events import REASON


@pytest.fixture(scope="module")
def telling(installation: Installation, control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The webhook with Events, and controllers that make pods."""
    installation.stop()
    control_plane.kubectl("apply", "-f", "-", input=DEFINITIONS)
    eventually(lambda: control_plane.raw("GET", f"{GROUP}/gpupolicies")[0] == 200)
    installation.start("--warning-events", f"--policy-objects={NAMESPACE}")
    control_plane.start_controller_manager()
    with Registration(installation) as registration:
        registration.restore()
        yield control_plane
    installation.stop()
    installation.start()


def told(plane: ControlPlane, namespace: str) -> dict[str, dict[str, Any]]:
    """The Events with warnings, by the rule that their message begins with."""
    items = plane.raw("GET", f"/api/v1/namespaces/{namespace}/events")[1]["items"]
    return {one["message"].partition(":")[0]: one for one in items if one["reason"] == REASON}


def test_kubectl_describe_shows_what_rules_in_mode_warn_say_about_pods_of_a_deployment(
    telling: ControlPlane, make_namespace: Any
) -> None:
    namespace = make_namespace("warned")
    telling.raw("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("web", gpu_pod("web")))
    eventually(lambda: "gpuLimits" in told(telling, namespace), seconds=60)
    events = told(telling, namespace)
    assert {(one["involvedObject"]["kind"], one["involvedObject"]["name"]) for one in events.values()} == {
        ("Deployment", "web")
    }
    assert re.fullmatch(r"gpuLimits: .* \(Pod web-\S+, mode warn of policy warned\)", events["gpuLimits"]["message"]), (
        events["gpuLimits"]["message"]
    )
    described = telling.kubectl("describe", "deployment", "web", namespace=namespace).stdout
    assert described.count(REASON) == len(events)


def test_a_job_is_told_itself_and_only_where_rules_warn(telling: ControlPlane, make_namespace: Any) -> None:
    warned, audited = make_namespace("warned"), make_namespace("audited")
    for namespace in (audited, warned):
        telling.raw("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", job("train", gpu_pod("train")))
    eventually(lambda: "gpuLimits" in told(telling, warned), seconds=60)
    assert told(telling, warned)["gpuLimits"]["involvedObject"]["kind"] == "Job"
    assert told(telling, audited) == {}


def test_a_namespace_in_which_a_pod_was_admitted_can_see_its_policy(telling: ControlPlane, make_namespace: Any) -> None:
    """And no namespace has an object in which nobody asked for a pod, and which no policy names."""
    busy, quiet = make_namespace("warned"), make_namespace("warned")
    assert telling.raw("POST", f"/api/v1/namespaces/{busy}/pods", gpu_pod("a"))[0] == 201
    shown = eventually(lambda: telling.kubectl("get", "gpupolicies", namespace=busy).stdout)
    head, row = shown.splitlines()
    assert head.startswith("NAME")
    assert "FILE" in head
    assert row.split()[:2] == ["effective", "warned.yaml"]
    assert telling.kubectl("get", "gpupolicies", namespace=quiet).stdout == ""
