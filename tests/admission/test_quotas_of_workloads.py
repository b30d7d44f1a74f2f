"""The author of a workload is told when it is applied that its pods will never fit into a quota."""

from pathlib import Path
from typing import Any

import pytest

from tests.build import FACTS, NAMESPACE, WORKLOADS, against, pod, request, workload
from tests.golden import each
from webhook.admission.phases import workloads
from webhook.audit.documents import Document
from webhook.audit.review_objects import review
from webhook.ledger.ledger_store import LedgerError
from webhook.policy.directory import contents_of
from webhook.policy.loader import build
from webhook.policy.policy_set import PolicySet

HEAD = "apiVersion: gpupolicy.dev/v1alpha1\nkind: "
OWN = HEAD + "GPUPolicy\nmetadata: {{name: _default}}\nspec: {{rules: {{gpuQuota: {quota}}}}}\n"
SHARED_QUOTA = (
    HEAD
    + "GPUSharedQuotas\nmetadata: {{name: _quotas}}\nspec: {{quotas: [{{name: shared, namespaces: ['*'], {quota}}}]}}\n"
)
OPEN = "{mode: enforce, byModel: {H100: 8}, unspecifiedModel: deny}"


def limited(own: str = "{mode: disabled}", shared_quota: str = "") -> PolicySet:
    files = {"_default.yaml": OWN.format(quota=own)} | (
        {"_quotas.yaml": SHARED_QUOTA.format(quota=shared_quota)} if shared_quota else {}
    )
    return build(contents_of(Path("policies"), {name: text.encode() for name, text in files.items()}))


def warned(raw: dict[str, Any], using: PolicySet) -> list[str]:
    """What is said where the workload is applied; nothing of it refuses it."""
    answer = workloads(request(raw), using, FACTS).answer
    assert answer.is_allowed
    return list(answer.warnings)


@pytest.mark.parametrize("kind", WORKLOADS)
@each(
    "using, said",
    {
        "its own": (limited("{mode: enforce, gpus: 8}"), "requests 9 GPUs; the GPU quota allows 8"),
        "only warned of": (limited("{mode: warn, gpus: 8}"), "requests 9 GPUs; the GPU quota allows 8"),
        "a shared quota": (limited(shared_quota="gpus: 8"), "requests 9 GPUs; GPU quota 'shared' allows 8 GPUs in all"),
        "a model that must be said": (limited(OPEN), "does not select a GPU model"),
    },
)
def test_a_pod_that_is_too_much_by_itself_is_said_when_its_workload_is_applied(
    kind: str, using: PolicySet, said: str
) -> None:
    (warning,) = warned(workload(kind, pod(9)), using)
    assert said in warning


@each(
    "raw, using",
    {
        "only audited": (workload("Deployment", pod(9)), limited("{mode: audit, gpus: 8}")),
        "just fits": (workload("StatefulSet", pod(8)), limited("{mode: enforce, gpus: 8}", "gpus: 8")),
        "without GPUs": (workload("Deployment", pod(0)), limited(OPEN, "gpus: 0")),
    },
)
def test_nothing_is_said_of_a_workload_otherwise(raw: dict[str, Any], using: PolicySet) -> None:
    assert warned(raw, using) == []


def test_a_review_goes_on_where_pods_cannot_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    context = against(limited("{mode: enforce, gpus: 8}"))
    monkeypatch.setattr(context.ledgers.context.pods, "list_now", lambda *_: (_ for _ in ()).throw(LedgerError("away")))
    (item,) = review([Document("f", 1, 1, workload("Deployment", pod(8)))], NAMESPACE, context).items
    assert ["rolling update" in warning for warning in item.warnings] == [True]


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_review_refuses_a_workload_whose_pods_a_shared_quota_refuses(kind: str) -> None:
    documents = [Document("f", 1, 1, workload(kind, pod(9)))]
    (item,) = review(documents, NAMESPACE, against(limited(shared_quota="gpus: 8"))).items
    assert not item.is_allowed
