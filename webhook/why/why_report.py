"""The answer of `gpu-policy why` for people at a terminal. Control characters of tenants' texts are replaced."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from webhook.model.wording import counted, ended
from webhook.outcome import printable
from webhook.why.explanation import Answer, MissingAnswer, ReasonCode

_STYLES = {ReasonCode.HEALTHY: "green", ReasonCode.FINISHED: "green"}


def render(answer: Answer, console: Console) -> None:
    """Print the reason, the remedy, the evidence and what could not be read, in this order."""
    found = answer.explanation
    style = _STYLES.get(found.code, "bold red" if found.code.rank <= ReasonCode.UNSCHEDULABLE.rank else "yellow")
    title = Text(f"{answer.object.title}: ", style="bold").append(str(found.code), style)
    console.print(title, soft_wrap=True)
    for line in ended(found.message).splitlines():
        _line(console, line)
    if found.remedy:
        what, *commands = found.remedy.splitlines()
        _line(console, f"What to do: {what if commands else ended(what)}")
        for command in commands:
            _line(console, f"  {command}")
    if len(answer.pods) > 1:
        _line(console, "Pods:")
        for one in answer.pods:
            names = f" ({', '.join(one.names)}{', ...' if one.count > len(one.names) else ''})" if one.names else ""
            _line(console, f"  {one.explanation.code}: {counted(one.count, 'pod')}{names}: {one.explanation.message}")
    if found.evidence:
        _line(console, "Evidence:")
        for clue in found.evidence:
            _line(console, f"  {clue.source}: {clue.message}")
    for line in _not_known(answer.missing):
        _line(console, f"Not known: {line}", "dim")


def _not_known(missing: Sequence[MissingAnswer]) -> Iterator[str]:
    """What could not be read: all missing rights in one line, then one line for each fault."""
    lacking = [one for one in missing if not one.fault]
    if len(lacking) == 1:
        yield str(lacking[0])
    elif lacking:
        yield "; ".join(f"{one.unknown} (you need {one.right})" for one in lacking)
    for fault in dict.fromkeys(one.fault for one in missing if one.fault):
        first, *others = [one for one in missing if one.fault == fault]
        also = f"; nor is known {'; nor '.join(one.unknown for one in others)}" if others else ""
        yield f"{first}{also}"


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text(f"  {printable(text)}", style=style), soft_wrap=True)
