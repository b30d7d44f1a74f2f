"""When exceptions hold: ends of days, windows of the week, changes of clocks, and clocks that are wrong."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import golden
from webhook.model.shape import FormatError
from webhook.policy.exception_times import (
    DAY_SECONDS,
    Period,
    Weekly,
    read_clock,
    read_day,
    read_instant,
    read_zone,
    told,
)

BERLIN = "Europe/Berlin"


def at(text: str, zone: str = "UTC", fold: int = 0) -> float:
    """Seconds since 1970 of a local time."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def weekly(days: str, begin: str, to: str, zone: str = BERLIN) -> Weekly:
    return Weekly(frozenset(map(read_day, days.split())), read_clock(begin), read_clock(to), zone)


def test_a_day_ends_at_its_end_in_utc_and_begins_at_its_beginning() -> None:
    day = read_instant("2027-01-15")
    assert (day.begins, day.ends, day.text) == (at("2027-01-15T00:00"), at("2027-01-16T00:00"), "2027-01-15")


@golden
def test_a_time_is_read_with_its_zone(written: str, text: str) -> None:
    found = read_instant(written)
    assert (found.text, found.begins) == (text, found.ends)
    assert told(found.ends) == text


@golden
def test_anything_else_is_told(written: str, fault: str) -> None:
    with pytest.raises(FormatError, match=fault):
        read_instant(written)


@pytest.mark.parametrize(
    ("read", "written", "fault"),
    [
        (read_clock, "8:00", "is no time of day"),
        (read_clock, "24:01", "is no time of day"),
        (read_clock, "12:60", "is no time of day"),
        (read_day, "Caturday", "days are Mon, Tue, Wed, Thu, Fri, Sat, Sun"),
        (read_day, "sundey", "did you mean Sun?"),
        (read_zone, "Europe/Berln", "did you mean Europe/Berlin?"),
        (read_zone, "europe/berlin ", "no time zone"),
        (read_zone, "Europe", "no time zone"),
        (read_zone, "../../etc/passwd", "no time zone"),
        (read_zone, "/etc/localtime", "no time zone"),
        (read_zone, "", "no time zone"),
    ],
)
def test_faulty_windows_are_told_with_the_nearest(read, written: str, fault: str) -> None:
    with pytest.raises(FormatError, match=fault.replace("?", r"\?")):
        read(written)


@golden
def test_a_window_past_midnight_belongs_to_the_day_on_which_it_begins(now: str, until: str | None) -> None:
    friday_night = weekly("Fri", "20:00", "06:00")
    assert friday_night.until(at(now, BERLIN)) == (None if until is None else at(until, BERLIN))


def test_where_clocks_are_set_forward_a_window_begins_as_many_minutes_after_the_change() -> None:
    """On 2027-03-28 in Berlin, 02:00 is followed by 03:00."""
    found = weekly("Sun", "02:30", "05:00")
    assert found.until(at("2027-03-28T01:29", "UTC")) is None
    assert found.until(at("2027-03-28T01:30", "UTC")) == at("2027-03-28T03:00", "UTC")


def test_a_window_that_clocks_leap_over_is_left_out() -> None:
    found = weekly("Sun", "02:30", "03:15")
    assert all(found.until(at("2027-03-28T00:00", "UTC") + minute * 60) is None for minute in range(24 * 60))


def test_where_clocks_are_set_back_the_first_of_two_times_counts() -> None:
    """On 2026-10-25 in Berlin, 03:00 is followed by 02:00."""
    found = weekly("Sun", "02:15", "02:45")
    assert found.until(at("2026-10-25T02:20", BERLIN, fold=0)) == at("2026-10-25T02:45", BERLIN, fold=0)
    assert found.until(at("2026-10-25T02:20", BERLIN, fold=1)) is None


@given(
    st.sets(st.integers(0, 6), min_size=1),
    st.integers(0, 1439),
    st.integers(0, 1440),
    st.sampled_from([BERLIN, "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"]),
    st.integers(1_790_000_000, 1_830_000_000),
)
def test_a_window_holds_until_its_end_and_not_at_it(days, begin: int, to: int, zone: str, now: int) -> None:
    """The time that is told is the first at which the window does not hold."""
    found = Weekly(frozenset(days), begin, to, zone)
    end = found.until(now)
    if end is not None:
        assert end > now
        assert found.until(end - 1) is not None
        assert found.until(end) != end


def test_a_period_is_told_by_the_nearer_of_its_ends() -> None:
    window = weekly("Fri", "20:00", "06:00", "UTC")
    period = Period(at("2026-12-01T00:00"), at("2026-12-11T22:00"), "2026-12-11T22:00Z", window)
    assert period.until(at("2026-11-27T21:00")) == ""
    assert period.until(at("2026-12-04T21:00")) == "2026-12-05T06:00Z"
    assert period.until(at("2026-12-11T21:00")) == "2026-12-11T22:00Z"
    assert period.until(at("2026-12-11T22:00")) == ""


def test_a_clock_that_is_far_behind_honours_nothing() -> None:
    period = Period(float("-inf"), at("2026-12-01T00:00"), "2026-11-30", most_ahead=90 * DAY_SECONDS)
    assert period.until(0.0) == ""
    assert period.until(at("2026-09-02T00:00") - 1) == ""
    assert period.until(at("2026-09-02T00:00")) == "2026-11-30"
