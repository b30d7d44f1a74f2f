"""Names of GPUs that only a policy knows are counted everywhere, and known of the cluster (A42)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.build import against, container, pod, policies, request, workload
from tests.pods_of_other_names import GPU_CLASS, MONITORING, OWN, UNKNOWN_CLASS, asking, claiming, said_of, written
from webhook.admission import phases
from webhook.audit.node_kinds import capacity_of
from webhook.engine.quota_requests import reserved
from webhook.facts.facts import ClusterFacts
from webhook.facts.snapshot import EMPTY
from webhook.ledger.static_pods import StaticPods
from webhook.ledger.verdicts import Granted, QuotaRequest, Verdict
from webhook.model.accelerators import Accelerators, Declared, Vendor
from webhook.model.pod_reader import pod_from_raw
from webhook.outcome import FindingKind, Outcome

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
def test_names_that_a_policy_declares_are_counted_everywhere(tmp_path: Path, rules: str) -> None:
    policy_set = written(tmp_path, f"{{accelerators: {EXTRA}, rules: {rules}}}")
    assert said_of(asking(OWN, 5), policy_set, "team").refusals
    assert not said_of(asking(OWN, 4), policy_set, "team").refusals
    assert not said_of(asking("example.com/nic", 5), policy_set, "team").refusals


def test_stored_pods_with_declared_names_count_against_a_shared_quota(tmp_path: Path) -> None:
    policy_set = written(
        tmp_path, f"{{accelerators: {EXTRA}, rules: {{}}}}", "{quotas: [{name: a, namespaces: [team], gpus: 4}]}"
    )
    (quota,) = policy_set.quotas_for("team")
    asked: list[QuotaRequest] = []

    def ask(claims: list[QuotaRequest]) -> list[Verdict]:
        asked.extend(claims)
        return [Granted()] * len(claims)

    reserved(Outcome(policy_set.default, asking(OWN, 3), ()), "team", [quota], ClusterFacts(EMPTY), ask, lambda _: ())
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
def test_no_arrangement_of_containers_hides_a_class(spec: dict[str, Any]) -> None:
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
    rows = [(row.resource, row.gpus) for row in capacity_of(facts.cluster, DECLARED)]
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
