"""When one toleration makes another superfluous, against trying every taint."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import golden
from tests.strategies import checked
from webhook.model.node import Taint, Toleration, distinct, toleration_from_raw

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TAINTS = [Taint(*parts) for parts in product(("k", "l", "z"), ("", "v", "w"), EFFECTS)]
TOLERATIONS = st.builds(
    Toleration,
    st.sampled_from(["", "k", "l"]),
    st.sampled_from(["Equal", "Exists", "Near"]),
    st.sampled_from(["", "v", "w"]),
    st.sampled_from(["", "NoSchedule", "PreferNoSchedule", "NoExecute"]),
    st.sampled_from([None, None, 0, 300]),
)


def tolerated(toleration):
    return {taint for taint in TAINTS if toleration.tolerates(taint)}


@checked
@given(TOLERATIONS, TOLERATIONS)
def test_what_covers_another_tolerates_all_it_does_for_at_least_as_long(one, other):
    if one.covers(other):
        assert tolerated(one) >= tolerated(other)
        assert one.seconds is None or (other.seconds is not None and one.seconds >= other.seconds)


VALID = TOLERATIONS.filter(
    lambda t: t.operator != "Near" and (t.operator == "Exists" or t.key) and not (t.operator == "Exists" and t.value)
)


@checked
@given(VALID, VALID)
def test_nothing_that_covers_is_missed(one, other):
    longer = one.seconds is None or (other.seconds is not None and one.seconds >= other.seconds)
    assert one.covers(other) == (tolerated(one) >= tolerated(other) and longer)


@pytest.mark.parametrize(
    ("toleration", "raw"),
    [
        (
            Toleration("k", "Exists", "", "NoExecute", 300),
            {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        ),
        (Toleration("k", "Equal", "v"), {"key": "k", "operator": "Equal", "value": "v"}),
        (Toleration("", "Exists"), {"operator": "Exists"}),
    ],
    ids=["with seconds", "equal", "everything"],
)
def test_a_toleration_is_written_as_it_is_read(toleration, raw):
    assert toleration.to_raw() == raw
    assert toleration_from_raw(raw) == toleration


@golden
def test_a_taint_with_a_number_is_compared_with_that_of_the_toleration(operator, value, taint, tolerates):
    toleration = toleration_from_raw({"key": "sla", "operator": operator, "value": value})
    assert toleration.tolerates(Taint("sla", taint, "NoSchedule")) == tolerates
    assert toleration_from_raw(toleration.to_raw()) == toleration


NUMBERS = [Taint(key, value, effect) for key, value, effect in product(("k", "l"), ("", "1", "2", "9", "v"), EFFECTS)]
COMPARED = st.builds(
    Toleration,
    st.sampled_from(["", "k", "l"]),
    st.sampled_from(["Equal", "Exists", "Gt", "Lt"]),
    st.sampled_from(["", "0", "1", "2", "5", "v"]),
    st.sampled_from(["", *EFFECTS]),
    st.sampled_from([None, 300]),
)


@checked
@given(st.lists(COMPARED))
def test_distinct_tolerations_tolerate_as_much_as_all_of_them(tolerations):
    def open_to(some):
        return {taint for taint in NUMBERS if any(one.tolerates(taint) for one in some)}

    assert open_to(tolerations) == open_to(distinct(tolerations))
