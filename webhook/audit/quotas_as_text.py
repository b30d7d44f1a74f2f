"""Quotas for people at a terminal: a line with a bar for each limit, in 80 columns and without colours as well."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import floor

from rich.console import Console
from rich.text import Text

from webhook.audit.quota_report import LimitUsage, Reported
from webhook.outcome import printable
from webhook.quota.quotas import QuotaScope

_COLUMNS = 80
_WIDEST_BAR = 24
_NARROWEST_BAR = 6
_ALL = "GPUs"


def render(quotas: Sequence[Reported], console: Console, *, names_namespaces: bool) -> None:
    """Every quota. `names_namespaces` says whether to tell where those are seen that namespaces share."""
    parts = [part for quota in quotas for part in quota.parts]
    names = max((len(_name(part)) for part in parts), default=0)
    amounts = max((len(_amount(part)) for part in parts), default=0)
    rests = max((len(part.rest) for part in parts), default=0)
    bar = max(_NARROWEST_BAR, min(_WIDEST_BAR, _COLUMNS - names - amounts - rests - len("    []  ") - len("  ")))
    for quota in quotas:
        console.print(_title(quota), soft_wrap=True)
        if names_namespaces and quota.scope != QuotaScope.NAMESPACE:
            console.print(Text(f"  in {printable(_listed(quota.namespaces))}", style="dim"), soft_wrap=True)
        for part in quota.parts:
            line = Text(f"  {_name(part):<{names}}  {_amount(part):>{amounts}}  ")
            line.append(f"[{_bar(part, bar)}]", style=_style(part)).append(f"  {part.rest}")
            line.rstrip()
            console.print(line, soft_wrap=True)


def _title(quota: Reported) -> Text:
    title = Text(printable(f"{quota.scope} {quota.name}".strip()), style="bold")
    return title.append(printable(f" ({quota.mode})" if quota.mode else ""), style="not bold")


def _listed(names: Iterable[str]) -> str:
    """As many names as fit into a line."""
    names = list(names)
    text, room = ", ".join(names), _COLUMNS - len("  in ")
    while len(text) > room and len(names) > 1:
        names.pop()
        text = ", ".join(names) + ", ..."
    return text


def _name(part: LimitUsage) -> str:
    return printable(part.name) or _ALL


def _amount(part: LimitUsage) -> str:
    return printable(f"{part.used} of {part.hard}")


def _bar(part: LimitUsage, width: int) -> str:
    """How full it is; only a full one looks full, and only an unused one empty."""
    share = part.share
    if share is None:
        return "?" * width
    filled = width if share >= 1 else max(floor(share * width), 1 if share else 0)
    return "#" * filled + "-" * (width - filled)


def _style(part: LimitUsage) -> str:
    share = part.share
    if share is None:
        return "dim"
    return "red" if share >= 1 else "yellow" if share >= Fraction(9, 10) else "green"
