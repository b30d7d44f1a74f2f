"""What pods count against the limits of a quota, and which limits one more pod would exceed."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.gpus.gpu_catalogue import CATALOGUE
from webhook.ledger.plan import Asked
from webhook.quota.amounts import amounts, used
from webhook.quota.quotas import Counting, Demand, Limit, Measure, Quota, QuotaScope

GPU = "nvidia.com/gpu"
SLICE = "nvidia.com/mig-1g.10gb"
SHARED = "nvidia.com/gpu.shared"
AMD = "amd.com/gpu"
H100 = ("H100-80GB",)

GPUS = Limit(Measure.GPUS, "", Fraction(8))


def model(name, hard=4):
    return Limit(Measure.MODEL, name, Fraction(hard))


def excesses(asked, in_use, limited):
    return Asked(limited, amounts(asked, limited), of=asked).excesses(in_use)


def resource(name, hard=4):
    return Limit(Measure.RESOURCE, name, Fraction(hard))


def quota(*limits, patterns=("team",), **counting):
    return Quota(QuotaScope.SHARED, "shared", patterns, limits, Counting(**counting))


def demand(models=None, namespace="team", **gpus):
    named = {"gpu": GPU, "slice": SLICE, "shared": SHARED, "amd": AMD}
    return Demand(namespace, tuple(sorted((named[name], count) for name, count in gpus.items())), models)


@pytest.mark.parametrize(
    ("asked", "limit", "expected"),
    [
        pytest.param(demand(gpu=4), GPUS, 4, id="whole GPUs"),
        pytest.param(demand(H100, slice=3), GPUS, "3/7", id="slices are parts"),
        pytest.param(demand(H100, gpu=2, slice=3), GPUS, "17/7", id="both together"),
        pytest.param(demand(gpu=1, amd=2), GPUS, 3, id="of all vendors"),
        pytest.param(demand(H100, gpu=4), model("H100"), 4, id="of a family"),
        pytest.param(demand(H100, gpu=4), model("H100-80GB"), 4, id="of the model itself"),
        pytest.param(demand(H100, gpu=4), model("H100-NVL"), 0, id="of another model of the family"),
        pytest.param(demand(H100, slice=7), model("H100"), 1, id="slices of a model"),
        pytest.param(demand(("H100-80GB", "T4"), gpu=4), model("T4"), 4, id="of one of several"),
        pytest.param(demand(None, gpu=4), model("T4"), 4, id="of any"),
        pytest.param(demand((), gpu=4), model("T4"), 0, id="of none that is known"),
        pytest.param(demand(None, gpu=1, amd=2), model("T4"), 1, id="only GPUs of the model's vendor"),
        pytest.param(demand(None, gpu=1, amd=2), model("MI300X"), 2, id="of the other vendor"),
        pytest.param(demand(H100, gpu=1, amd=2), model("H100"), 1, id="what another vendor's GPU is counted for"),
        pytest.param(demand(H100, slice=3), resource(SLICE), 3, id="a resource by the piece"),
        pytest.param(demand(gpu=3), resource(SLICE), 0, id="another resource"),
    ],
)
def test_a_pod_counts_what_it_may_use_of_what_is_limited(asked, limit, expected):
    assert amounts(asked, quota(limit)) == {limit: Fraction(expected)}


def test_a_model_of_unknown_vendor_counts_every_gpu():
    catalogue = CATALOGUE.extended({"X9": {"example.com/gpu": ["x9"]}})
    limited = quota(model("X9"), catalogue=catalogue)
    assert amounts(demand(("X9",), gpu=1, amd=2), limited) == {model("X9"): 3}
    assert amounts(demand(("T4",), gpu=1, amd=2), limited) == {model("X9"): 0}


def test_weights_of_the_policy_hold_for_gpus_and_models_and_not_for_resources():
    limits = (GPUS, model("T4"), resource(SHARED))
    weighed = amounts(demand(("T4",), shared=6), quota(*limits, weights={SHARED: Fraction(1, 4)}))
    assert weighed == {GPUS: Fraction(3, 2), model("T4"): Fraction(3, 2), resource(SHARED): 6}


def test_only_the_namespaces_of_the_quota_use_it():
    shared = quota(GPUS, patterns=("team", "team-*"))
    counts = {demand(gpu=2): 3, demand(gpu=1, namespace="team-b"): 1, demand(gpu=8, namespace="other"): 9}
    assert used(counts, shared) == {GPUS: 7}
    assert used({}, shared) == {GPUS: 0}


@pytest.mark.parametrize(
    ("asked", "in_use", "passed"),
    [
        pytest.param(demand(gpu=2), 6, False, id="exactly full"),
        pytest.param(demand(gpu=3), 6, True, id="one over"),
        pytest.param(demand(H100, slice=3), "53/7", False, id="full to the last slice"),
        pytest.param(demand(H100, slice=4), "53/7", True, id="a slice over"),
        pytest.param(demand(gpu=1), 12, True, id="a quota below present use refuses"),
    ],
)
def test_a_limit_is_passed_only_by_what_is_above_it(asked, in_use, passed):
    limited = quota(GPUS)
    asks = amounts(asked, limited)[GPUS]
    found = excesses(asked, {GPUS: Fraction(in_use)}, limited)
    assert [(one.limit, one.asks, one.used) for one in found] == ([(GPUS, asks, Fraction(in_use))] if passed else [])


def test_a_pod_that_asks_nothing_of_an_overdrawn_limit_passes_it_by():
    limited = quota(GPUS, model("H100", 0))
    in_use = {GPUS: Fraction(1), model("H100", 0): Fraction(5)}
    assert excesses(demand(("T4",), gpu=1), in_use, limited) == ()


def test_limits_are_named_in_the_order_of_the_quota():
    limits = (GPUS, model("H100"), resource(GPU))
    in_use = dict.fromkeys(limits, Fraction(8))
    assert [excess.limit for excess in excesses(demand(gpu=1), in_use, quota(*limits))] == list(limits)


ASKED = st.builds(
    demand,
    st.sampled_from((None, (), H100, ("H100-80GB", "T4"), ("A100-40GB",))),
    st.sampled_from(("team", "team-b", "other")),
    gpu=st.integers(1, 8),
    slice=st.integers(1, 14),
)
LIMITED = quota(GPUS, model("H100"), model("A100"), resource(SLICE), patterns=("team", "team-*"))


@given(st.lists(ASKED, max_size=12))
def test_what_is_used_is_the_sum_of_what_pods_count_in_whatever_order(pods):
    """Added up pod by pod, as the ledger does, and all at once, as a reader of its entries does."""
    one_by_one = dict.fromkeys(LIMITED.limits, Fraction(0))
    for asked in pods:
        if LIMITED.covers(asked.namespace):
            for limit, amount in amounts(asked, LIMITED).items():
                one_by_one[limit] += amount
    assert used(Counter(pods), LIMITED) == one_by_one
    assert used(Counter(reversed(pods)), LIMITED) == one_by_one


@given(ASKED, st.lists(ASKED, max_size=6))
def test_every_number_is_exact(asked, others):
    counted = [*amounts(asked, LIMITED).values(), *used(Counter(others), LIMITED).values()]
    assert {type(number) for number in counted} == {Fraction}


def test_quotas_that_differ_only_in_how_they_count_are_told_apart():
    asked = demand(("T4",), shared=4)
    plain, weighed = quota(GPUS), quota(GPUS, weights={SHARED: Fraction(1, 4)})
    assert [amounts(asked, one)[GPUS] for one in (plain, weighed, plain)] == [4, 1, 4]


@pytest.mark.parametrize(
    ("asked", "unit"),
    [
        pytest.param(demand(gpu=9), None, id="whole GPUs"),
        pytest.param(demand(H100, slice=63), ("nvidia.com/mig-1g.10gb", Fraction(1, 7)), id="slices"),
        pytest.param(demand(H100, gpu=8, slice=7), None, id="several resources"),
        pytest.param(Demand("team", (("nvidia.com/gpu@1/4", 36),)), ("nvidia.com/gpu", Fraction(1, 4)), id="shares"),
    ],
)
def test_an_excess_says_what_a_unit_counts_where_all_units_are_alike(asked, unit):
    (found,) = excesses(asked, {GPUS: Fraction(0)}, quota(GPUS))
    assert found.unit == unit
