"""Durations are texts of hours, minutes and seconds."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import golden
from webhook.model.quantity import format_duration, parse_duration


@golden
def test_a_duration_has_seconds_and_one_text(text, seconds, shown):
    assert parse_duration(text) == seconds
    assert format_duration(seconds) == shown


@pytest.mark.parametrize(
    "text", ["", "h", "8", "8 h", "8H", "1.5h", "-1h", "30m1h", "1h2h", "1d", "PT8H", "8h\n", "٨h", "1" * 11 + "h"]
)
def test_other_texts_are_none(text):
    with pytest.raises(ValueError, match=f"^{re.escape(chr(34) + text + chr(34))} is not a duration$"):
        parse_duration(text)


@given(st.integers(0, 2**40))
def test_what_is_shown_can_be_read_again(seconds):
    assert parse_duration(format_duration(seconds)) == seconds
