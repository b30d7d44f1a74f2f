"""What `gpuTypes` leaves to pods that select no GPU model decides which limits of models they count against."""

from fractions import Fraction
from pathlib import Path

import pytest

from tests.facts.samples import node
from tests.reviews import pod
from webhook import engine
from webhook.engine.quota_claims import claims_of
from webhook.facts.facts import ClusterFacts
from webhook.ledger.ledger_store import GpuPod, entered_demand
from webhook.model.pod_reader import pod_from_raw
from webhook.policy.directory import read_directory
from webhook.policy.loader import build, load
from webhook.quota.amounts import amounts

PRODUCT = "nvidia.com/gpu.product"
T4, H100 = "Tesla-T4", "NVIDIA-H100-80GB-HBM3"
CLUSTER = ClusterFacts.of(
    [node(f"n-{name.lower()}", labels={PRODUCT: name}, capacity={"nvidia.com/gpu": "8"}) for name in (T4, H100)]
)
QUOTA = "gpuQuota: {mode: enforce, byModel: {T4: 4, H100: 0}}"


def written(directory: Path, default: str, **files: str) -> Path:
    """A directory with these rules in the default policy, and other files by the name of their namespace."""
    head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    texts = {"_default": f"{{rules: {{{default}}}}}"} | files
    for name, spec in texts.items():
        kind = "GPUQuotaPots" if name == "_quotas" else "GPUPolicy"
        (directory / f"{name}.yaml").write_text(head.format(kind=kind, name=name, spec=spec))
    return directory


def limits_of(directory: Path, namespace: str = "vision", raw: dict | None = None) -> dict[str, Fraction]:
    """What a pod that selects nothing counts against each limit of each quota of its namespace."""
    policies = load(directory)
    raw = raw or pod(1)
    claims = claims_of(raw, namespace, policies.quotas_for(namespace), CLUSTER)
    return {
        f"{one.claim.quota.name} {limit.name}": amount
        for one in claims.claims
        for limit, amount in amounts(one.claim.demand, one.claim.quota).items()
    }


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        pytest.param("gpuTypes: {mode: enforce, allowed: [T4]}", {"T4": 1, "H100": 0}, id="allowed"),
        pytest.param("gpuTypes: {mode: enforce, denied: [H100]}", {"T4": 1, "H100": 0}, id="denied"),
        pytest.param("gpuTypes: {mode: enforce, memory: {max: 24Gi}}", {"T4": 1, "H100": 1}, id="a share may be small"),
        pytest.param("gpuTypes: {mode: enforce, memory: {min: 40Gi}}", {"T4": 0, "H100": 1}, id="too small"),
        pytest.param("gpuTypes: {mode: enforce, allowed: [T4, 1g.10gb]}", {"T4": 1, "H100": 1}, id="a slice of it"),
        pytest.param("gpuTypes: {mode: warn, allowed: [T4]}", {"T4": 1, "H100": 1}, id="not enforced"),
        pytest.param('gpuTypes: {mode: enforce, allowed: ["*"]}', {"T4": 1, "H100": 1}, id="all"),
        pytest.param("gpuTypes: {mode: enforce}", {"T4": 1, "H100": 1}, id="nothing is ruled out"),
    ],
)
def test_a_pod_that_selects_no_model_counts_against_those_that_it_may_get(tmp_path, types, expected):
    found = limits_of(written(tmp_path, f"{types}, {QUOTA}"))
    assert found == {f"vision {name}": amount for name, amount in expected.items()}


@pytest.mark.parametrize("unspecified", ["count", "deny"])
def test_a_pod_that_may_get_one_model_only_is_admitted(tmp_path, unspecified):
    quota = f"gpuQuota: {{mode: enforce, unspecifiedModel: {unspecified}, byModel: {{T4: 4, H100: 0}}}}"
    directory = written(tmp_path, f"gpuTypes: {{mode: enforce, allowed: [T4]}}, {quota}")
    outcome = engine.simulate(pod(1), load(directory).for_namespace("vision"), CLUSTER)
    assert not [finding for finding in outcome.findings if finding.refuses]
    (too_many,) = engine.simulate(pod(5), load(directory).for_namespace("vision"), CLUSTER).findings
    assert "requests 5 T4; the GPU quota allows 4 T4 in all" in too_many.message


def test_a_pot_counts_the_pods_of_each_namespace_by_its_policy(tmp_path):
    written(
        tmp_path,
        "",
        _quotas="{pots: [{name: shared, namespaces: [vision, speech], byModel: {T4: 4, H100: 4}}]}",
        vision="{rules: {gpuTypes: {mode: enforce, allowed: [T4]}}}",
    )
    assert limits_of(tmp_path, "vision") == {"shared T4": 1, "shared H100": 0}
    assert limits_of(tmp_path, "speech") == {"shared T4": 1, "shared H100": 1}


def test_a_reload_keeps_quotas_that_did_not_change_and_takes_up_what_gpu_types_says(tmp_path):
    directory = written(tmp_path, f"gpuTypes: {{mode: enforce, allowed: [T4]}}, {QUOTA}", _quotas=POT)
    first = load(directory)
    same = build(read_directory(directory), previous=first)
    assert [one is other for one, other in zip(same.pots, first.pots, strict=True)] == [True]
    written(tmp_path, f"gpuTypes: {{mode: enforce, allowed: [H100]}}, {QUOTA}", _quotas=POT)
    other = build(read_directory(directory), previous=first)
    assert other.pots != first.pots
    assert limits_of(tmp_path)["shared H100"] == 1


POT = "{pots: [{name: shared, namespaces: [vision], byModel: {T4: 4, H100: 4}}]}"


def test_a_pod_counts_the_model_of_the_node_that_it_is_on(tmp_path):
    """A node that came after its admission may be of another model."""
    quota = (
        load(written(tmp_path, f"gpuTypes: {{mode: enforce, allowed: [T4]}}, {QUOTA}")).quotas_for("vision")[0].quota
    )
    kind = CLUSTER.node_class("n-nvidia-h100-80gb-hbm3")
    seen = GpuPod(b"0" * 16, "vision", "train", pod_from_raw(pod(1)), node="n-nvidia-h100-80gb-hbm3", kind=kind)
    demand = entered_demand(seen, quota.counting)
    assert demand is not None
    assert demand.models == ("H100-80GB",)
