"""What people read of a quota, word for word."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.gpus.gpu_catalogue import CATALOGUE
from webhook.quota.quota_wording import exceeded, number
from webhook.quota.quotas import Counting, Excess, Limit, Measure, Quota, QuotaScope

GPUS = Limit(Measure.GPUS, "", Fraction(8))
H100 = Limit(Measure.MODEL, "H100", Fraction(4))
T4 = Limit(Measure.MODEL, "T4", Fraction(16))
SLICES = Limit(Measure.RESOURCE, "nvidia.com/mig-1g.10gb", Fraction(14))
LARGEST = [("train-a", Fraction(4)), ("notebook-x", Fraction(2))]


def quota(*limits, name="team-vision"):
    return Quota(QuotaScope.NAMESPACE, name, (name,), limits, Counting(CATALOGUE))


QUARTERS = ("nvidia.com/gpu", Fraction(1, 4))


def excess(limit, asks, used, unit=None):
    return Excess(limit, Fraction(asks), Fraction(used), unit)


@pytest.mark.parametrize(
    ("amount", "written"),
    [
        pytest.param(0, "0", id="none"),
        pytest.param(6, "6", id="whole"),
        pytest.param("3/7", "3/7", id="a part"),
        pytest.param("17/7", "2 3/7", id="whole and a part"),
        pytest.param(10**9, "1000000000", id="many"),
    ],
)
def test_a_number_is_written_exactly(amount, written):
    assert number(Fraction(amount)) == written


@given(st.fractions(min_value=0, max_value=10**6, max_denominator=10**6))
def test_what_is_written_is_the_number(amount):
    assert sum(Fraction(part) for part in number(amount).split(" ")) == amount


@pytest.mark.parametrize(
    ("excesses", "largest", "said"),
    [
        pytest.param(
            [excess(GPUS, 4, 6)],
            LARGEST,
            "requested 4, used 6 of 8 (2 free); largest: train-a 4, notebook-x 2; free some or request 2",
            id="of GPUs",
        ),
        pytest.param(
            [excess(H100, 4, 2)],
            LARGEST[:1],
            "requested 4 H100, used 2 of 4 (2 free); largest: train-a 4; free some or request 2",
            id="of a model",
        ),
        pytest.param(
            [excess(SLICES, 4, 12)],
            [],
            "requested 4 nvidia.com/mig-1g.10gb, used 12 of 14 (2 free); free some or request 2",
            id="of a resource, nobody known",
        ),
        pytest.param([excess(GPUS, 1, 8)], [], "requested 1, used 8 of 8 (0 free); free some", id="nothing is left"),
        pytest.param([excess(GPUS, 1, 9)], [], "requested 1, used 9 of 8 (0 free); free some", id="more is in use"),
        pytest.param(
            [excess(GPUS, 1, "53/7")],
            [],
            "requested 1, used 7 4/7 of 8 (3/7 free); free some",
            id="no whole GPU is left",
        ),
        pytest.param(
            [excess(GPUS, "4/7", "53/7")],
            [],
            "requested 4/7, used 7 4/7 of 8 (3/7 free); free some or request 3/7",
            id="some slices are left",
        ),
        pytest.param(
            [excess(GPUS, "4/7", "15/2")],
            [],
            "requested 4/7, used 7 1/2 of 8 (1/2 free); free some or request 3/7",
            id="half a GPU is three slices of seven",
        ),
        pytest.param(
            [excess(GPUS, 4, 6), excess(H100, 4, 3)],
            LARGEST,
            "requested 4, used 6 of 8 (2 free); requested 4 H100, used 3 of 4 (1 free); largest: train-a 4, notebook-x "
            "2; free some or request 1",
            id="of two limits, the narrower counts",
        ),
        pytest.param(
            [excess(GPUS, "4/7", "54/7"), excess(SLICES, 4, 12)],
            [],
            "requested 4/7, used 7 5/7 of 8 (2/7 free); requested 4 nvidia.com/mig-1g.10gb, used 12 of 14 (2 free); "
            "free some or request less",
            id="of two limits in other units",
        ),
        pytest.param(
            [excess(GPUS, "3/2", "29/4", QUARTERS)],
            [],
            "requested 1 1/2, used 7 1/4 of 8 (3/4 free); free some or request 3 nvidia.com/gpu",
            id="shares are told as pods request them",
        ),
        pytest.param(
            [excess(GPUS, "3/2", "29/4", QUARTERS), excess(H100, "3/2", 3, QUARTERS)],
            [],
            "requested 1 1/2, used 7 1/4 of 8 (3/4 free); requested 1 1/2 H100, used 3 of 4 (1 free); free some or "
            "request 3 nvidia.com/gpu",
            id="of two limits, the narrower counts in shares",
        ),
        pytest.param(
            [excess(GPUS, 4, 6), excess(H100, 4, 4)],
            [],
            "requested 4, used 6 of 8 (2 free); requested 4 H100, used 4 of 4 (0 free); free some",
            id="of two limits, one of them full",
        ),
    ],
)
def test_a_refusal_says_what_is_asked_used_and_free_and_what_to_do(excesses, largest, said):
    text = exceeded(quota(GPUS, H100, SLICES), excesses, largest)
    assert text == f"exceeded GPU quota 'team-vision': {said}"


@pytest.mark.parametrize(
    ("limits", "excesses", "said"),
    [
        pytest.param(
            [H100, T4],
            [excess(H100, 4, 2)],
            "request 2; or add a nodeSelector for the model, such as nvidia.com/gpu.product: Tesla-T4 for T4",
            id="a model that has room",
        ),
        pytest.param(
            [H100, T4],
            [excess(H100, 4, 2), excess(T4, 4, 16)],
            "free some; or add a nodeSelector for another model, by the label nvidia.com/gpu.product for example",
            id="a model that is not limited, where none has room",
        ),
        pytest.param(
            [GPUS, H100, T4],
            [excess(GPUS, 4, 8), excess(H100, 4, 2)],
            "(2 free); free some",
            id="none, where no model would help",
        ),
    ],
)
def test_a_pod_that_says_no_model_hears_of_a_selector_that_would_help(limits, excesses, said):
    assert exceeded(quota(*limits), excesses, [], is_unspecified=True).endswith(said)


@given(
    st.fractions(min_value="1/7", max_value=64, max_denominator=56),
    st.fractions(min_value=0, max_value=64, max_denominator=56),
    st.fractions(min_value=0, max_value=64, max_denominator=56),
)
def test_what_a_pod_is_told_to_ask_for_is_less_than_it_asked_and_would_fit(asks, used, hard):
    limit = Limit(Measure.GPUS, "", hard)
    if used + asks <= hard:
        return
    text = exceeded(quota(limit), [Excess(limit, asks, used)], [])
    _, _, advised = text.rpartition(" or request ")
    if advised != text:
        amount = sum(Fraction(part) for part in advised.split(" "))
        assert 0 < amount < asks
        assert used + amount <= hard
