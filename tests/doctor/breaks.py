"""Ways to break an installation, each as a function of the site, and what the remedies are."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from certs.authority import new_authority
from tests.doctor.site import Site, own_address

MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
NOW = datetime.now(UTC)

Break = Callable[[Site], object]

needs_address = pytest.mark.skipif(
    own_address() in ("", "127.0.0.1"), reason="the API server proxies to no loopback address, and there is no other"
)


def entry(kind: str, field: str, value: Any) -> Break:
    path = f"/webhooks/0/{field}"
    return lambda site: site.patch(kind, "gpu-policy", [{"op": "add", "path": path, "value": value}])


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
