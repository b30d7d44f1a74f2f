"""When an exception holds: from its beginning to its end, and within that in windows of the week.

Windows are in local time. Where clocks are set forward, a time that does not exist is as many minutes after the change
as it would be without it; where they are set back, a time that exists twice is the first of the two (RFC 5545). A
window that is empty by this on some day is left out on that day.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from webhook.model.shape import FormatError, spelled
from webhook.model.wording import hint

DAY_SECONDS = 86_400
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MINUTES_OF_A_DAY = 24 * 60

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2})?\s?([Zz]|[+-][0-9]{2}:[0-9]{2})?")
_COMPACT = re.compile(r"(.{10})[T ](.+?)\s?(Z|[+-].+)")
_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2})")
_LAST_YEAR = 9000
"""Years up to which time zones can be added without an overflow."""
_NO_ZONES = frozenset({"Factory", "localtime", "posixrules"})
"""Files beside the zones of a database. What they say differs from machine to machine."""
_SUCH_AS = 'a day such as "2027-01-15", or a time with zone such as "2027-01-15T18:00:00Z"'


@dataclass(frozen=True, slots=True)
class Instant:
    """A day or time as it stands in a file: the seconds since 1970 at which it begins, and at which it has passed.

    Both are the same for a time; a day is one of UTC. `text` is how messages name it.
    """

    begins: float
    ends: float
    text: str


def read_instant(written: str) -> Instant:
    """Read a day, or a time with its zone. Raises FormatError.

    >>> read_instant("2027-01-15").ends - read_instant("2027-01-15T00:00Z").ends
    86400.0
    >>> read_instant("2027-01-15T18:00+01:00").text
    '2027-01-15T17:00Z'
    """
    text = written.strip()
    found = _TIME.fullmatch(text)
    is_day = _DATE.fullmatch(text) is not None
    if found is None and not is_day:
        raise FormatError(f"{spelled(written)} is no day and no time; write {_SUCH_AS}")
    if found is not None and found[2] is None:
        raise FormatError(f'{spelled(written)} says no time zone; write one, such as "{text}Z" for UTC, or a day alone')
    try:
        moment = datetime.fromisoformat(f"{text}T00:00Z" if is_day else _COMPACT.sub(r"\1T\2\3", text.upper()))
    except ValueError:
        raise FormatError(f"{spelled(written)} is not in the calendar; write {_SUCH_AS}") from None
    if not 1970 < moment.year < _LAST_YEAR:
        raise FormatError(f"the year {moment.year} is out of range; write {_SUCH_AS}")
    begins = moment.timestamp()
    return Instant(begins, begins + DAY_SECONDS, text) if is_day else Instant(begins, begins, told(begins))


def told(seconds: float) -> str:
    """A time in messages: to the minute, or to the second if it has seconds.

    >>> told(0), told(61)
    ('1970-01-01T00:00Z', '1970-01-01T00:01:01Z')
    """
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}" if moment.second else f"{moment:%Y-%m-%dT%H:%MZ}"


def read_clock(written: str) -> int:
    """The minute of the day of a time such as 20:00; 24:00 is the end of the day. Raises FormatError."""
    found = _CLOCK.fullmatch(written.strip())
    minute = int(found[1]) * 60 + int(found[2]) if found is not None and int(found[2]) < 60 else -1
    if not 0 <= minute <= _MINUTES_OF_A_DAY:
        raise FormatError(f'{spelled(written)} is no time of day; write hours and minutes from "00:00" to "24:00"')
    return minute


def read_day(written: str) -> int:
    """The number of a day of the week, 0 for Monday. Raises FormatError.

    >>> read_day("Sun"), read_day("monday")
    (6, 0)
    """
    low = written.strip().lower()
    for number, day in enumerate(_LONG_DAYS):
        if low in (day, day[:3]):
            return number
    meant = hint(written, DAYS) or hint(low, _LONG_DAYS)
    raise FormatError(f"{spelled(written)} is no day of the week; days are {', '.join(DAYS)}{meant}")


_LONG_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def read_zone(written: str) -> str:
    """The name of a time zone, unchanged. Raises FormatError for a zone that is not known here."""
    try:
        _zone(written)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = sorted(available_timezones())
        meant = hint(written, known) or hint(written.lower().replace(" ", "_"), [one.lower() for one in known])
        raise FormatError(
            f"{spelled(written)} is no time zone that is known here; write one such as Europe/Berlin or UTC{meant}"
        ) from None
    return written


@lru_cache(maxsize=1024)
def _zone(name: str) -> ZoneInfo:
    if not name.strip() or name in _NO_ZONES or name.startswith(("posix/", "right/")):
        raise ValueError(name)
    return ZoneInfo(name)


@dataclass(frozen=True, slots=True)
class Weekly:
    """Windows of a week in a time zone: on each of `days`, from one minute of the day to another.

    `days` are numbers, 0 for Monday. If `to` is not after `begin`, a window ends on the next day.
    """

    days: frozenset[int]
    begin: int
    to: int
    zone: str

    def until(self, now: float) -> float | None:
        """The end of the window at `now`; None between windows."""
        today = datetime.fromtimestamp(now, _zone(self.zone)).date()
        stop = self.to if self.to > self.begin else self.to + _MINUTES_OF_A_DAY  # of the next day
        for day in (today - timedelta(days=1), today):
            if day.weekday() in self.days and self._at(day, self.begin) <= now < (end := self._at(day, stop)):
                return end
        return None

    def _at(self, day: date, minute: int) -> float:
        days, minute = divmod(minute, _MINUTES_OF_A_DAY)
        clock = time(minute // 60, minute % 60)
        return datetime.combine(day + timedelta(days=days), clock, _zone(self.zone)).timestamp()


@dataclass(frozen=True, slots=True)
class Period:
    """The time of an exception, in seconds since 1970: `begins` is in it, `ends` is not.

    `most_ahead` is how many seconds before its end it holds at most, so that a clock far behind honours nothing.
    """

    begins: float
    ends: float
    text: str
    """The end as messages name it."""
    weekly: Weekly | None = None
    most_ahead: float = float("inf")

    def until(self, now: float) -> str:
        """Until when it holds, for messages; empty if it does not hold at `now`."""
        if not self.begins <= now < self.ends or self.ends - now > self.most_ahead:
            return ""
        if self.weekly is None:
            return self.text
        end = self.weekly.until(now)
        return "" if end is None else self.text if end >= self.ends else told(end)
