"""What the policies of an audit change against others, as the page lists it."""

from dataclasses import dataclass

from webhook.audit.report import ChangedInjection, Comparison
from webhook.audit.reports.html.rows import Row, pods, rows
from webhook.audit.reports.report_wording import home, place

MOST_SHOWN = 200
"""Entries of a list that the page spells out; the other formats have all of them."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A workload or pod that gets something else than before."""

    namespace: str
    kind: str
    name: str
    pods: str
    source: str
    lost: tuple[str, ...]
    gained: tuple[str, ...]
    kept: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """A comparison with at most MOST_SHOWN entries in each list; the numbers are those of all."""

    comparison: Comparison
    newly: int
    no_longer: int
    injections: int
    newly_shown: list[Row]
    no_longer_shown: list[Row]
    injections_shown: list[Changed]


def changes(comparison: Comparison) -> Changes:
    """The comparison as the page lists it."""
    return Changes(
        comparison,
        len(comparison.newly_refused),
        len(comparison.no_longer_refused),
        len(comparison.changed_injections),
        rows(comparison.newly_refused[:MOST_SHOWN]),
        rows(comparison.no_longer_refused[:MOST_SHOWN]),
        [_changed(one) for one in comparison.changed_injections[:MOST_SHOWN]],
    )


def _changed(change: ChangedInjection) -> Changed:
    before, after = frozenset(change.before), frozenset(change.after)
    return Changed(
        home(change.object),
        change.object.kind,
        change.object.name,
        pods(change.sort),
        place(change.source),
        tuple(text for text in change.before if text not in after),
        tuple(text for text in change.after if text not in before),
        tuple(text for text in change.after if text in before),
    )
