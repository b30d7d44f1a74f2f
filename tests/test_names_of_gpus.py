"""GPUs under other names are counted, limited, or refused where a quota holds (A42)."""

from pathlib import Path
from typing import Any

import pytest

from tests.build import against, container, pod, policies, workload
from tests.pods_of_other_names import CLASS, GPU_CLASS, MONITORING, UNKNOWN_CLASS, asking, claiming, said_of, written
from webhook import engine
from webhook.model.pod_reader import pod_from_raw
from webhook.outcome import FindingKind, Outcome
from webhook.policy.loader import load

ROOT = Path(__file__).parent.parent
TENANTS = load(ROOT / "policies" / "examples")
SHIPPED = load(ROOT / "policies")
TENANT = "tenant-red"


def of_quota(outcome: Outcome) -> list[tuple[FindingKind, bool, str]]:
    return [(one.kind, one.refuses, str(one)) for one in outcome.findings if one.rule == "gpuQuota"]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(asking(GPU_CLASS, 64), id="a device class of GPUs"),
        pytest.param(asking(f"{CLASS}mig.nvidia.com", 64), id="a device class of slices"),
        pytest.param(asking(UNKNOWN_CLASS, 1), id="a device class that nobody knows"),
        pytest.param(asking(MONITORING, 1), id="all Intel GPUs of a node"),
        pytest.param(asking("intel.com/gpu", 64), id="the name that Intel's DRA driver gives its class"),
        pytest.param(claiming(), id="a resource claim"),
    ],
)
def test_a_tenant_gets_no_gpus_by_another_name(raw: dict[str, Any]) -> None:
    assert any(finding.rule in {"gpuQuota", "gpuLimits"} for finding in said_of(raw, TENANTS, TENANT).refusals)
    refused = engine.validate_workload(
        workload("Deployment", raw),
        TENANT,
        TENANTS.for_namespace(TENANT),
        against(TENANTS).facts,
        TENANTS.quotas_for(TENANT),
    )
    assert refused.refusals


@pytest.mark.parametrize("resource", [GPU_CLASS, f"{CLASS}gpu.amd.com", f"{CLASS}vfio.gpu.nvidia.com", "intel.com/gpu"])
def test_a_maximum_counts_device_classes_of_gpus(resource: str) -> None:
    found = said_of(asking(resource, 9), policies({"gpuLimits": {"maxPerPod": 8}}), "team")
    assert [(one.rule, one.field) for one in found.refusals] == [("gpuLimits", "spec")]
    assert "requests 9 GPUs" in found.refusal


def test_a_device_class_counts_by_its_requests_which_may_stand_without_limits() -> None:
    """Kubernetes takes it for a resource of its own, of which limits may be larger, or absent."""
    requests = pod(spec={"containers": [container("c", requests={GPU_CLASS: 64})]})
    larger = pod(spec={"containers": [container("c", requests={GPU_CLASS: 1}, limits={GPU_CLASS: 64})]})
    limited = pod(spec={"containers": [container("c", limits={GPU_CLASS: 3})]})
    assert [pod_from_raw(raw).gpu_count for raw in (requests, larger, limited)] == [64, 1, 3]
    rules = policies({"gpuLimits": {}})
    assert [said_of(raw, rules, "team").findings for raw in (requests, larger, limited)] == [(), (), ()]


@pytest.mark.parametrize(
    ("mode", "kind", "why"),
    [
        pytest.param("deny", FindingKind.VIOLATION, "allows only what it can count", id="deny"),
        pytest.param("warn", FindingKind.ADVICE, "does not count them", id="warn"),
        pytest.param(None, FindingKind.ADVICE, "does not count them", id="unless said"),
    ],
)
@pytest.mark.parametrize("is_shared_quota", [False, True], ids=["a quota of the namespace", "a shared quota"])
def test_claims_are_refused_or_told_where_a_quota_holds(
    tmp_path: Path, mode: str | None, kind: FindingKind, why: str, is_shared_quota: bool
) -> None:
    claims = f", claims: {mode}" if mode else ""
    own = "{}" if is_shared_quota else f"{{gpuQuota: {{mode: enforce, gpus: 4{claims}}}}}"
    shared_quotas = f"{{quotas: [{{name: all, namespaces: [team], gpus: 4{claims}}}]}}" if is_shared_quota else ""
    name = "GPU quota 'all'" if is_shared_quota else "the GPU quota"
    found = of_quota(said_of(claiming(), written(tmp_path, f"{{rules: {own}}}", shared_quotas), "team"))
    assert found == [
        (
            kind,
            kind is FindingKind.VIOLATION,
            f"gpuQuota: spec.resourceClaims: requests devices by resource claims, which may be GPUs; {name} {why}. "
            "Request a GPU resource that is counted, in resources.limits.",
        )
    ]


def test_claims_that_are_allowed_are_not_worth_a_word(tmp_path: Path) -> None:
    rules = written(tmp_path, "{rules: {gpuQuota: {mode: enforce, gpus: 4, claims: allow}}}")
    assert said_of(claiming(), rules, "team").findings == ()


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(claiming(), id="claims"),
        pytest.param(asking(f"{CLASS}dranet-ib", 8), id="a network card by its class"),
        pytest.param(asking(MONITORING), id="monitoring"),
    ],
)
def test_the_shipped_policies_refuse_no_pod_of_which_nobody_knows_how_many_gpus_it_gets(raw: dict[str, Any]) -> None:
    assert not said_of(raw, SHIPPED, "monitoring").refusals


def test_a_claim_without_a_quota_is_not_worth_a_word() -> None:
    assert of_quota(said_of(claiming(), SHIPPED, "default")) == []


def test_an_update_is_never_refused_for_claims_that_were_admitted() -> None:
    """An earlier policy admitted them, and a controller changes something else."""
    old = claiming()
    new = {**old, "metadata": {**old["metadata"], "labels": {"kueue.x-k8s.io/queue-name": "a"}}}
    judged = engine.validate(new, TENANTS.for_namespace(TENANT), against(TENANTS).facts, old=old)
    assert of_quota(judged) == []


@pytest.mark.parametrize(
    ("weights", "refused"),
    [pytest.param("{}", True, id="unknown"), pytest.param(f'{{"{MONITORING}": 4}}', False, id="weighed")],
)
def test_what_opens_a_whole_node_can_be_counted_once_it_is_weighed(tmp_path: Path, weights: str, refused: bool) -> None:
    rules = written(tmp_path, f"{{rules: {{gpuQuota: {{mode: enforce, gpus: 4, claims: deny, weights: {weights}}}}}}}")
    assert bool(said_of(asking(MONITORING), rules, "team").refusals) is refused
    assert said_of(asking(MONITORING, 2), rules, "team").refusals


# What DRA gives comes by CDI.


@pytest.mark.parametrize("resource", [GPU_CLASS, f"{CLASS}mig.nvidia.com", f"{CLASS}vfio.gpu.nvidia.com"])
def test_pods_whose_gpus_come_by_dra_get_no_runtime_class_and_no_variable_of_the_toolkit(resource: str) -> None:
    """The driver's CDI specification sets NVIDIA_VISIBLE_DEVICES to void itself."""
    sidecar = container("sidecar")
    raw = pod(spec={"containers": [container("c", limits={resource: 1}), sidecar]})
    rules = policies(
        {"runtimeClass": {"name": "nvidia", "whenMissing": "silent"}, "visibleDevices": {}, "driverCapabilities": {}}
    )
    completed = engine.mutate(raw, rules.for_namespace("team"), against(rules).facts)
    assert completed.injections == ()


def test_a_pod_whose_gpus_come_by_dra_is_not_told_that_no_node_lists_them() -> None:
    rules = policies({"schedulable": {}, "cudaDriver": {"unknown": "deny"}})
    assert said_of(asking(GPU_CLASS), rules, "team").refusals == ()
