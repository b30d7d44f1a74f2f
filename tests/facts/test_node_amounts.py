"""Sets of nodes by how much they have, against looking at every node."""

import gc
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import checked, examples
from webhook.facts.node_sets import NO_AMOUNTS, AmountColumn, mask_of

FEW = st.none() | st.integers(0, 3)
MANY = st.none() | st.integers(0, 10**12)
AMOUNTS = st.lists(FEW, max_size=150) | st.lists(MANY, max_size=150) | st.lists(FEW | MANY, min_size=60, max_size=150)


@settings(checked, max_examples=examples(60))
@given(amounts=AMOUNTS, asked=st.data())
def test_those_with_at_least_so_much_are_those_that_have_it_or_might(amounts, asked):
    column = AmountColumn(amounts, len(amounts))
    near = st.sampled_from([amount for amount in amounts if amount is not None] or [0])
    for wanted in asked.draw(st.lists(near | near.map(lambda amount: amount + 1) | MANY.filter(bool), max_size=5)):
        expected = {place for place, amount in enumerate(amounts) if amount is None or amount >= wanted}
        assert mask_of(expected, len(amounts)) == column.at_least(wanted)


@settings(checked, max_examples=examples(60))
@given(amounts=AMOUNTS, asked=st.data())
def test_the_most_is_that_of_the_nodes_that_are_asked_about(amounts, asked):
    column = AmountColumn(amounts, len(amounts))
    for among in asked.draw(st.lists(st.integers(0, (1 << len(amounts)) - 1), max_size=5)):
        chosen = [amount for place, amount in enumerate(amounts) if among >> place & 1]
        expected = None if None in chosen else max(chosen, default=0)
        assert expected == column.largest(among)


def test_a_resource_that_no_node_has_is_enough_for_no_pod():
    assert (NO_AMOUNTS.at_least(1), NO_AMOUNTS.largest(0b111)) == (0, 0)


@pytest.mark.parametrize(
    "amounts",
    [
        pytest.param([96_000] * 5000, id="equal amounts"),
        pytest.param([place * 1024 for place in range(5000)], id="each another"),
    ],
)
def test_an_index_of_5000_nodes_takes_less_than_a_quarter_of_a_mebibyte(amounts):
    gc.collect()
    tracemalloc.start()
    try:
        column = AmountColumn(amounts, len(amounts))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 2**18
    finally:
        tracemalloc.stop()
    assert column.at_least(1)
