"""Whoever may not see everything learns what can be seen, and why the rest cannot."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.doctor.site import Site, said, wrong
from tests.e2e.control_plane import TENANT_TOKEN
from tests.e2e.eventually import eventually
from webhook.doctor.cluster import DoctorCluster
from webhook.doctor.doctor_report import Status
from webhook.kubernetes.kubeconfig import find_server
from webhook.policy.loader import load

pytestmark = pytest.mark.e2e


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


def test_policies_can_be_named_where_the_config_maps_cannot_be_read(site: Site) -> None:
    tenant = DoctorCluster(find_server(str(site.plane.kubeconfig_for(TENANT_TOKEN))))
    (finding,) = said(site.examined(tenant, policies=site.webhook.policies), "policies")
    assert finding.found.startswith(f"{len(load(site.webhook.policies).policies)} policies, hash ")
    (finding,) = said(site.examined(tenant), "policies")
    assert finding.remedy == "name them with --policies"


PODS = [
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
]


@contextmanager
def allowed(site: Site, kind: str, *rules: dict[str, Any]) -> Iterator[DoctorCluster]:
    """The cluster as the tenant sees it who may do this: in the installation's namespace, or everywhere."""
    api = "rbac.authorization.k8s.io"
    subjects = [{"kind": "User", "name": "tenant", "apiGroup": api}]
    role = {"kind": kind, "name": "reader", "apiGroup": api}
    site.put({"kind": kind, "metadata": {"name": "reader"}, "rules": list(rules)})
    site.put({"kind": f"{kind}Binding", "metadata": {"name": "reader"}, "roleRef": role, "subjects": subjects})
    try:
        yield DoctorCluster(find_server(str(site.plane.kubeconfig_for(TENANT_TOKEN))))
    finally:
        site.delete(f"{kind}Binding", "reader")
        site.delete(kind, "reader")


def test_without_the_right_to_ask_pods_it_is_named(site: Site) -> None:
    with allowed(site, "Role", *PODS) as tenant:
        found = eventually(
            lambda: [f for f in said(site.examined(tenant), "replicas") if f.remedy.endswith("may get pods/proxy")]
        )
    assert [finding.status for finding in found] == [Status.SKIPPED]
    assert 'cannot get resource "pods/proxy"' in found[0].found


def test_without_the_right_to_read_the_registration_nothing_is_compared(site: Site) -> None:
    resources = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    rule = {"apiGroups": ["admissionregistration.k8s.io"], "resources": resources, "verbs": ["get"]}
    with allowed(site, "ClusterRole", rule) as tenant:
        found = eventually(
            lambda: (f := said(site.examined(tenant), "configurations")) and "are not known" in f[0].found and f
        )
    assert [finding.status for finding in found] == [Status.SKIPPED]
    assert found[0].found.startswith("the installed configurations are not known: ")


def test_whoever_may_only_create_pods_sees_whether_the_webhook_is_asked(site: Site) -> None:
    """Without the policies it is not known what should become of a pod; that ours was asked still shows."""
    plane, namespace = site.plane, site.place.dry_run_namespace
    plane.kubectl("create", "role", "creator", "--verb=create", "--resource=pods", namespace=namespace)
    plane.kubectl("create", "rolebinding", "creator", "--role=creator", "--user=tenant", namespace=namespace)
    tenant = DoctorCluster(find_server(str(plane.kubeconfig_for(TENANT_TOKEN))))
    try:
        found = eventually(lambda: (f := said(site.examined(tenant), "pods")) and len(f) == 3 and f)
        first = (Status.OK, "a pod with one GPU gets tolerations,nodeAffinity,runtimeClass")
        assert (found[0].status, found[0].found[: len(first[1])]) == first
        assert [finding.found for finding in found[1:]] == [
            "a pod with a GPU in requests only is refused by mutate.gpupolicy.dev",
            "a pod with 100000 GPUs is refused by validate.gpupolicy.dev",
        ]
    finally:
        plane.kubectl("delete", "role,rolebinding", "creator", namespace=namespace)
