"""Globs over any text, such as image references."""

import time
from fnmatch import fnmatchcase
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.golden import golden
from webhook.model.globs import closest, matcher, overlap

LONGEST = 100_000
TEXTS = ["".join(letters) for length in range(7) for letters in product("ab", repeat=length)]
GLOBS = st.text("ab*?", max_size=3)


@given(st.text("ab:/-*?.\n\\", max_size=8), st.text("ab:/-.\n\\", max_size=10))
def test_a_glob_matches_as_in_the_shell(pattern: str, text: str) -> None:
    assert bool(matcher(pattern).fullmatch(text)) == fnmatchcase(text, pattern)


@golden
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


@golden
def test_the_pattern_that_says_most_is_closest(patterns: tuple[str, ...], expected: str | None) -> None:
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
    assert bool(matcher(pattern, in_parts=True).fullmatch(text)) == matches_slowly(pattern, text)


@golden
def test_globs_in_parts(pattern: str, text: str, matches: bool) -> None:
    assert matches == bool(matcher(pattern, in_parts=True).fullmatch(text))


@pytest.mark.parametrize("pattern", ["*a" * 100 + "b", "**a" * 100 + "b", "**a*a" * 100 + "b", "**/*?a" * 80 + "b"])
def test_a_pattern_in_parts_of_many_stars_gives_up_on_a_hostile_reference(pattern: str) -> None:
    start = time.process_time()
    assert matcher(pattern, in_parts=True).fullmatch("a" * 520) is None
    assert matcher(pattern, in_parts=True).fullmatch("a/" * 260) is None
    assert time.process_time() - start < 1
