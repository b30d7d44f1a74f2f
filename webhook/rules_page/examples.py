"""The examples of a rule in Markdown: the applied object, the line of a policy, and the result.

The result comes from the engine, with this rule only, in a cluster of three nodes. Objects are shown as YAML. Of a
mutated object, only the added parts are shown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from textwrap import fill
from typing import Any

import yaml

from webhook import engine
from webhook.audit.documents import DocumentError, read_text
from webhook.audit.review_formats import WithoutAliases
from webhook.audit.review_objects import ReviewContext, ReviewedObject, injected, review_object
from webhook.facts.inventory import Inventory, read_inventory
from webhook.facts.static_pods import StaticPods
from webhook.ledger.context import LedgerContext
from webhook.ledger.ledger_store import MemoryStore
from webhook.ledger.ledgers import Ledgers
from webhook.model.edits import apply
from webhook.outcome import Finding, Outcome
from webhook.policy.directory import contents_of
from webhook.policy.loader import build
from webhook.policy.policy_set import PolicySet
from webhook.policy.schema import API_VERSION, DEFAULT_FILE
from webhook.rules.rule import Example, Rule


class _Dumper(WithoutAliases):
    """Double quotes, no anchors, and lists indented below their key."""

    def choose_scalar_style(self) -> Any:
        style = super().choose_scalar_style()
        return '"' if style == "'" else style

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT  # the base class's
        super().increase_indent(flow, indentless=False)


def as_yaml(value: Any) -> str:
    """A value as YAML; each innermost map or list is on one line.

    >>> print(as_yaml({"spec": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}}))
    spec:
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists}
    """
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=_WIDEST, default_flow_style=None)
    return text.rstrip("\n")


def in_one_line(value: Any) -> str:
    """A map or list in one line.

    >>> in_one_line({"mode": "enforce", "images": {"team/*": "12.4"}})
    '{mode: enforce, images: {team/*: "12.4"}}'
    """
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=_WIDEST, default_flow_style=True)
    return text.strip()


_WIDEST = 10_000
"""Columns of a line, so that no line is wrapped."""


def additions(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of `after` that `before` does not have, in their places. Items of lists keep their names.

    >>> before = {"spec": {"hostname": "a", "containers": [{"name": "trainer", "image": "train:1"}]}}
    >>> after = {"spec": {"hostname": "a", "containers": [{"name": "trainer", "image": "train:1", "tty": True}]}}
    >>> additions(before, after)
    {'spec': {'containers': [{'name': 'trainer', 'tty': True}]}}
    """
    return {
        key: _added_lines(before[key], value) if key in before else value
        for key, value in after.items()
        if key not in before or before[key] != value
    }


def _added_lines(before: Any, after: Any) -> Any:
    """The new parts of a changed value. New items of a list are at its end; its other items may have new parts."""
    if isinstance(before, dict) and isinstance(after, dict):
        return additions(before, after)
    if isinstance(before, list) and isinstance(after, list):
        grown = [_entry(old, new) for old, new in zip(before, after, strict=False) if old != new]
        return [*grown, *after[len(before) :]]
    return after


def _entry(before: Any, after: Any) -> Any:
    named = {"name": after["name"]} if isinstance(after, dict) and "name" in after else {}
    added = _added_lines(before, after)
    return {**named, **added} if isinstance(added, dict) else added


_SOURCE = "example.yaml"
_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class ExampleTrial:
    """The result of an example under a line of a policy.

    `webhook` is the webhook that refused the object; empty if none did. `added` are the parts that the rule added to
    the pod, or to the pods of each template in a workload.
    """

    line: str
    findings: tuple[Finding, ...]
    webhook: str
    refusal: str
    warnings: tuple[str, ...]
    added: tuple[Mapping[str, Any], ...]
    is_workload: bool


def try_out(rule: Rule, example: Example) -> ExampleTrial:
    """Judge an example. Raises FileErrors for mistakes in its settings, ValueError for mistakes in its object."""
    line = f"{rule.key}: {in_one_line({'mode': str(example.mode), **example.settings})}"
    context = ReviewContext(_policies(rule, line), cluster().facts, _ledgers(example))
    (document,) = read_text(example.manifest, _SOURCE)
    if isinstance(document, DocumentError):
        raise ValueError(str(document))  # noqa: TRY004  # a mistake in a text
    item = review_object(document, _NAMESPACE, context)
    outcome = item.outcome or _of_workload(item, context)
    refusals = outcome.refusals
    return ExampleTrial(
        line=line,
        findings=outcome.findings,
        webhook=_refusing(item, refusals) if refusals else "",
        refusal=outcome.refusal,
        warnings=outcome.warnings,
        added=() if refusals else _added(item),
        is_workload=item.outcome is None,
    )


def _policies(rule: Rule, line: str) -> PolicySet:
    """The policies of one line, read like the files of a directory. Raises FileErrors."""
    head = f"apiVersion: {API_VERSION}\nkind: GPUPolicy\nmetadata: {{name: {Path(DEFAULT_FILE).stem}}}\n"
    text = f"{head}spec:\n  rules:\n    {line}\n"
    return build(contents_of(Path(_SOURCE), {DEFAULT_FILE: text.encode()}), [rule])


@cache
def cluster() -> Inventory:
    """The cluster in which examples are judged."""
    with as_file(files(__package__) / "cluster.yaml") as path:
        return read_inventory(path)


def _ledgers(example: Example) -> Ledgers:
    pods = StaticPods(yaml.safe_load_all(example.beside))
    if pods.unreadable:
        raise ValueError("beside: holds pods that Kubernetes would refuse")
    return Ledgers(LedgerContext(MemoryStore(), pods))


def _of_workload(item: ReviewedObject, context: ReviewContext) -> Outcome:
    if item.policy is None:
        raise ValueError(f"{item.title}: makes no pods")
    quotas = context.policies.quotas_for(item.namespace)
    return engine.validate_workload(item.document.object, item.namespace, item.policy, context.facts, quotas)


def _refusing(item: ReviewedObject, refusals: Sequence[Finding]) -> str:
    """The webhook that refuses. Objects that the API server itself refuses never reach the validating webhook."""
    if item.outcome is None:
        return "workloads.gpupolicy.dev"
    return "mutate.gpupolicy.dev" if any(one.fails_validation for one in refusals) else "validate.gpupolicy.dev"


def _added(item: ReviewedObject) -> tuple[Mapping[str, Any], ...]:
    """The added parts of the specs of pods, without annotations."""
    if item.outcome is not None:
        pairs = [(item.document.object, item.outcome.object)]
    else:
        pairs = [
            (pods.template.pod, apply(pods.template.pod, (edit for one in injected(pods) for edit in one.edits)).object)
            for pods in item.pods
        ]
    added = (additions({"spec": before["spec"]}, {"spec": after["spec"]}) for before, after in pairs)
    return tuple(one for one in added if one)


def examples(rule: Rule) -> Iterator[str]:
    """The examples of a rule in Markdown. An object that two examples share is shown once."""
    applied = ""
    for example in rule.examples:
        if _applied(example) != applied:
            yield f"\n{'Another' if applied else 'An'} example:\n\n{_fenced('yaml', _applied(example))}"
            applied = _applied(example)
        yield from (f"\n{part}" for part in _became(try_out(rule, example), example))


def _applied(example: Example) -> str:
    manifest = example.manifest.strip("\n")
    if not example.beside:
        return manifest
    beside = example.beside.strip("\n")
    return f"# Runs already:\n{beside}\n---\n# Is applied:\n{manifest}"


def _became(trial: ExampleTrial, example: Example) -> Iterator[str]:
    """The result: a refusal, or the added parts and the warnings."""
    under = f"Under `{trial.line}`"
    warnings = [wrapped(f"Warning: {warning}") for warning in trial.warnings]
    if trial.refusal:
        name = yaml.safe_load(example.manifest)["metadata"]["name"]
        denied = f'error when creating "{name}.yaml": admission webhook "{trial.webhook}" denied the request'
        lines = f"Error from server (Forbidden): {denied}: {trial.refusal}".splitlines()
        yield f"{under} it is refused:\n"
        yield _fenced("text", "\n".join((*warnings, *map(wrapped, lines))))
        return
    for added in trial.added:
        yield f"{under} {'each of its pods' if trial.is_workload else 'it'} gets:\n"
        yield _fenced("yaml", as_yaml(added))
    if trial.warnings:
        subject = "It" if trial.added else f"{under} it"
        yield f"{subject} is admitted with {'a warning' if len(trial.warnings) == 1 else 'warnings'}:\n"
        yield _fenced("text", "\n".join(warnings))
    elif not trial.added:
        yield f"{under} it is admitted as it is.\n"


def wrapped(text: str) -> str:
    """A paragraph in lines of up to 120 characters."""
    return fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```\n"
