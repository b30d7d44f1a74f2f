"""Whether node selector expressions imply or contradict each other, compared with trying every label value."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each
from tests.strategies import checked
from webhook.model.selectors import Expression, Term, as_integer, contradicts, implies

VALUES = ("a", "b", "5", "6", "06", "7")
WORLD = (None, "", "c", "0", "05", "8", "-1", "100", "+6", *VALUES)
"""Label values to try; None is a node without the label. 06 and +6 are 6 to Gt and Lt and other values to In."""

EXPRESSIONS = st.one_of(
    st.builds(
        Expression,
        st.just("k"),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(VALUES), max_size=3).map(tuple),
    ),
    st.builds(Expression, st.just("k"), st.sampled_from(["Exists", "DoesNotExist"]), st.just(())),
    st.builds(
        Expression,
        st.just("k"),
        st.sampled_from(["Gt", "Lt"]),
        st.lists(st.sampled_from((*VALUES, "4", "8")), max_size=2).map(tuple),
    ),
    st.builds(Expression, st.just("k"), st.just("Near"), st.just(("a",))),
    st.builds(Expression, st.just("other"), st.just("In"), st.just(("a",))),
)


def satisfying(expressions):
    return [
        (value, other)
        for value, other in product(WORLD, (None, "a", "b"))
        if all(e.accepts(value if e.key == "k" else other) for e in expressions)
    ]


WELL_FORMED = EXPRESSIONS.filter(
    lambda e: (
        e.operator != "Near"
        and not (e.operator in ("In", "NotIn") and not e.values)
        and not (e.operator in ("Gt", "Lt") and e.bound is None)
    )
)


@checked
@given(st.lists(WELL_FORMED, max_size=3), WELL_FORMED)
def test_implies_and_contradicts_find_everything_there_is_to_find(stated, wanted):
    """Complete: of expressions that some node satisfies, on the label in question, all is known."""
    stated = [expression for expression in stated if expression.key == wanted.key]
    if satisfying(stated):
        together = satisfying([*stated, wanted])
        assert implies(stated, wanted) == (set(satisfying(stated)) == set(together) and bool(stated))
        assert bool(contradicts(stated, wanted)) == (not together and bool(stated))


def e(operator, *values, key="k"):
    return Expression(key, operator, values)


@each(
    "stated, wanted, expected",
    {
        "a subset": ([e("In", "a")], e("In", "a", "b"), True),
        "a superset": ([e("In", "a", "b")], e("In", "a"), False),
        "two expressions together": ([e("In", "a", "b"), e("NotIn", "b")], e("In", "a"), True),
        "a value exists": ([e("In", "a")], e("Exists"), True),
        "NotIn matches a node without the label": ([e("NotIn", "a")], e("Exists"), False),
        "no label has no value": ([e("DoesNotExist")], e("NotIn", "a"), True),
        "fewer exclusions": ([e("NotIn", "a", "b")], e("NotIn", "a"), True),
        "exclusions add up": ([e("NotIn", "a"), e("NotIn", "b")], e("NotIn", "b", "a"), True),
        "a tighter lower bound": ([e("Gt", "5")], e("Gt", "4"), True),
        "an equal bound in another spelling": ([e("Gt", "5")], e("Gt", "05"), True),
        "a looser lower bound": ([e("Gt", "5")], e("Gt", "6"), False),
        "a bound needs a label": ([e("Lt", "5")], e("Exists"), True),
        "06 lies between too": ([e("Gt", "5"), e("Lt", "7")], e("In", "6"), False),
        "a value within the bound": ([e("In", "6")], e("Gt", "5"), True),
        "a value that is no number": ([e("In", "x")], e("Gt", "5"), False),
        "nothing is certain about a label without expressions": ([], e("NotIn"), False),
        "another label": ([e("In", "a", key="other")], e("In", "a"), False),
    },
)
def test_worked_examples_of_what_follows(stated, wanted, expected):
    assert implies(stated, wanted) is expected


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        ("-5", -5),
        ("+5", 5),
        ("007", 7),
        ("0" * 40 + "7", 7),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        (str(-(2**63)), -(2**63)),
        (str(-(2**63) - 1), None),
        ("", None),
        (" 5", None),
        ("5 ", None),
        ("5.0", None),
        ("5_0", None),
        ("0x5", None),
        ("\u0665", None),
        ("9" * 3_000_000, None),
        (None, None),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_integers_are_those_of_strconv_parseint(text, number):
    assert as_integer(text) == number


@pytest.mark.parametrize(
    ("expression", "shown"),
    [(e("In", "a", "b"), "k In [a, b]"), (e("Exists"), "k Exists"), (e("Gt", "5"), "k Gt [5]"), (e("In"), "k In []")],
    ids=str,
)
def test_an_expression_reads_as_people_write_it(expression, shown):
    assert str(expression) == shown


@pytest.mark.parametrize(
    ("term", "nothing"),
    [(Term(), True), (Term((e("Exists"),)), False), (Term((), (e("In", "n1", key="metadata.name"),)), False)],
    ids=["empty", "an expression", "a field only"],
)
def test_a_term_that_says_nothing_matches_nothing(term, nothing):
    assert term.matches_nothing is nothing
