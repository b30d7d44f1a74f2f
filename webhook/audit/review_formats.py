"""The formats of a review: text for a terminal, JSON for programs, and unified diffs of YAML."""

import difflib
from collections.abc import Iterable, Iterator
from typing import Any

import orjson
import yaml
from rich.console import Console
from rich.text import Text

from webhook.audit.review_objects import ReviewedObject, ReviewList, injected
from webhook.engine import TemplateOutcome
from webhook.outcome import printable
from webhook.rules.rule_settings import Mode

API_VERSION = "gpupolicy.dev/v1alpha1"


def render_text(reviewed: ReviewList, console: Console, *, shows_diff: bool = False) -> None:
    """Print a paragraph for each object, then the documents that could not be read, then the total.

    `shows_diff` shows what would be added where it would stand.
    """
    for item in reviewed.items:
        _print_item(item, console, shows_diff=shows_diff)
    for error in reviewed.errors:
        console.print(Text(f"UNREADABLE {error}", style="bold red"), soft_wrap=True)
    refused = sum(not item.is_allowed for item in reviewed.items)
    completed = sum(item.is_completed and item.outcome is not None for item in reviewed.items)
    sent = sum(item.is_sent for item in reviewed.items)
    total = f"{sent} reviewed, {refused} refused, {completed} completed, {len(reviewed.errors)} unreadable"
    if sent < len(reviewed.items):
        total += f", {len(reviewed.items) - sent} never sent to the webhook"
    console.print(Text(total, style="bold"), soft_wrap=True)


def _print_item(item: ReviewedObject, console: Console, *, shows_diff: bool) -> None:
    word, style = ("refused", "bold red") if not item.is_allowed else ("allowed", "green")
    if not item.is_sent:
        word, style = "not sent", "dim"
    elif item.is_completed and item.outcome is not None:
        word, style = "completed", "bold cyan"
    line = Text(f"{word:<10}", style=style)
    line.append(item.title, style="bold")
    line.append(f"  {item.document.source}", style="dim")
    if item.policy:
        line.append(f"  policy {item.policy.name}", style="dim")
    console.print(line, soft_wrap=True)
    for finding in item.findings:
        style = "red" if finding.refuses else "yellow" if finding.mode is not Mode.AUDIT else "dim"
        word = "refused" if finding.refuses else "audit" if finding.mode is Mode.AUDIT else "warning"
        console.print(Text(f"    {word}: {finding}", style=style), soft_wrap=True)
    if shows_diff:
        print_diff(_diff(item), console)
    for operation in item.patch if item.is_allowed and not shows_diff else ():
        value = orjson.dumps(operation["value"]).decode()
        console.print(Text(f"    + {operation['path']} {value}", style="green"), soft_wrap=True)
    for pods in item.pods:
        for injection in injected(pods):
            edits = ", ".join(map(str, injection.edits))
            console.print(Text(printable(f"    + {pods.template.path}: {edits}"), style="green"), soft_wrap=True)


def to_json(reviewed: ReviewList) -> dict[str, Any]:
    """A ReviewList for programs. Its shape is a contract; the version is in `apiVersion`."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ReviewList",
        "items": [_item_json(item) for item in reviewed.items],
        "errors": [error.to_json() for error in reviewed.errors],
    }


def _item_json(item: ReviewedObject) -> dict[str, Any]:
    return {
        "source": item.document.source,
        "document": item.document.number,
        "object": {
            "apiVersion": item.document.api_version,
            "kind": item.document.kind,
            "namespace": item.namespace,
            "name": item.name,
        },
        "policy": item.policy.name if item.policy is not None else "",
        "allowed": item.is_allowed,
        "violations": [
            {"rule": f.rule, "mode": f.mode, "field": f.field, "message": f"{f.message}. {f.remedy}."}
            | ({} if f.exception is None else {"exception": f.exception.name})
            for f in item.violations
        ],
        "templates": [_template_json(pods) for pods in item.pods],
        "warnings": list(item.warnings),
        "patch": list(item.patch),
        "result": item.result,
    }


def _template_json(pods: TemplateOutcome) -> dict[str, Any]:
    """The result for the pods of one template; `pods` is how many run at a time, null if unknown."""
    template = pods.template
    return {
        "path": template.path,
        "group": template.group,
        "pods": template.pods,
        "gpus": pods.gpus,
        "allowed": not pods.is_refused,
        "injected": [{"rule": one.rule, "edits": list(map(str, one.edits))} for one in injected(pods)],
    }


def render_diff(reviewed: ReviewList) -> Iterator[str]:
    """What would change in each object, as lines without newlines; findings and errors are comments."""
    for item in reviewed.items:
        for finding in item.findings:
            word = "refused" if finding.refuses else "warning" if finding.warns else "audit"
            yield f"# {item.title}: {word}: {finding}"
        for pods in item.pods:
            for injection in injected(pods):
                edits = ", ".join(map(str, injection.edits))
                yield printable(f"# {item.title}: {pods.template.path}: its pods get {edits}")
        yield from _diff(item)
    for error in reviewed.errors:
        yield f"# unreadable: {error}"


_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan", "#": "yellow"}


def print_diff(lines: Iterable[str], console: Console) -> None:
    """Print a diff, with colours if the console has them."""
    for line in lines:
        console.print(Text(line, style=_DIFF_STYLES.get(line[:1], "")), no_wrap=True, overflow="ignore", crop=False)


def _diff(item: ReviewedObject) -> Iterator[str]:
    if item.is_allowed and item.patch and item.policy is not None:
        yield from difflib.unified_diff(
            _lines(item.document.object),
            _lines(item.result),
            f"{item.document.source} {item.title}",
            f"{item.document.source} {item.title} (completed by {item.policy.name})",
            lineterm="",
        )


def _lines(value: object) -> list[str]:
    return yaml.dump(value, Dumper=WithoutAliases, sort_keys=False, width=120).splitlines()


class WithoutAliases(yaml.SafeDumper):
    """YAML without aliases, which would hide a value that is added twice."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # the base class's signature
        return True
