"""What people write about nodes is understood to the letter, and every mistake is told with what there is instead."""

from typing import Any

import pytest

from tests.facts.samples import node
from tests.golden import golden
from tests.upgrades.generated import gpu_node, slice_of
from tests.upgrades.plans import DEFAULTS, changed
from webhook.facts.facts import ClusterFacts
from webhook.facts.nodes import node_from_raw
from webhook.model.node import NodePool
from webhook.model.shape import FormatError
from webhook.policy.policy_set import Policy, PolicySet, content_hash
from webhook.upgrades.node_changes import UnusableChangesError, selector_of

BOTH = ("driver-version", "driver", "runtime-version", "runtime")
NODES = [
    gpu_node("a0", "NVIDIA-A100-SXM4-80GB", "535.183.01", BOTH, pool="a100"),
    gpu_node("a1", "NVIDIA-A100-SXM4-80GB", "535.183.01", BOTH, pool="a100", rack="7"),
    gpu_node("v0", "Tesla-V100-SXM2-16GB", "470.82.01", ("driver",), pool="v100"),
    node("cpu", labels={"pool": "web"}, capacity={"cpu": "8"}),
]
FACTS = ClusterFacts.of(NODES)
POOL = NodePool(
    "spot",
    (("nvidia.com/cuda.driver-version.major", "535"), ("pool", "a100"), ("tier", "spot")),
    (),
    frozenset({"nvidia.com/gpu"}),
    8,
    members=(("pool", "a100"), ("rack", "7")),
)


def declaring(*pools: NodePool) -> PolicySet:
    return PolicySet.of(Policy("p", (), content_hash("p"), DEFAULTS.default.rules, pools), {})


def faults(*sets: str, retired: Any = (), policies: PolicySet | None = None) -> list[str]:
    with pytest.raises(UnusableChangesError) as error:
        changed(FACTS, sets, retired, policies=policies or DEFAULTS)
    return list(error.value.messages)


@golden
def test_a_selector_is_a_label_or_a_pool(text: str, key: str, values: tuple[str, ...]) -> None:
    assert selector_of(text) == (key, values)


@pytest.mark.parametrize("text", ["", "a b", "pool in ()", "=a", "a=b,c=d", "pool in (a=b)"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match=r"selects no nodes; write key=value or key in \(a,b\)"):
        selector_of(text)


def test_the_last_equals_sign_separates_the_driver() -> None:
    (change,) = changed(FACTS, ["pool=a100=580.95.05"]).changes
    assert (change.text, str(change.driver), change.nodes) == ("pool=a100", "580.95.05", {"a0", "a1"})


def test_several_values_are_one_change() -> None:
    (change,) = changed(FACTS, ["pool in (a100,v100)=580"]).changes
    assert change.nodes == {"a0", "a1", "v0"}


def test_values_that_no_node_has_are_told_beside_those_that_some_have() -> None:
    (change,) = changed(FACTS, ["pool in (a100,v10,zz)=580"]).changes
    assert change.nodes == {"a0", "a1"}
    assert change.note == (
        '--set "pool in (a100,v10,zz)=580": no node and no declared node pool has "v10" and "zz"; pool is a100 and '
        "v100; did you mean v100?"
    )
    assert changed(FACTS, ["pool in (a100,v100)=580"]).changes[0].note == ""


@pytest.mark.parametrize(("driver", "is_known"), [("580.95.05", True), ("580.159.03", True), ("580.999.9", False)])
def test_a_release_that_no_table_has_is_a_note(driver: str, *, is_known: bool) -> None:
    note = f'--set "pool=a100={driver}": release {driver} is not known here, so the facts of branch 580 are used'
    assert changed(FACTS, [f"pool=a100={driver}"]).changes[0].note == ("" if is_known else note)


def test_nodes_without_nvidia_gpus_have_no_driver() -> None:
    (change,) = changed(FACTS, ["kubernetes.io/hostname in (a0,cpu)=580"]).changes
    assert change.nodes == {"a0"}
    assert faults("pool=web=580") == ['--set "pool=web=580": selects 1 node without NVIDIA GPUs; select others']


def test_a_pool_means_itself_and_the_nodes_that_belong_to_it() -> None:
    found = changed(FACTS, ["spot=580.95.05"], policies=declaring(POOL))
    (change,) = found.changes
    assert (change.nodes, change.pools) == ({"a1"}, {"spot"})
    pool = found.pools[POOL]
    assert pool is not None
    labels = dict(pool.labels)
    assert labels["nvidia.com/cuda.driver-version.major"] == "580"


def test_a_selector_also_means_declared_pools_with_the_label() -> None:
    (change,) = changed(FACTS, ["tier=spot=580"], policies=declaring(POOL)).changes
    assert (change.nodes, change.pools) == (frozenset(), {"spot"})


def test_a_selector_that_matches_nothing_is_told_what_there_is() -> None:
    assert faults("pool=a10=580", "pol=a100=580", "zzz=1=580", "spt=580", policies=declaring(POOL)) == [
        '--set "pool=a10=580": no node and no declared node pool has "a10"; pool is a100 and v100; did you mean a100?',
        '--set "pol=a100=580": no node and no declared node pool has the label "pol"; did you mean pool?',
        '--set "zzz=1=580": no node and no declared node pool has the label "zzz"; GPU nodes have '
        "kubernetes.io/arch, kubernetes.io/hostname, nvidia.com/cuda.driver-version.full and 17 more",
        '--set "spt=580": no NodePool and no declared node pool is "spt"; write key=value or key in (a,b) with a label '
        "of nodes, or the name of a node pool; node pools are spot; did you mean spot?",
    ]


def test_what_is_retired_may_be_any_node() -> None:
    (fault,) = faults(retired=["pool=webb"])
    assert fault.endswith('has "webb"; pool is a100, v100 and web; did you mean web?')
    (change,) = changed(FACTS, retired=["pool in (web,zz)"]).changes
    assert change.note.endswith('has "zz"; pool is a100, v100 and web')


def test_an_unknown_branch_is_told_the_nearest_ones() -> None:
    (fault,) = faults("pool=a100=581.10")
    assert fault.startswith(
        '--set "pool=a100=581.10": driver branch 581 is not in the tables; the nearest are 580 and 590'
    )


@golden
def test_what_is_no_driver_is_refused(driver: str, told: str) -> None:
    (fault,) = faults(f"pool=a100={driver}")
    assert told in fault


def test_an_option_without_a_driver_is_refused() -> None:
    assert faults("a100") == ['--set "a100": names no driver; write SELECTOR=DRIVER, such as pool=a100=580.95.05']


def test_a_pool_that_is_named_twice_is_refused() -> None:
    assert faults("pool=a100=580", "pool=a100=580") == [
        '"pool=a100" is named twice: --set to 580 and --set to 580; keep one of the two'
    ]


def test_two_options_that_mean_one_node_and_differ_are_refused() -> None:
    assert faults("pool=a100=580", "rack=7=590", retired=["kubernetes.io/hostname=a0"]) == [
        '"pool=a100" and "rack=7" both mean 1 node, such as a1: --set to 580 and --set to 590; keep one of the two',
        '"pool=a100" and "kubernetes.io/hostname=a0" both mean 1 node, such as a0: --set to 580 and --retire; keep one '
        "of the two",
    ]


def test_two_options_that_agree_about_a_node_are_fine() -> None:
    assert len(changed(FACTS, ["pool=a100=580.95.05", "rack=7=580.95.05"]).changes) == 2


def test_all_mistakes_are_told_at_once() -> None:
    assert len(faults("pool=x=1", "nope=580", retired=["pool=y"])) == 4


@pytest.mark.parametrize("driver", ["580.95.05", "590.44", "550"])
def test_a_relabelled_node_is_the_node_with_those_labels(driver: str) -> None:
    """As if the API server had given it."""
    found = changed(FACTS, [f"pool in (a100,v100)={driver}"]).after.cluster.nodes
    for raw in NODES[:3]:
        after = found[raw["metadata"]["name"]]
        labels = {key: after.label(key) for key in after.keys}
        read = node_from_raw({**raw, "metadata": {**raw["metadata"], "labels": labels}})
        assert after == read
        assert read is not None
        assert after.kind is read.kind


def test_what_resource_slices_say_changes_too() -> None:
    raw = gpu_node("s", "Tesla-T4", "535.183.01", (), pool="s")
    facts = ClusterFacts.of([raw], [], [], [], [], [], [slice_of("s", "Tesla-T4", "535.183.01")])
    after = changed(facts, ["pool=s=580.95.05"]).after.cluster.nodes["s"]
    assert after.kind.by_slices is not None
    assert (after.kind.by_slices.driver, after.kind.by_slices.cuda) == ("580.95.05", "13.0")
    assert not any(key.startswith("nvidia.com/cuda") for key in after.keys)
