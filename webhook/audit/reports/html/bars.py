"""Bars made of segments, as the percentages that SVG wants."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from webhook.audit.quota_report import LimitUsage

_NARROWEST = Fraction(6, 1000)
"""Of a segment that stands for something: however little it is, it can be seen."""
_NEARLY_FULL = Fraction(9, 10)


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar: what it stands for, and where it begins and how wide it is, in percent of the bar."""

    style: str
    start: str
    width: str


Bar = tuple[Segment, ...]


def bar(amounts: Iterable[tuple[str, int | Fraction]], whole: int | Fraction) -> Bar:
    """Segments side by side; the bar is full where the amounts come to `whole`."""
    segments = []
    start = Fraction(0)
    for style, amount in amounts:
        if amount <= 0 or whole <= 0 or start >= 1:
            continue
        width = min(max(Fraction(amount) / whole, _NARROWEST), 1 - start)
        segments.append(Segment(style, _percent(start), _percent(width)))
        start += width
    return tuple(segments)


def quota_bar(part: LimitUsage) -> Bar:
    """What is used of a limit. Where it is more than that, the limit is where the second segment begins."""
    share = part.share
    if share is None:
        return ()
    if share > 1:
        return bar((("full", 1), ("over", share - 1)), share)
    return bar(((quota_style(part), share),), 1)


def quota_style(part: LimitUsage) -> str:
    """How full a limit is, in a word: `over`, `full`, `near`, `some`, or `unknown`."""
    share = part.share
    if share is None:
        return "unknown"
    if share >= 1:
        return "over" if part.rest.endswith("over") else "full"
    return "near" if share >= _NEARLY_FULL else "some"


def _percent(share: Fraction) -> str:
    return f"{float(share * 100):.3f}%"
