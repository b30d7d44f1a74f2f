"""Ways to break an installation, each as a function of the site, and what the remedies are."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from certs.authority import issue, new_authority
from tests.doctor.site import NODES, Site, own_address
from tests.e2e.installation import HOST
from webhook.doctor.doctor_report import DoctorFinding

MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
NOW = datetime.now(UTC)

Break = Callable[[Site], object]

needs_address = pytest.mark.skipif(
    own_address() in ("", "127.0.0.1"), reason="the API server proxies to no loopback address, and there is no other"
)


def entry(kind: str, field: str, value: Any) -> Break:
    """Change one field of the webhook in a configuration."""
    path = f"/webhooks/0/{field}"
    return lambda site: site.patch(kind, "gpu-policy", [{"op": "add", "path": path, "value": value}])


def delete(kind: str, name: str = "gpu-policy") -> Break:
    return lambda site: site.delete(kind, name)


def merge(kind: str, name: str, change: Any) -> Break:
    return lambda site: site.patch(kind, name, change)


def policies(data: Any) -> Break:
    """Store these files as the policies of a release."""
    metadata = {"labels": {"app.kubernetes.io/version": "0.0.1"}}
    return merge("ConfigMap", "gpu-policy-policies", {"metadata": metadata, "data": data})


def secret(**contents: bytes) -> Break:
    """Replace values of the Secret, named with _ for a dot; an empty one is taken away."""
    data = {key.replace("_", "."): base64.b64encode(value).decode() or None for key, value in contents.items()}
    return merge("Secret", "gpu-policy-tls", {"data": data})


def serving(begins: datetime, lifetime: timedelta, *names: str) -> Break:
    """Put another serving certificate into the Secret, and its authority everywhere."""
    authority = new_authority(begins)
    pair = issue(authority, names or [HOST], begins, lifetime)

    def change(site: Site) -> None:
        secret(tls_crt=pair.certificate_pem, ca_crt=authority.certificate_pem)(site)
        for kind in (MUTATING, VALIDATING):
            entry(kind, "clientConfig/caBundle", base64.b64encode(authority.certificate_pem).decode())(site)

    return change


def every_node(change: Any) -> Break:
    def each(site: Site) -> None:
        for node in NODES:
            site.patch("Node", node, change)

    return each


def on_one_node(site: Site) -> None:
    for pod in site.all("Pod"):
        name = pod["metadata"]["name"]
        site.delete("Pod", name)
        site.start_pod(name, "n2")


def reachable(count: int) -> Break:
    return lambda site: site.put(site.endpoints(count))


RESTORE = "helm upgrade RELEASE ... --namespace gpu-policy, or kubectl apply -f install.yaml"
APPLY = (
    "kubectl -n gpu-policy get configmap gpu-policy-registration -o jsonpath='{.data.webhooks\\.yaml}' "
    "| kubectl apply -f -"
)
REPLACE = APPLY.replace("kubectl apply", "kubectl replace")
LOG = "kubectl -n gpu-policy logs deployment/gpu-policy | grep gpu_policy.certificates"
OTHER = base64.b64encode(new_authority(NOW).certificate_pem).decode()
TEAM_A = """\
apiVersion: gpupolicy.dev/v1alpha1
kind: GPUPolicy
metadata: {name: team-a}
spec: {rules: {gpuLimits: {mode: enforce}}}
"""


def assert_says(findings: list[DoctorFinding], found: str, remedy: str) -> None:
    """One of the findings says this, and what to do."""
    assert [finding for finding in findings if found in finding.found], findings
    assert all(remedy in finding.remedy for finding in findings if found in finding.found), findings
