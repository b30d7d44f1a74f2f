"""What units of nvidia.com/gpu count where nodes divide their GPUs, and what ledgers keep of that."""

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import pod as raw_pod
from webhook.facts.facts import ClusterFacts
from webhook.gpus.gpu_table import GPUS as TABLE
from webhook.ledger.entries import entries_from_raw
from webhook.model.node import NodePool
from webhook.model.pod_reader import pod_from_raw
from webhook.quota.amounts import amounts, unit_parts, with_part, without_part
from webhook.quota.demand import demand_of, pod_demand
from webhook.quota.quotas import Quota, QuotaScope
from webhook.rules.gpu_quota import Settings

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
PRODUCT, REPLICAS = "nvidia.com/gpu.product", "nvidia.com/gpu.replicas"
STRATEGY, MIG = "nvidia.com/gpu.sharing-strategy", "nvidia.com/mig.strategy"
WHOLE = {PRODUCT: "Tesla-T4", REPLICAS: "1", STRATEGY: "none"}
FOUR = {PRODUCT: "Tesla-T4-SHARED", REPLICAS: "4", STRATEGY: "time-slicing"}
TWO = {PRODUCT: "NVIDIA-L4-SHARED", REPLICAS: "2", STRATEGY: "mps"}
RENAMED = {PRODUCT: "Tesla-T4", REPLICAS: "8", STRATEGY: "time-slicing"}
SLICES = {PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", REPLICAS: "1", STRATEGY: "none", MIG: "single"}
AT_ODDS = {PRODUCT: "Tesla-T4-SHARED", REPLICAS: "0", STRATEGY: "time-slicing"}


def node(name: str, labels: Mapping[str, str], *resources: str, taint: str = "") -> dict[str, Any]:
    taints = [{"key": taint, "value": "", "effect": "NoSchedule"}] if taint else []
    return {
        "metadata": {"name": name, "uid": name, "labels": dict(labels)},
        "spec": {"taints": taints},
        "status": {"capacity": dict.fromkeys(resources or (GPU,), "8")},
    }


def quota(**settings: Any) -> Quota:
    read = Settings.model_validate_json(json.dumps({"mode": "enforce", **settings}), by_alias=True)
    return Quota(QuotaScope.NAMESPACE, "team", ("team",), read.limits, read.counting)


def counted(nodes: Sequence[dict[str, Any]], asked: int = 2, resource: str = GPU, **settings: Any) -> str:
    """What a pod with so many units counts of GPUs of all kinds; `spec` and `pools` are its own."""
    spec, pools = settings.pop("spec", {}), settings.pop("pools", ())
    raw = raw_pod(spec={"containers": [{"name": "c", "resources": {"limits": {resource: asked}}}], **spec})
    of = quota(**{"gpus": 100, **settings})
    demand = pod_demand(pod_from_raw(raw), "team", of.counting, ClusterFacts.of(nodes).with_pools(pools)).all
    assert demand is not None
    return str(next(iter(amounts(demand, of).values())))


@pytest.mark.parametrize(
    ("labels", "amount"),
    [
        pytest.param([], "2", id="no node is known"),
        pytest.param([WHOLE], "2", id="whole GPUs"),
        pytest.param([{}], "2", id="a node without labels"),
        pytest.param([FOUR], "1/2", id="shares"),
        pytest.param([SLICES], "2/7", id="slices"),
        pytest.param([AT_ODDS], "2", id="labels at odds"),
        pytest.param([FOUR, FOUR], "1/2", id="all alike"),
        pytest.param([FOUR, TWO], "1", id="the largest of two shares"),
        pytest.param([FOUR, SLICES], "1/2", id="shares and slices"),
        pytest.param([FOUR, WHOLE], "2", id="shares and whole GPUs"),
        pytest.param([FOUR, {}], "2", id="shares and a node without labels"),
        pytest.param([FOUR, AT_ODDS], "2", id="shares and labels at odds"),
    ],
)
def test_a_pod_counts_the_most_that_its_units_may_be_on_any_of_its_nodes(
    labels: list[dict[str, str]], amount: str
) -> None:
    assert counted([node(f"n{at}", each) for at, each in enumerate(labels)]) == amount


def test_the_nodes_that_a_pod_selects_count_and_no_others() -> None:
    nodes = [node("four", FOUR), node("two", TWO), node("whole", WHOLE)]
    assert counted(nodes, spec={"nodeSelector": {PRODUCT: "Tesla-T4-SHARED"}}) == "1/2"
    assert counted(nodes, spec={"nodeName": "two"}) == "1"
    assert counted(nodes, spec={"nodeSelector": {PRODUCT: "NVIDIA-A100-SXM4-40GB"}}) == "2"


def test_renamed_shares_and_units_that_kept_their_name_are_told_apart() -> None:
    nodes = [node("renamed", RENAMED, SHARED), node("whole", WHOLE)]
    assert counted(nodes, 2, SHARED) == "1/4"
    assert counted(nodes, 2, GPU) == "2"
    assert counted([node("both", RENAMED, SHARED, GPU)], 2, GPU) == "2"  # units of before, while the plugin restarts


def test_a_taint_that_a_pod_could_tolerate_later_does_not_make_its_units_smaller() -> None:
    """Tolerations may be added to a pod at any time."""
    assert counted([node("four", FOUR), node("whole", WHOLE, taint="only-for-others")]) == "2"


def test_a_pool_counts_by_its_labels() -> None:
    whole = NodePool("whole", (), (), frozenset({GPU}))
    shared = NodePool("shared", tuple(FOUR.items()), (), frozenset({GPU}))
    assert counted([node("four", FOUR)], pools=(whole,)) == "2"
    assert counted([node("two", TWO)], pools=(shared,)) == "1"
    assert counted([], pools=(shared,)) == "1/2"


def test_weights_of_the_policy_come_first() -> None:
    assert counted([node("four", FOUR)], weights={GPU: "3/4"}) == "3/2"


def test_limits_of_a_resource_are_in_units_and_those_of_a_model_in_parts() -> None:
    assert counted([node("four", FOUR)], 8, gpus=None, byResource={GPU: 100}) == "8"
    spec = {"nodeSelector": {PRODUCT: "Tesla-T4-SHARED"}}
    assert counted([node("four", FOUR)], 8, gpus=None, byModel={"T4": 100}, spec=spec) == "2"
    assert counted([node("four", FOUR)], 8, gpus=None, byModel={"H100": 100}, spec=spec) == "0"


def test_an_extended_resource_of_a_device_class_may_be_a_whole_gpu() -> None:
    cluster = {
        "nodes": [node("four", FOUR)],
        "device_classes": [{"metadata": {"name": "gpu.nvidia.com"}, "spec": {"extendedResourceName": GPU}}],
    }
    pod = pod_from_raw(raw_pod(2))
    assert unit_parts(pod, ClusterFacts.of(**cluster), TABLE) == {}
    assert unit_parts(pod, ClusterFacts.of(cluster["nodes"]), TABLE) == {GPU: Fraction(1, 4)}


# In ledgers


@given(st.fractions(0, 1, max_denominator=100_000).filter(lambda part: 0 < part < 1))
def test_a_part_is_read_back_from_the_name_that_keeps_it(part: Fraction) -> None:
    assert without_part(with_part(GPU, part)) == (GPU, part)


@pytest.mark.parametrize(
    "text",
    ["", "x", "1/0", "0/4", "-1/4", "5/4", "1/4/2", "1/" + "9" * 12, "٣/٤", "1/4 ", "9" * 4000, "1/" + "9" * 4000],
)
def test_a_part_that_nobody_writes_is_a_whole_unit(text: str) -> None:
    """Ledgers are ConfigMaps, and somebody may have changed one."""
    assert without_part(f"{GPU}@{text}") == (GPU, None)


def test_an_entry_counts_what_its_name_keeps_and_in_a_release_that_does_not_know_it_a_whole_gpu() -> None:
    raw = {"kinds": [{"gpus": {f"{GPU}@1/4": 2}}], "entries": {"team": {"0": "AAAAAAAAAAAAAAAAAAAAAA=="}}}
    (demand,) = entries_from_raw(raw).counts
    assert demand == demand_of(pod_from_raw(raw_pod(2)), "team", quota(gpus=1).counting, {GPU: Fraction(1, 4)})
    assert list(amounts(demand, quota(gpus=9)).values()) == [Fraction(1, 2)]


LABELS = st.sampled_from([WHOLE, FOUR, TWO, SLICES, AT_ODDS, RENAMED, {}])


@given(
    labels=st.lists(LABELS, min_size=1, max_size=5),
    taints=st.lists(st.booleans(), min_size=5, max_size=5),
    selected=st.sampled_from([None, *(each[PRODUCT] for each in (WHOLE, FOUR, TWO, SLICES))]),
    resource=st.sampled_from([GPU, SHARED]),
)
def test_wherever_the_scheduler_puts_a_pod_it_counts_at_least_what_it_has_there(
    labels: list[dict[str, str]], taints: list[bool], selected: str | None, resource: str
) -> None:
    offered = [node(f"n{at}", each, *_offered(each), taint="t" * taints[at]) for at, each in enumerate(labels)]
    spec = {} if selected is None else {"nodeSelector": {PRODUCT: selected}}
    amount = Fraction(counted(offered, 1, resource, spec=spec))
    for raw in offered:
        own = raw["metadata"]["labels"]
        if resource in raw["status"]["capacity"] and selected in {None, own.get(PRODUCT)}:
            assert amount >= _true_part(own)


def _offered(labels: Mapping[str, str]) -> tuple[str, ...]:
    return (SHARED,) if labels is RENAMED else (GPU,)


def _true_part(labels: Mapping[str, str]) -> Fraction:
    """What a unit of a node with these labels is, said once more and by hand."""
    parts = [(FOUR, "1/4"), (TWO, "1/2"), (SLICES, "1/7"), (RENAMED, "1/8")]
    return next((Fraction(part) for each, part in parts if each == labels), Fraction(1))
