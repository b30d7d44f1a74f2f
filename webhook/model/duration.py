"""Durations as people write them, such as 8h, 90m or 1h30m: hours, minutes and seconds, each at most once."""

import re

from webhook.model.shape import spelled

_SYNTAX = re.compile(r"(?=.)(?:([0-9]{1,10})h)?(?:([0-9]{1,10})m)?(?:([0-9]{1,10})s)?")
_UNITS = ((3600, "h"), (60, "m"), (1, "s"))


def parse_duration(text: str) -> int:
    """Seconds. Raises ValueError for any other text.

    >>> parse_duration("1h30m"), parse_duration("90m"), parse_duration("45s")
    (5400, 5400, 45)
    """
    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise ValueError(f"{spelled(text)} is not a duration")
    return sum(int(number) * scale for number, (scale, _) in zip(match.groups("0"), _UNITS, strict=True))


def format_duration(seconds: int) -> str:
    """Seconds, none or more, as the shortest such text.

    >>> format_duration(43200), format_duration(5400), format_duration(3601), format_duration(0)
    ('12h', '1h30m', '1h1s', '0s')
    """
    words = []
    rest = seconds
    for scale, unit in _UNITS:
        number, rest = divmod(rest, scale)
        if number:
            words.append(f"{number}{unit}")
    return "".join(words) or "0s"
