"""The names under which GPUs are entered: few, whatever tenants make up, and such that every pod counts as before."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tests.golden import golden
from tests.strategies import checked
from webhook.model.accelerators import accelerator
from webhook.quota.amounts import amounts
from webhook.quota.demand import entered_name
from webhook.quota.quotas import Counting, Demand, Limit, Measure, Quota, QuotaScope

NAMES = st.one_of(
    st.from_regex(r"nvidia\.com/[A-Z][A-Za-z0-9_.-]{0,60}", fullmatch=True),
    st.from_regex(r"nvidia\.com/mig-([0-9]{1,3}c\.)?[0-9]{1,2}g\.[0-9]{1,3}gb([.+-][a-z.]{1,9})?", fullmatch=True),
    st.sampled_from(["1", "2", "3", "4", "7", "07", "8"]).map(lambda c: f"nvidia.com/mig-{c}c.7g.80gb"),
    st.from_regex(r"amd\.com/[sdqc]px_nps[0-9]{1,9}", fullmatch=True),
    st.sampled_from(["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/pgpu", "amd.com/gpu", "gpu.intel.com/xe"]),
)
LIMITS = (
    Limit(Measure.GPUS, "", Fraction(8)),
    Limit(Measure.MODEL, "H100", Fraction(8)),
    Limit(Measure.MODEL, "MI300X", Fraction(8)),
    Limit(Measure.RESOURCE, "nvidia.com/GA102GL_A10", Fraction(8)),
)
QUOTA = Quota(QuotaScope.SHARED, "shared", ("*",), LIMITS, Counting(weights={"nvidia.com/GRID_T4-16Q": Fraction(1, 4)}))


@given(NAMES, st.integers(1, 64), st.sampled_from([None, ("H100-80GB",), ("A100-40GB", "A100-80GB"), ("MI300X",)]))
@checked
def test_a_pod_counts_alike_under_the_name_by_which_it_is_entered(name, count, models):
    entered = entered_name(name, QUOTA.counting.named)
    assert accelerator(entered) is not None
    assert amounts(Demand("a", ((name, count),), models), QUOTA) == amounts(
        Demand("a", ((entered, count),), models), QUOTA
    )
    assert entered_name(entered, QUOTA.counting.named) == entered


def test_names_that_tenants_make_up_are_one():
    made_up = [f"nvidia.com/M{number:062}" for number in range(100)]
    made_up += [f"nvidia.com/mig-{number}g.{number}gb" for number in range(200, 300)]
    assert {entered_name(name, frozenset()) for name in made_up} == {"nvidia.com/OTHER"}


def test_spellings_of_a_slice_are_one():
    spellings = [f"nvidia.com/mig-{'0' * zeros}1c.7g.80gb" for zeros in range(30)]
    assert {entered_name(name, frozenset()) for name in spellings} == {"nvidia.com/mig-1c.7g.80gb"}
    assert {entered_name(f"amd.com/cpx_nps{n}", frozenset()) for n in range(999)} == {"amd.com/cpx_nps1"}


@golden
def test_what_counts_in_its_own_way_keeps_its_name(name):
    assert entered_name(name, QUOTA.counting.named) == name
