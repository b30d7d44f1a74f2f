"""Names and globs of namespaces."""

from fnmatch import fnmatchcase
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import examples
from webhook.policy.namespaces import fault_in, overlap

NAMES = [
    name
    for length in range(1, 7)
    for name in map("".join, product("abx-", repeat=length))
    if not name.startswith("-") and not name.endswith("-")
]
"""Every name of up to six of these characters; two patterns of three have a common name among them or none at all."""

patterns = st.text("ab-*?", min_size=1, max_size=3)


@settings(max_examples=examples(150))
@given(patterns, patterns)
def test_two_globs_overlap_exactly_when_some_name_matches_both(one: str, other: str) -> None:
    common = [name for name in NAMES if fnmatchcase(name, one) and fnmatchcase(name, other)]
    witness = overlap(one, other)
    assert (witness is not None) == bool(common)
    if witness is not None:
        assert fnmatchcase(witness, one)
        assert fnmatchcase(witness, other)
        assert len(witness) == len(common[0])


@pytest.mark.parametrize(
    ("one", "other", "witness"),
    [
        pytest.param("vision-*", "*-batch", "vision-batch", id="prefix and suffix"),
        pytest.param("a-*", "b-*", None, id="different prefixes"),
        pytest.param("?a", "a?", "aa", id="question marks"),
        pytest.param("a?", "a-", None, id="a name cannot end in a dash"),
        pytest.param("a" * 62 + "?*", "*" + "b" * 63, None, id="a common name would be too long"),
        pytest.param("a*b*c", "a*d*c", "adbc", id="inner texts in any order"),
        pytest.param("a*bc", "a*cc", None, id="different suffixes"),
    ],
)
def test_a_common_name_is_given_as_a_witness(one: str, other: str, witness: str | None) -> None:
    assert witness == overlap(one, other)
    assert (witness is None) == (overlap(other, one) is None)


@pytest.mark.parametrize("pattern", ["a", "team-a", "9", "a" * 63, "*", "?", "team-*", "*-gpu", "a?c", "?" * 63])
def test_names_and_globs_that_can_be_namespaces_are_accepted(pattern: str) -> None:
    assert fault_in(pattern) == ""


@pytest.mark.parametrize(
    "pattern", ["", "Team", "a_b", "-a", "a-", "a.b", "a" * 64, "[ab]*", "{a,b}", "a*-", "-*", "?" * 64, "a b", "a\n"]
)
def test_what_cannot_be_a_namespace_is_refused(pattern: str) -> None:
    assert "cannot be a namespace" in fault_in(pattern)
