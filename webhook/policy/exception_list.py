"""The exceptions of a set of policies as a list, for people and for programs; those that end first come first."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from webhook.policy.exception_times import DAYS, Weekly, told
from webhook.policy.exceptions import PolicyException


def listed(exceptions: Iterable[PolicyException], now: float, within: float | None = None) -> list[PolicyException]:
    """The exceptions by end and name; with `within` those that have not ended and end within so many seconds."""
    found = [one for one in exceptions if within is None or now < one.period.ends <= now + within]
    return sorted(found, key=lambda one: (one.period.ends, one.name))


def state(one: PolicyException, now: float) -> str:
    """Whether an exception holds: `active`, `ended`, `waiting` for its beginning or a window, `too far ahead`."""
    period = one.period
    if now >= period.ends:
        return "ended"
    if period.ends - now > period.most_ahead:
        return "too far ahead"
    return "active" if period.until(now) else "waiting"


def as_json(one: PolicyException, now: float) -> dict[str, Any]:
    """An exception for programs. Times are in UTC; the end is not in the exception."""
    match = one.match
    keys = {"kinds": match.kinds, "names": match.names, "containers": match.containers, "images": match.images}
    written: dict[str, Any] = {key: list(value) for key, value in keys.items() if value}
    if match.labels:
        written["labels"] = dict(match.labels)
    return {
        "name": one.name,
        "state": state(one, now),
        "namespaces": list(one.namespaces),
        "match": written or {"all": True},
        "rules": list(one.rules),
        "mode": str(one.mode),
        "settings": one.settings,
        "begins": None if one.period.begins == float("-inf") else told(one.period.begins),
        "ends": told(one.period.ends),
        "until": one.period.text,
        "daysLeft": max(0, int((one.period.ends - now) // 86_400)),
        "weekly": None if one.period.weekly is None else weekly_text(one.period.weekly),
        "reason": one.reason,
        "ticket": one.ticket,
        "owner": one.owner,
        "line": one.node.line,
    }


def weekly_text(weekly: Weekly) -> str:
    """The windows of a week in words.

    >>> weekly_text(Weekly(frozenset({5, 6}), 1200, 360, "UTC"))
    'Sat, Sun 20:00 to 06:00 UTC'
    """
    days = ", ".join(DAYS[day] for day in sorted(weekly.days)) if len(weekly.days) < len(DAYS) else "daily"
    return f"{days} {_clock(weekly.begin)} to {_clock(weekly.to)} {weekly.zone}"


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def lines(one: PolicyException, now: float) -> Iterator[str]:
    """An exception in words: one line that begins with its name, and indented lines."""
    windows = "" if one.period.weekly is None else f", {weekly_text(one.period.weekly)}"
    begins = f", from {told(one.period.begins)}" if one.period.begins > float("-inf") else ""
    yield f"{one.name}: {state(one, now)}{begins}, until {one.period.text}{windows}"
    yield f"    for {_match_text(as_json(one, now)['match'])} in {', '.join(one.namespaces)}"
    said = [*one.rules, *(f"{rule} {_settings_text(settings)}" for rule, settings in one.settings.items())]
    yield f"    from {', '.join(said)}" + (f" (mode {one.mode})" if one.rules else "")
    by = ", ".join(text for text in (one.ticket, one.owner) if text)
    yield f"    because of {one.reason}" + (f" ({by})" if by else "")


def _match_text(match: Mapping[str, Any]) -> str:
    if match.get("all"):
        return "all pods"
    found = []
    for key, value in match.items():
        texts = [f"{name}={text}" for name, text in value.items()] if isinstance(value, dict) else value
        found.append(f"{key} {', '.join(texts)}")
    return "; ".join(found)


def _settings_text(said: Mapping[str, Any]) -> str:
    return "(" + ", ".join(f"{key}: {value}" for key, value in said.items()) + ")"
