"""Globs over any text, such as image references."""

import time
from fnmatch import fnmatchcase
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhook.model.globs import closest, glob_tester, matcher, overlap

LONGEST = 100_000
TEXTS = ["".join(letters) for length in range(7) for letters in product("ab", repeat=length)]
GLOBS = st.text("ab*?", max_size=3)


@given(st.text("ab:/-*?.\n\\", max_size=8), st.text("ab:/-.\n\\", max_size=10))
def test_a_glob_matches_as_in_the_shell(pattern: str, text: str) -> None:
    assert bool(matcher(pattern).fullmatch(text)) == fnmatchcase(text, pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        pytest.param("registry.corp/ml/*:*-cu124", "registry.corp/ml/a/b:7-cu124", True, id="a star takes slashes"),
        pytest.param("registry.corp/ml/*:*-cu124", "registry.corp/ml/a:cu124", False, id="what stands between counts"),
        pytest.param("registry.corp/*", "registryxcorp/a", False, id="a dot is a dot"),
        pytest.param("*/app:v?", "registry.corp:5000/team/app:v7", True, id="a question mark is one character"),
        pytest.param("a[bc]", "ab", False, id="brackets are no classes"),
        pytest.param("a[bc]", "a[bc]", True, id="brackets are brackets"),
        pytest.param("*", "", True, id="a star takes nothing"),
        pytest.param("a*a", "a", False, id="no character counts twice"),
        pytest.param("*ab*b", "abb", True, id="the text between stars may stand anywhere"),
    ],
)
def test_only_stars_and_question_marks_are_special(pattern: str, text: str, matches: bool) -> None:
    assert matches == bool(matcher(pattern).fullmatch(text))


@pytest.mark.parametrize(
    "pattern",
    ["*a" * 100 + "b", "a*" * 100 + "b", "*?a" * 100 + "b", "*" * 1000 + "b"],
    ids=["star and letter", "letter and star", "star and any", "stars alone"],
)
def test_a_pattern_of_many_stars_gives_up_on_a_hostile_text(pattern: str) -> None:
    """With backtracking this would take longer than anybody waits."""
    assert matcher(pattern).fullmatch("a" * LONGEST) is None


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        pytest.param(["*", "r/*", "r/a:1"], "r/a:1", id="the text itself first"),
        pytest.param(["r/????", "r/a:1"], "r/a:1", id="the text itself beats a longer glob"),
        pytest.param(["*", "r/*:1", "r/*"], "r/*:1", id="then the longest"),
        pytest.param(["r/*1", "*/a:", "?/*1"], "?/*1", id="of equal ones the first in the alphabet"),
        pytest.param(["r/b*"], None, id="none matches"),
        pytest.param([], None, id="there is none"),
    ],
)
def test_the_pattern_that_says_most_is_closest(patterns: list[str], expected: str | None) -> None:
    assert expected == closest(patterns, "r/a:1")
    assert expected == closest(reversed(patterns), "r/a:1")


@given(GLOBS, GLOBS)
def test_globs_overlap_where_some_text_matches_both(one: str, other: str) -> None:
    """Globs of three characters each that overlap do so in a text of at most six."""
    found = any(matcher(one).fullmatch(text) and matcher(other).fullmatch(text) for text in TEXTS)
    assert overlap(one, other) == found


def matches_slowly(pattern: str, text: str) -> bool:
    """Whether a glob in parts matches, by trying every run."""
    if not pattern:
        return not text
    if pattern.startswith("**"):
        rest = pattern.lstrip("*")
        return any(matches_slowly(rest, text[start:]) for start in range(len(text) + 1))
    if pattern.startswith("*"):
        longest = len(text.split("/", 1)[0])
        return any(matches_slowly(pattern[1:], text[start:]) for start in range(longest + 1))
    first = text[:1]
    return (
        bool(first)
        and (first == pattern[0] or (pattern[0] == "?" != first and first != "/"))
        and matches_slowly(pattern[1:], text[1:])
    )


@settings(max_examples=1_000)
@given(st.text("ab/*?", max_size=9), st.text("ab/", max_size=9))
def test_in_parts_a_star_stays_between_slashes_and_two_stars_do_not(pattern: str, text: str) -> None:
    assert bool(glob_tester(pattern, in_parts=True)(text)) == matches_slowly(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        pytest.param("registry.corp/ml/*", "registry.corp/ml/app:1", True, id="one part"),
        pytest.param("registry.corp/ml/*", "registry.corp/ml/other/app:1", False, id="two parts"),
        pytest.param("registry.corp/ml/**", "registry.corp/ml/other/app:1", True, id="any number of parts"),
        pytest.param("registry.corp/*/app:*", "registry.corp/ml/app:1", True, id="a part between"),
        pytest.param("**/app:1", "registry.corp:5000/ml/app:1", True, id="whatever comes before"),
        pytest.param("registry.corp/ml?app", "registry.corp/ml/app", False, id="a question mark is no slash"),
        pytest.param("**a*b**bc", "abbc", True, id="a run ends as early as it can"),
    ],
)
def test_globs_in_parts(pattern: str, text: str, matches: bool) -> None:
    assert matches == bool(glob_tester(pattern, in_parts=True)(text))


@pytest.mark.parametrize("pattern", ["*a" * 100 + "b", "**a" * 100 + "b", "**a*a" * 100 + "b", "**/*?a" * 80 + "b"])
def test_a_pattern_in_parts_of_many_stars_gives_up_on_a_hostile_reference(pattern: str) -> None:
    start = time.process_time()
    assert glob_tester(pattern, in_parts=True)("a" * 520) is None
    assert glob_tester(pattern, in_parts=True)("a/" * 260) is None
    assert time.process_time() - start < 1
