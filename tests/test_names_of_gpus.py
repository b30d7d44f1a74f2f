"""GPUs under other names are counted, limited, or refused where a quota holds (A42)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.reviews import against, container, pod, policies, request, workload
from webhook import engine
from webhook.admission import phases
from webhook.audit.node_kinds import capacity_of
from webhook.engine.quota_claims import reserved
from webhook.facts.facts import ClusterFacts
from webhook.facts.static_pods import StaticPods
from webhook.ledger.verdicts import Claim, Granted, Verdict
from webhook.model.accelerators import Accelerators, Declared, Vendor
from webhook.model.pod_reader import pod_from_raw
from webhook.outcome import FindingKind, Outcome
from webhook.policy.loader import load
from webhook.policy.policy_set import PolicySet

ROOT = Path(__file__).parent.parent
CLASS = "deviceclass.resource.kubernetes.io/"
GPU_CLASS, UNKNOWN_CLASS = f"{CLASS}gpu.nvidia.com", f"{CLASS}h100"
MONITORING = "gpu.intel.com/i915_monitoring"
OWN = "example.com/vgpu-a"
TENANTS = load(ROOT / "policies" / "examples")
SHIPPED = load(ROOT / "policies")
TENANT = "tenant-red"


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

    def ask(claims: list[Claim]) -> list[Verdict]:
        return [Granted()] * len(claims)

    policy = policy_set.for_namespace(namespace)
    judged = engine.judge(raw, policy, against(policy_set).facts)
    return reserved(judged, namespace, policy_set.quotas_for(namespace), ask, lambda _: ())


def of_quota(outcome: Outcome) -> list[tuple[FindingKind, bool, str]]:
    return [(one.kind, one.refuses, str(one)) for one in outcome.findings if one.rule == "gpuQuota"]


def written(tmp_path: Path, spec: str, quotas: str = "") -> PolicySet:
    head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: _default}\n"
    (tmp_path / "_default.yaml").write_text(f"{head}spec: {spec}\n")
    if quotas:
        head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUQuotaPots\nmetadata: {name: _quotas}\n"
        (tmp_path / "_quotas.yaml").write_text(f"{head}spec: {quotas}\n")
    return load(tmp_path)


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
def test_A42_a_tenant_gets_no_gpus_by_another_name(raw: dict[str, Any]) -> None:
    assert any(finding.rule in {"gpuQuota", "gpuLimits"} for finding in said_of(raw, TENANTS, TENANT).refusals)
    refused = engine.check_workload(
        workload("Deployment", raw),
        TENANT,
        TENANTS.for_namespace(TENANT),
        against(TENANTS).facts,
        TENANTS.quotas_for(TENANT),
    )
    assert refused.refusals


@pytest.mark.parametrize("resource", [GPU_CLASS, f"{CLASS}gpu.amd.com", f"{CLASS}vfio.gpu.nvidia.com", "intel.com/gpu"])
def test_A42_a_maximum_counts_device_classes_of_gpus(resource: str) -> None:
    found = said_of(asking(resource, 9), policies({"gpuLimits": {"maxPerPod": 8}}), "team")
    assert [(one.rule, one.field) for one in found.refusals] == [("gpuLimits", "spec")]
    assert "requests 9 GPUs" in found.refusal


def test_A42_a_device_class_counts_by_its_requests_which_may_stand_without_limits() -> None:
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
@pytest.mark.parametrize("is_pot", [False, True], ids=["a quota of the namespace", "a shared pot"])
def test_A42_claims_are_refused_or_told_where_a_quota_holds(
    tmp_path: Path, mode: str | None, kind: FindingKind, why: str, is_pot: bool
) -> None:
    claims = f", claims: {mode}" if mode else ""
    own = "{}" if is_pot else f"{{gpuQuota: {{mode: enforce, gpus: 4{claims}}}}}"
    pots = f"{{pots: [{{name: all, namespaces: [team], gpus: 4{claims}}}]}}" if is_pot else ""
    name = "GPU quota 'all'" if is_pot else "the GPU quota"
    found = of_quota(said_of(claiming(), written(tmp_path, f"{{rules: {own}}}", pots), "team"))
    assert found == [
        (
            kind,
            kind is FindingKind.VIOLATION,
            f"gpuQuota: spec.resourceClaims: requests devices by resource claims, which may be GPUs; {name} {why}. "
            "Request GPUs that are counted, such as nvidia.com/gpu, in resources.limits.",
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


def test_A51_an_update_is_never_refused_for_claims_that_were_admitted() -> None:
    """An earlier policy admitted them, and a controller changes something else."""
    old = claiming()
    new = {**old, "metadata": {**old["metadata"], "labels": {"kueue.x-k8s.io/queue-name": "a"}}}
    judged = engine.judge(new, TENANTS.for_namespace(TENANT), against(TENANTS).facts, old=old)
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
    completed = engine.complete(raw, rules.for_namespace("team"), against(rules).facts)
    assert completed.injections == ()


def test_a_pod_whose_gpus_come_by_dra_is_not_told_that_no_node_lists_them() -> None:
    rules = policies({"schedulable": {}, "cudaDriver": {"unknown": "deny"}})
    assert said_of(asking(GPU_CLASS), rules, "team").refusals == ()


# Names that only a policy knows.


EXTRA = '{extra: [{name: "example.com/vgpu-*", vendor: nvidia}]}'


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param("{gpuLimits: {mode: enforce, maxPerPod: 4}}", id="a maximum"),
        pytest.param("{gpuQuota: {mode: enforce, gpus: 4}}", id="a quota"),
        pytest.param("{gpuQuota: {mode: enforce, byModel: {H100: 4}}}", id="a quota of a model of the vendor"),
        pytest.param(f'{{gpuQuota: {{mode: enforce, byResource: {{"{OWN}": 4}}}}}}', id="a quota of the resource"),
        pytest.param(f'{{gpuQuota: {{mode: enforce, gpus: 4, weights: {{"{OWN}": 1}}}}}}', id="a weight"),
    ],
)
def test_A42_names_that_a_policy_declares_are_counted_everywhere(tmp_path: Path, rules: str) -> None:
    policy_set = written(tmp_path, f"{{accelerators: {EXTRA}, rules: {rules}}}")
    assert said_of(asking(OWN, 5), policy_set, "team").refusals
    assert not said_of(asking(OWN, 4), policy_set, "team").refusals
    assert not said_of(asking("example.com/nic", 5), policy_set, "team").refusals


def test_A42_stored_pods_with_declared_names_count_against_a_pot(tmp_path: Path) -> None:
    policy_set = written(
        tmp_path, f"{{accelerators: {EXTRA}, rules: {{}}}}", "{pots: [{name: a, namespaces: [team], gpus: 4}]}"
    )
    (quota,) = policy_set.quotas_for("team")
    asked: list[Claim] = []

    def ask(claims: list[Claim]) -> list[Verdict]:
        asked.extend(claims)
        return [Granted()] * len(claims)

    reserved(Outcome(policy_set.default, asking(OWN, 3), ()), "team", [quota], ask, lambda _: ())
    assert [claim.demand.gpus for claim in asked] == [(("example.com/vgpu-*", 3),)]


def test_a_gpu_of_another_vendor_does_not_count_against_a_model(tmp_path: Path) -> None:
    policy_set = written(
        tmp_path,
        "{accelerators: {extra: [{name: example.com/gpu, vendor: other}]}, rules: {gpuQuota: {mode: enforce, byModel: "
        "{H100: 4}}}}",
    )
    assert not said_of(asking("example.com/gpu", 9), policy_set, "team").refusals


def test_a_class_that_a_policy_calls_no_gpu_is_no_claim(tmp_path: Path) -> None:
    extra = f"{{extra: [{{name: {UNKNOWN_CLASS}, gpu: false}}]}}"
    policy_set = written(
        tmp_path, f"{{accelerators: {extra}, rules: {{gpuQuota: {{mode: enforce, gpus: 1, claims: deny}}}}}}"
    )
    assert said_of(asking(UNKNOWN_CLASS, 9), policy_set, "team").findings == ()


def test_a_declared_class_counts_by_its_number(tmp_path: Path) -> None:
    extra = f"{{extra: [{{name: {UNKNOWN_CLASS}, vendor: nvidia}}]}}"
    policy_set = written(
        tmp_path, f"{{accelerators: {extra}, rules: {{gpuQuota: {{mode: enforce, gpus: 4, claims: deny}}}}}}"
    )
    assert [bool(said_of(asking(UNKNOWN_CLASS, count), policy_set, "team").refusals) for count in (4, 5)] == [
        False,
        True,
    ]


def _containers() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "a class in an init container", {"initContainers": [container("i", limits={GPU_CLASS: 9})]}
    yield "a class beside GPUs", {"containers": [container("c", limits={GPU_CLASS: 5, "nvidia.com/gpu": 4})]}
    yield "a class in two containers", {"containers": [container(n, limits={GPU_CLASS: 5}) for n in "ab"]}


@pytest.mark.parametrize("spec", [pytest.param(spec, id=name) for name, spec in _containers()])
def test_A42_no_arrangement_of_containers_hides_a_class(spec: dict[str, Any]) -> None:
    raw = pod(spec={"containers": [container("c")], **spec})
    assert said_of(raw, policies({"gpuLimits": {"maxPerPod": 8}}), "team").refusals


def test_known_names_come_before_declared_ones() -> None:
    known = Accelerators((Declared("nvidia.com/*", Vendor.AMD),))
    assert [known.of(name).vendor for name in ("nvidia.com/gpu", "nvidia.com/other")] == [Vendor.NVIDIA, Vendor.AMD]
    assert known.of("nvidia.com/gpumem") is None


# What is known of the cluster.


NODES = [
    {"metadata": {"name": "own"}, "status": {"capacity": {OWN: "4", "cpu": "8"}}},
    {"metadata": {"name": "intel"}, "status": {"capacity": {"gpu.intel.com/i915": "2", MONITORING: "1", "cpu": "8"}}},
]
DECLARED = Accelerators((Declared("example.com/vgpu-*", Vendor.NVIDIA), Declared("example.com/dra", by_dra=True)))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(asking(OWN, 4), 1, id="a declared name that a node lists"),
        pytest.param(asking(OWN, 5), 0, id="more of it than any node has"),
        pytest.param(asking(f"{OWN}x"), 0, id="a declared name that no node lists"),
        pytest.param(asking("example.com/dra", 9), 2, id="what DRA gives, which no node lists"),
        pytest.param(asking(GPU_CLASS, 9), 2, id="a device class, which no node lists"),
        pytest.param(asking(MONITORING, 1), 1, id="all GPUs of a node, on the node that lists them"),
        pytest.param(asking(MONITORING, 2), 0, id="all GPUs of a node, twice"),
    ],
)
def test_where_a_pod_fits_is_told_by_declared_names_too(raw: dict[str, Any], expected: int) -> None:
    facts = ClusterFacts.of(NODES, accelerators=DECLARED)
    assert sum(found.count for found in facts.feasible_nodes(pod_from_raw(raw, DECLARED))) == expected


def test_a_node_has_no_gpu_more_because_it_can_be_monitored() -> None:
    facts = ClusterFacts.of(NODES, accelerators=DECLARED)
    assert facts.gpu_resources() == {OWN, "gpu.intel.com/i915"}
    rows = [(row.resource, row.gpus) for row in capacity_of(facts.cluster.nodes.values(), DECLARED)]
    assert sorted(rows) == [(OWN, 4), ("gpu.intel.com/i915", 2)]


def test_pods_that_run_are_counted_by_declared_names() -> None:
    raw = asking(OWN, 3)
    pods = StaticPods([{**raw, "metadata": {**raw["metadata"], "uid": "705ab4f5-6393-11e8-b7cc-42010a800001"}}])
    assert list(pods.seen()) == []
    pods = StaticPods([raw], accelerators=DECLARED)
    assert [seen.pod.gpus for seen in pods.seen()] == [{OWN: 3}]


def test_more_of_an_unknown_class_than_the_maximum_is_told_and_not_refused() -> None:
    found = said_of(asking(UNKNOWN_CLASS, 9), policies({"gpuLimits": {"maxPerPod": 8}}), "team")
    assert [(one.kind, one.message) for one in found.findings] == [
        (FindingKind.ADVICE, f"requests more than 8 of {UNKNOWN_CLASS}, which may be GPUs or not")
    ]
    assert said_of(asking(UNKNOWN_CLASS, 8), policies({"gpuLimits": {"maxPerPod": 8}}), "team").findings == ()


def test_both_endpoints_say_it(tmp_path: Path) -> None:
    """At /validate a refusal, and at /workloads what is said of the template."""
    policy_set = written(
        tmp_path, "{workloads: {mode: enforce}, rules: {gpuQuota: {mode: enforce, gpus: 4, claims: deny}}}"
    )
    facts = against(policy_set).facts
    judged = phases.validate(request(claiming()), policy_set, facts)
    assert "requests devices by resource claims" in judged.answer.message
    job = phases.workloads(request(workload("Job", claiming())), policy_set, facts)
    assert "requests devices by resource claims" in job.answer.message
