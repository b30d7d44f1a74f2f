"""Versions, number by number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import golden
from tests.strategies import checked
from webhook.model.shape import FormatError
from webhook.model.versions import Version, parse_version

NUMBERS = st.integers(0, 12)
VERSIONS = st.lists(NUMBERS, min_size=1, max_size=4).map(lambda numbers: Version(tuple(numbers)))


@pytest.mark.parametrize(
    ("text", "parts"),
    [("12", (12,)), ("12.4", (12, 4)), ("535.54.03", (535, 54, 3)), ("13.0.2.006", (13, 0, 2, 6)), ("0.0", (0, 0))],
)
def test_a_version_is_read_as_numbers_and_printed_as_it_was_written(text, parts):
    version = parse_version(text)
    assert version.parts == parts
    assert str(version) == text


NO_VERSIONS = [
    "",
    "12.",
    ".12",
    "12..4",
    "v12.4",
    " 12.4",
    "12.4\n",
    "12,4",
    "-1.0",
    "١٢.٤",
    "1.2.3.4.5.6.7",
    12.4,
    None,
]


@pytest.mark.parametrize("value", [*NO_VERSIONS, "1" * 10, "1." * 100_000 + "1"], ids=lambda value: repr(value)[:20])
def test_what_is_no_version_is_refused_with_what_was_found(value):
    with pytest.raises(FormatError, match="is not a version; write numbers with dots") as caught:
        parse_version(value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(("one", "other"), [("12.4", "12.4.0"), ("535.54.03", "535.54.3")])
def test_versions_that_differ_in_writing_only_are_each_at_least_the_other(one, other):
    assert parse_version(one).at_least(parse_version(other))
    assert parse_version(other).at_least(parse_version(one))


@golden
def test_part_of_a_version_reaches_a_bound_where_what_is_missing_does_not_matter(known, bound, answer):
    assert parse_version(known).reaches(parse_version(bound)) is answer


@checked
@given(VERSIONS, VERSIONS, VERSIONS)
def test_versions_are_in_one_order(a, b, c):
    assert a.at_least(b) or b.at_least(a)
    assert (a < b) == (not a.at_least(b))
    if a.at_least(b) and b.at_least(c):
        assert a.at_least(c)


@checked
@given(VERSIONS, VERSIONS)
def test_part_of_a_version_leaves_open_only_what_depends_on_the_rest(part, bound):
    if part.reaches(bound) is None:
        assert not part.at_least(bound)
        assert Version(part.parts + bound.parts[len(part.parts) :]).at_least(bound)


@checked
@given(st.text(alphabet="0123456789.vx-", max_size=20))
def test_any_text_is_a_version_that_prints_as_it_or_is_refused(text):
    try:
        found = str(parse_version(text))
    except FormatError as error:
        found = str(error).split('"')[1]
    assert found == text
