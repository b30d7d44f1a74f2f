"""Pods that ask for GPUs under other names, and what becomes of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.build import against, container, pod
from webhook import engine
from webhook.engine.quota_requests import reserved
from webhook.ledger.verdicts import Granted, QuotaRequest, Verdict
from webhook.outcome import Outcome
from webhook.policy.loader import load
from webhook.policy.policy_set import PolicySet

CLASS = "deviceclass.resource.kubernetes.io/"


GPU_CLASS, UNKNOWN_CLASS = f"{CLASS}gpu.nvidia.com", f"{CLASS}h100"


MONITORING = "gpu.intel.com/i915_monitoring"


OWN = "example.com/vgpu-a"


def asking(resource: str, count: Any = 1) -> dict[str, Any]:
    """A pod that asks for so many units of a resource, as the API server fills it in."""
    amounts = {resource: count}
    return pod(spec={"containers": [container("c", requests=amounts, limits=amounts)]})


def claiming() -> dict[str, Any]:
    """A pod whose devices come by a resource claim, as most manifests of DRA have it."""
    one = container("c", claims=[{"name": "gpu"}])
    return pod(spec={"containers": [one], "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]})


def said_of(raw: Mapping[str, Any], policy_set: PolicySet, namespace: str) -> Outcome:
    """What becomes of a pod that is created, its quotas included."""

    def ask(claims: list[QuotaRequest]) -> list[Verdict]:
        return [Granted()] * len(claims)

    policy = policy_set.for_namespace(namespace)
    judged = engine.validate(raw, policy, against(policy_set).facts)
    return reserved(judged, namespace, policy_set.quotas_for(namespace), against(policy_set).facts, ask, lambda _: ())


def written(tmp_path: Path, spec: str, quotas: str = "") -> PolicySet:
    head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: _default}\n"
    (tmp_path / "_default.yaml").write_text(f"{head}spec: {spec}\n")
    if quotas:
        head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUSharedQuotas\nmetadata: {name: _quotas}\n"
        (tmp_path / "_quotas.yaml").write_text(f"{head}spec: {quotas}\n")
    return load(tmp_path)
