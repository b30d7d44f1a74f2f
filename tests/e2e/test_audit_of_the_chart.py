"""The audit as the chart runs it: its command and its rights, on a real API server, and what replicas show of it."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from deploy.generate import RELEASE
from tests.command_line import gpu_policy
from tests.deploy.manifests import Objects, needs_helm, rendered
from tests.e2e.control_plane import TENANT_TOKEN, ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import COMMAND, ROOT
from tests.e2e.objects import deployment, gpu_pod, pod
from tests.e2e.report_cluster import ReportCluster
from webhook.replica.audit_status import KEY
from webhook.replica.published_reports import ReportKind
from webhook.replica.settings import ConfigMapPlace

pytestmark = needs_helm

PLACE = ConfigMapPlace(RELEASE, "gpu-policy-audit")
REPORT = "gpu-policy-audit.1"


@pytest.fixture
def site(control_plane: ControlPlane) -> Iterator[ReportCluster]:
    """The session's API server with PolicyReports and what an audit needs of the chart; the tenant is the auditor."""
    found = ReportCluster(control_plane)
    found.install(ReportKind.POLICY_REPORTS)
    control_plane.shared_namespace(RELEASE)
    kinds = ("ConfigMap", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    objects = [raw for raw in audited() if raw["kind"] in kinds and raw["metadata"]["name"] == PLACE.name]
    for raw in objects:
        if "subjects" in raw:
            raw["subjects"] = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}]
    control_plane.kubectl("delete", "configmap", PLACE.name, "--ignore-not-found", namespace=RELEASE)
    control_plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))
    yield found
    bindings = [raw for raw in objects if "subjects" in raw]
    control_plane.kubectl("delete", "-f", "-", input=yaml.safe_dump_all(bindings))


def audited() -> Objects:
    return Objects(json.loads(json.dumps(rendered({"audit": {"enabled": True}}))))


def arguments(plane: ControlPlane) -> list[str]:
    """The arguments of the CronJob with the policies of this project, as the auditor."""
    spec = audited().one("CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    here = [one.replace("/etc/gpu-policy/policies", str(ROOT / "policies")) for one in container["args"]]
    return [*here, f"--kubeconfig={plane.kubeconfig_for(TENANT_TOKEN)}"]


def audit(plane: ControlPlane, *others: str) -> int:
    """Run the command of the CronJob in this process; its exit status."""
    return gpu_policy(*arguments(plane), *others).exit_code


def status(plane: ControlPlane) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(plane.raw("GET", PLACE.path)[1]["data"][KEY])
    return found


def test_what_the_cluster_holds_is_published_and_goes_when_it_has_been_mended(
    site: ReportCluster, make_namespace: Any
) -> None:
    plane, namespace = site.plane, make_namespace("shown")
    wrong = deployment("trainer", pod("trainer", {}))
    wrong["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    assert plane.raw("POST", path, wrong)[0] == 201
    assert plane.raw("POST", f"/api/v1/namespaces/{namespace}/pods", gpu_pod("bare"))[0] == 201

    done = subprocess.run([*COMMAND, *arguments(plane)], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (report,) = [
        raw for raw in site.objects(ReportKind.POLICY_REPORTS) if raw["metadata"].get("namespace") == namespace
    ]
    assert report["metadata"]["name"] == REPORT
    names = {one["resources"][0]["name"] for one in report["results"]}
    assert "trainer" in names
    (row,) = [row for row in status(plane)["namespaces"] if row["namespace"] == namespace]
    results = sum(report["summary"].values())
    assert row["refuse"] + row["warn"] + row["audit"] == results
    before = site.versions(ReportKind.POLICY_REPORTS)
    assert audit(plane) == 0
    assert site.versions(ReportKind.POLICY_REPORTS) == before

    assert plane.raw("DELETE", f"{path}/trainer")[0] == 200
    plane.raw("DELETE", f"/api/v1/namespaces/{namespace}/pods/bare?gracePeriodSeconds=0")
    # What controllers made of it, where they run for other tests, goes a moment later.
    made = [f"/apis/apps/v1/namespaces/{namespace}/replicasets", f"/api/v1/namespaces/{namespace}/pods"]
    eventually(lambda: not any(plane.raw("GET", one)[1]["items"] for one in made))
    assert audit(plane) == 0
    assert (namespace, REPORT) not in site.places(ReportKind.POLICY_REPORTS)
