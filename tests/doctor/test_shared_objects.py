"""The doctor looks at quotas where there are some, and says what keeps them from holding."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.manifests import needs_helm, rendered, shipped
from tests.deploy.value_sets import UNCOUNTED
from tests.doctor.stored import said as found_by
from webhook.doctor.doctor_report import DoctorFinding, Status
from webhook.doctor.installation import WebhookDeployment
from webhook.doctor.shared_objects import quotas
from webhook.ledger.entries import DATA, PREFIX, Entries, content
from webhook.policy.directory import contents_of
from webhook.policy.loader import build
from webhook.policy.policy_set import PolicySet
from webhook.quota.quotas import Demand

GROUP = "/apis/gpupolicy.dev/v1alpha1"
LEDGERS = "/api/v1/namespaces/gpu-policy/configmaps"
QUEUES = "/apis/flowcontrol.apiserver.k8s.io/v1"
KNOWN = {"resources": [{"name": "gpuquotas"}]}
ENTRIES = Entries({bytes(16): Demand("team-vision", (("nvidia.com/gpu", 1),))}, frozenset({"team-vision"}))

LIMITED = "{mode: enforce, gpus: 8}"
HEAD = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\n"
NO_QUOTA = {"_default.yaml": f"{HEAD}metadata: {{name: _default}}\nspec: {{rules: {{}}}}\n"}
QUOTA = {
    **NO_QUOTA,
    "team-vision.yaml": f"{HEAD}metadata: {{name: team-vision}}\nspec: {{rules: {{gpuQuota: {LIMITED}}}}}\n",
}


def policies(files: dict[str, str]) -> PolicySet:
    return build(contents_of(Path("policies"), {name: text.encode() for name, text in files.items()}))


def ledger(text: str) -> dict[str, Any]:
    return {"metadata": {"name": f"{PREFIX}shared.a"}, "data": {DATA: text}}


def well() -> dict[str, Any]:
    return {
        GROUP: KNOWN,
        f"{GROUP}/gpuquotas": [{"metadata": {"namespace": "team-vision", "name": "namespace.team-vision"}}],
        LEDGERS: [ledger(json.dumps(ENTRIES.to_raw()))],
        QUEUES: {"resources": []},
        f"{QUEUES}/flowschemas/gpu-policy": {"metadata": {"name": "gpu-policy"}},
    }


def said(
    found: dict[str, Any], files: dict[str, str] = QUOTA, deployment: dict[str, Any] | None = None
) -> list[DoctorFinding]:
    workload = WebhookDeployment(deployment or shipped().one("Deployment"))
    known = {path: one for path, one in found.items() if one is not None}
    return found_by(quotas, known, deployment=workload, policies=policies(files))


def test_quotas_that_hold_are_well() -> None:
    assert said(well()) == [DoctorFinding(Status.OK, "1 ledger, 1 entry")]


@needs_helm
def test_without_quotas_and_ledgers_there_is_nothing_to_say() -> None:
    assert said({}, NO_QUOTA, rendered(UNCOUNTED).one("Deployment")) == []


@needs_helm
def test_quotas_without_ledgers_are_a_problem() -> None:
    (finding,) = said(well(), QUOTA, rendered(UNCOUNTED).one("Deployment"))
    assert finding.status is Status.PROBLEM
    assert "keep no ledgers" in finding.found
    assert "--set quota.enabled=true" in finding.remedy


def test_what_is_of_use_to_quotas_alone_is_not_missed_without_them() -> None:
    """Neither the queues nor what tenants are shown."""
    assert said({GROUP: KNOWN, LEDGERS: [], QUEUES: {}}, NO_QUOTA) == [DoctorFinding(Status.OK, "0 ledgers, 0 entries")]


def test_a_ledger_that_is_packed_because_of_its_size_can_be_read() -> None:
    demand = Demand("team-vision", (("nvidia.com/gpu", 1),))
    large = Entries({n.to_bytes(16): demand for n in range(30_000)}, frozenset({"team-vision"}))
    packed = {"metadata": {"name": f"{PREFIX}shared.a"}, **content(large)}
    assert "data" not in packed
    assert said(well() | {LEDGERS: [packed]}) == [DoctorFinding(Status.OK, "1 ledger, 30000 entries")]


WARNING, PROBLEM = Status.WARNING, Status.PROBLEM
UNREADABLE = "the ledger gpu-quota.shared.a cannot be read: "
NEITHER = "found neither data[book.json] nor binaryData[book.json.gz]"
GONE = [{"metadata": {"namespace": "a", "name": "shared.gone"}}]
WRONG = {
    "no custom resource": ({GROUP: None}, WARNING, "does not know gpuquotas.gpupolicy.dev", "apply the release again"),
    "garbage": ({LEDGERS: [ledger('{"entries": 7}')]}, PROBLEM, f"{UNREADABLE}entries: ", "wait for half a"),
    "no JSON": ({LEDGERS: [ledger("hello")]}, PROBLEM, f"{UNREADABLE}unexpected character", "or their log says why"),
    "empty": ({LEDGERS: [{"metadata": {"name": "gpu-quota.shared.a"}}]}, PROBLEM, UNREADABLE + NEITHER, "anew from"),
    "a quota that is gone": ({f"{GROUP}/gpuquotas": GONE}, WARNING, "do not have: a/shared.gone", "-n a shared.gone"),
    "common queues": ({f"{QUEUES}/flowschemas/gpu-policy": None}, WARNING, "no separate queue", "flow-control.yaml"),
}


@pytest.mark.parametrize(("changed", "status", "found", "remedy"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_comes_with_what_to_do(changed: dict[str, Any], status: Status, found: str, remedy: str) -> None:
    findings = [finding for finding in said(well() | changed) if finding.status is not Status.OK]
    assert [finding.status for finding in findings if found in finding.found] == [status]
    assert all(remedy in finding.remedy for finding in findings if found in finding.found)


def test_an_api_server_without_such_queues_is_not_blamed() -> None:
    assert said(well() | {QUEUES: None, f"{QUEUES}/flowschemas/gpu-policy": None}) == [
        DoctorFinding(Status.OK, "1 ledger, 1 entry")
    ]


KUEUE = "/apis/kueue.x-k8s.io/v1beta1"


@pytest.mark.parametrize(
    ("resource", "queue", "admits"),
    [
        ({"name": "nvidia.com/gpu", "nominalQuota": 12}, {}, "12 GPUs"),
        ({"name": "nvidia.com/gpu", "nominalQuota": "8"}, {}, ""),
        ({"name": "nvidia.com/gpu", "nominalQuota": 4, "borrowingLimit": 4}, {"cohort": "a"}, ""),
        ({"name": "nvidia.com/gpu", "nominalQuota": 4, "borrowingLimit": 5}, {"cohortName": "a"}, "9 GPUs"),
        ({"name": "nvidia.com/gpu", "nominalQuota": 4}, {"cohort": "a"}, "any number of GPUs"),
        ({"name": "nvidia.com/gpu", "nominalQuota": 4, "borrowingLimit": 5}, {}, ""),
        ({"name": "cpu", "nominalQuota": 400}, {}, ""),
    ],
)
def test_a_queue_that_admits_more_than_the_quota_is_named(
    resource: dict[str, Any], queue: dict[str, Any], admits: str
) -> None:
    spec = {**queue, "resourceGroups": [{"flavors": [{"name": "default", "resources": [resource]}]}]}
    found = well() | {
        "/apis/kueue.x-k8s.io": {"preferredVersion": {"groupVersion": "kueue.x-k8s.io/v1beta1"}},
        f"{KUEUE}/clusterqueues": [{"metadata": {"name": "all"}, "spec": spec}],
        f"{KUEUE}/localqueues": [
            {"metadata": {"namespace": "team-vision", "name": "main"}, "spec": {"clusterQueue": "all"}}
        ],
    }
    warnings = [one.found for one in said(found) if one.status is Status.WARNING]
    assert [text.partition(" by ")[0] for text in warnings] == (
        [f"the queue team-vision/main admits {admits}"] if admits else []
    )
