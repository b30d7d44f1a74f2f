"""The doctor finds a whole installation well, says so in text and JSON, and looks as far as its rights go."""

import json

import pytest
from click.testing import Result

from tests.command_line import gpu_policy
from tests.doctor.breaks import needs_address
from tests.doctor.site import Site, said, wrong
from tests.e2e.control_plane import TENANT_TOKEN
from webhook.doctor.installation import DoctorCluster
from webhook.kubernetes.kubeconfig import find_server

pytestmark = pytest.mark.e2e


@needs_address
def test_a_whole_installation_is_well(site: Site) -> None:
    """Nothing is found lacking but what nobody knows beforehand: addresses of API servers, and which namespaces there
    will be.
    """
    found = wrong(site.examined())
    port, *absent = [finding for finding in found if finding[0] in ("port", "absent-namespaces")]
    assert port[2] == f"NetworkPolicy gpu-policy lets every pod reach port {site.webhook.port}"
    assert [finding[2].partition(":")[0] for finding in absent] == [
        "the webhook configurations leave out namespaces that do not exist"
    ]
    assert {status for _, status, _ in (port, *absent)} == {"warning"}
    nowhere = ("references", "warning", "no node satisfies example.com/nowhere Exists (placing.yaml: nodeAffinity)")
    assert [finding for finding in found if finding not in (port, *absent, nowhere)] == []


def doctor(*arguments: str) -> Result:
    return gpu_policy("doctor", *arguments, env={"KUBECONFIG": "/nonexistent"})


def test_the_command_says_everything_in_text_and_json_and_in_its_exit_status(site: Site) -> None:
    arguments = [f"--kubeconfig={site.plane.kubeconfig}", f"--dry-run-namespace={site.place.dry_run_namespace}"]
    well = doctor(*arguments)
    assert (well.exit_code, "0 problem" in well.stdout) == (0, True), well.output
    assert "ok       configurations     the mutating webhook configuration is as it was installed\n" in well.stdout
    site.patch("Deployment", "gpu-policy", {"spec": {"replicas": 1}})
    site.status("Deployment", "gpu-policy", {"readyReplicas": 0})
    ill = doctor(*arguments)
    assert ill.exit_code == 1
    see = "kubectl -n gpu-policy describe deployment/gpu-policy; kubectl -n gpu-policy get pods"
    assert (
        "problem  deployment         0 of 1 replicas are ready\n"
        "         expected: two or more replicas, so that one may be lost\n"
        f"         remedy: {see}\n"
    ) in ill.stdout
    as_json = doctor(*arguments, "--output=json")
    assert as_json.exit_code == 1
    document = json.loads(as_json.stdout)
    assert [document[key] for key in ("apiVersion", "kind", "namespace", "name")] == [
        "gpupolicy.dev/v1alpha1",
        "DoctorReport",
        "gpu-policy",
        "gpu-policy",
    ]
    assert document["counts"]["problem"] == 1
    (problem,) = [result for result in document["results"] if result["status"] == "problem"]
    assert problem == {
        "check": "deployment",
        "status": "problem",
        "found": "0 of 1 replicas are ready",
        "expected": "two or more replicas, so that one may be lost",
        "remedy": see,
    }


def test_missing_rights_of_the_operator_are_skipped_each_with_its_reason(site: Site) -> None:
    """A tenant learns what anybody may know, and why the rest cannot be told."""
    report = site.examined(DoctorCluster(find_server(str(site.plane.kubeconfig_for(TENANT_TOKEN)))))
    assert report.exit_status == 0
    assert {check for check, status, _ in wrong(report) if status == "skipped"} == {
        "configurations",
        "workloads",
        "daemonsets",
        "certificates",
        "deployment",
        "endpoints",
        "spread",
        "disruption-budget",
        "rights",
        "port",
        "policies",
        "policies-at-apply",
        "references",
        "absent-namespaces",
        "accelerators",
        "tolerate-all",
        "gpu-nodes",
        "images",
        "quotas",
        "replicas",
        "pods",
    }
    assert 'cannot list resource "namespaces"' in said(report, "absent-namespaces")[0].found
    assert said(report, "absent-namespaces")[0].remedy == "look again with a kubeconfig that may"
