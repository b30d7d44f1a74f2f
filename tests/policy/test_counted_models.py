"""Which limits of models a pod counts against that selects no GPU model: those of the nodes that are left to it."""

from fractions import Fraction
from pathlib import Path

from tests.build import pod
from tests.facts.samples import node
from tests.golden import golden
from tests.rules.samples import terms
from webhook import engine
from webhook.engine.quota_requests import requests_of_pod
from webhook.facts.facts import ClusterFacts
from webhook.ledger.ledger_store import GpuPod, entered_demand
from webhook.model.pod_reader import pod_from_raw
from webhook.policy.loader import load
from webhook.quota.amounts import amounts

PRODUCT = "nvidia.com/gpu.product"
T4, H100 = "Tesla-T4", "NVIDIA-H100-80GB-HBM3"
NODES = [node(f"n-{name.lower()}", labels={PRODUCT: name}, capacity={"nvidia.com/gpu": "8"}) for name in (T4, H100)]
CLUSTER = ClusterFacts.of(NODES)
QUOTA = "gpuQuota: {mode: enforce, byModel: {T4: 4, H100: 0}}"


def written(directory: Path, default: str, **files: str) -> Path:
    """A directory with these rules in the default policy, and other files by the name of their namespace."""
    head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    texts = {"_default": f"{{rules: {{{default}}}}}"} | files
    for name, spec in texts.items():
        kind = "GPUSharedQuotas" if name == "_quotas" else "GPUPolicy"
        (directory / f"{name}.yaml").write_text(head.format(kind=kind, name=name, spec=spec))
    return directory


def limits_of(directory: Path, namespace: str = "vision", raw: dict | None = None) -> dict[str, Fraction]:
    """What a pod counts against each limit of each quota of its namespace, once it is completed."""
    policies = load(directory)
    completed = engine.mutate(raw or pod(1), policies.for_namespace(namespace), CLUSTER, namespace=namespace).object
    requests = requests_of_pod(pod_from_raw(completed), namespace, policies.quotas_for(namespace), CLUSTER).requests
    return {
        f"{one.quota.name} {limit.name}": amount
        for _, one in requests
        for limit, amount in amounts(one.demand, one.quota).items()
    }


@golden
def test_a_pod_that_selects_no_model_counts_against_those_that_it_may_get(tmp_path, types, expected):
    found = limits_of(written(tmp_path, f"{types}, {QUOTA}"))
    assert found == {f"vision {name}": amount for name, amount in expected.items()}


@golden
def test_a_pod_that_may_get_one_model_only_is_admitted(tmp_path, unspecified, types, refused):
    quota = f"gpuQuota: {{mode: enforce, unspecifiedModel: {unspecified}, byModel: {{T4: 4, H100: 0}}}}"
    directory = written(tmp_path, f"gpuTypes: {{mode: enforce, {types}}}, {quota}")
    outcome = engine.simulate(pod(1), load(directory).for_namespace("vision"), CLUSTER)
    assert any(finding.refuses for finding in outcome.findings) == refused
    if not refused:
        (too_many,) = engine.simulate(pod(5), load(directory).for_namespace("vision"), CLUSTER).findings
        assert "requests 5 T4; the GPU quota allows 4 T4 in all" in too_many.message


def test_a_shared_quota_counts_the_pods_of_each_namespace_by_its_policy(tmp_path):
    written(
        tmp_path,
        "",
        _quotas="{quotas: [{name: shared, namespaces: [vision, speech], byModel: {T4: 4, H100: 4}}]}",
        vision="{rules: {gpuTypes: {mode: enforce, allowed: [T4]}}}",
    )
    assert limits_of(tmp_path, "vision") == {"shared T4": 1, "shared H100": 0}
    assert limits_of(tmp_path, "speech") == {"shared T4": 1, "shared H100": 1}


def test_a_pod_that_is_pinned_to_a_node_counts_as_its_model_and_one_that_may_get_unlabelled_nodes_as_any(tmp_path):
    directory = written(tmp_path, "gpuQuota: {mode: enforce, byModel: {T4: 4, H100: 4}}")
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n-tesla-t4"]}]}
    pinned = pod(1)
    pinned["spec"]["affinity"] = terms(by_name)
    assert limits_of(directory, raw=pinned) == {"vision T4": 1, "vision H100": 0}
    quotas = load(directory).quotas_for("vision")
    unlabelled = ClusterFacts.of([*NODES, node("n-new", capacity={"nvidia.com/gpu": "8"})])
    ((_, one),) = requests_of_pod(pod_from_raw(pod(1)), "vision", quotas, unlabelled).requests
    assert one.demand.models is None


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
