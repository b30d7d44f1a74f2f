"""The review for people at a terminal: one paragraph for each object that has something to say, and a total."""

import orjson
from rich.console import Console
from rich.text import Text

from webhook.audit.review_objects import Item, ReviewList, injected
from webhook.outcome import Finding, printable
from webhook.rules.rule_settings import Mode


def render(reviewed: ReviewList, console: Console) -> None:
    """Print every item, then what could not be read, then the total."""
    for item in reviewed.items:
        _item(item, console)
    for error in reviewed.errors:
        console.print(Text(f"UNREADABLE {error}", style="bold red"), soft_wrap=True)
    refused = sum(not item.is_allowed for item in reviewed.items)
    completed = sum(bool(item.patch) and item.is_allowed for item in reviewed.items)
    total = (
        f"{len(reviewed.items)} reviewed, {refused} refused, {completed} completed, {len(reviewed.errors)} unreadable"
    )
    console.print(Text(total, style="bold"), soft_wrap=True)


def _item(item: Item, console: Console) -> None:
    word, style = ("refused", "bold red") if not item.is_allowed else ("allowed", "green")
    if item.is_allowed and item.patch:
        word, style = "completed", "bold cyan"
    line = Text(f"{word:<10}", style=style)
    line.append(item.title, style="bold")
    line.append(f"  {item.document.source}", style="dim")
    if item.policy:
        line.append(f"  policy {item.policy.name}", style="dim")
    console.print(line, soft_wrap=True)
    for finding in item.findings:
        _finding(finding, console)
    for operation in item.patch if item.is_allowed else ():
        value = orjson.dumps(operation["value"]).decode()
        console.print(Text(f"    + {operation['path']} {value}", style="green"), soft_wrap=True)
    for pods in item.pods:
        for injection in injected(pods):
            edits = ", ".join(map(str, injection.edits))
            console.print(Text(printable(f"    + {pods.template.path}: {edits}"), style="green"), soft_wrap=True)


def _finding(finding: Finding, console: Console) -> None:
    style = "red" if finding.refuses else "yellow" if finding.mode is not Mode.AUDIT else "dim"
    word = "refused" if finding.refuses else "audit" if finding.mode is Mode.AUDIT else "warning"
    console.print(Text(f"    {word}: {finding}", style=style), soft_wrap=True)
