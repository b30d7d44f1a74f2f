"""What expectations are about: a pod, the pods that a workload makes, or those of one group of them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from webhook.audit.review_objects import Item
from webhook.engine import Foreseen
from webhook.model.edits import apply
from webhook.outcome import Finding


@dataclass(frozen=True, slots=True)
class Completion:
    """A pod before and after the policy's rules completed it; `about` says which one where there are several."""

    about: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """What was found in one resource, or in one group of its pods, and what became of the pods."""

    title: str
    findings: tuple[Finding, ...]
    completions: tuple[Completion, ...]

    @property
    def refusals(self) -> tuple[Finding, ...]:
        """What refuses the pods."""
        return tuple(finding for finding in self.findings if finding.refuses)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What people are warned of."""
        return tuple(finding for finding in self.findings if finding.warns)


def subject_of(item: Item) -> Subject:
    """The whole resource."""
    if item.outcome is not None:
        outcome = item.outcome
        pods: tuple[Completion, ...] = (Completion("", item.document.object, outcome.object, outcome.injected),)
    else:
        pods = tuple(_completions(item.pods))
    return Subject(item.title, item.findings, pods)


def group_of(item: Item, group: str) -> Subject | None:
    """The pods of one group of a workload; None where it has no such group."""
    pods = [one for one in item.pods if one.template.group == group]
    findings = tuple(dict.fromkeys(finding for one in pods for finding in one.findings))
    return Subject(f"{item.title}, pods of {group}", findings, tuple(_completions(pods))) if pods else None


def without_groups(item: Item, groups: Collection[str]) -> Subject:
    """The whole resource but for what was found in these groups of it."""
    found = {finding for one in item.pods if one.template.group in groups for finding in one.findings}
    subject = subject_of(item)
    return replace(subject, findings=tuple(finding for finding in subject.findings if finding not in found))


def names_of(item: Item) -> tuple[str, ...]:
    """What a test may call the resource."""
    kind = item.document.kind
    return (f"{kind}/{item.name}", f"{kind}/{item.namespace}/{item.name}")


def _completions(pods: Sequence[Foreseen]) -> Iterator[Completion]:
    for one in pods:
        draft = apply(one.template.pod, (edit for injection in one.injections for edit in injection.edits))
        about = one.template.group if len(pods) > 1 else ""
        rules = tuple(injection.rule for injection in one.injections)
        yield Completion(about, one.template.pod, draft.object, rules)
