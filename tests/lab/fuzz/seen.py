"""What an oracle sees of one pod: the JSON before and after, the settings that applied, and what was said."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.lab.fuzz.raw import Raw
from webhook.outcome import Finding, FindingKind, Outcome

Complaints = Iterator[str]


@dataclass(frozen=True)
class Seen:
    """A pod that was created in a namespace of `settings`.

    `before` is what its author wrote, `after` what the mutating phase made of it. `judged` is None where the mutating
    phase refused it already.
    """

    before: Raw
    after: Raw
    settings: Mapping[str, Mapping[str, Any]]
    mutated: Outcome
    judged: Outcome | None

    def completes(self, rule: str) -> bool:
        """Whether the rule was to complete the pod; where the mutating phase refuses, nothing is injected."""
        return self.settings[rule]["mode"] == "enforce" and self.judged is not None

    def violations(self, rule: str) -> list[Finding]:
        """What a rule has against the pod, in whatever mode."""
        findings = (self.judged or self.mutated).findings
        return [finding for finding in findings if finding.rule == rule and finding.kind is FindingKind.VIOLATION]

    def advice(self, rule: str) -> list[Finding]:
        """What a rule tells people of the pod as it is stored."""
        findings = self.judged.findings if self.judged else ()
        return [finding for finding in findings if finding.rule == rule and finding.kind is FindingKind.ADVICE]

    def has_injected(self, rule: str) -> bool:
        """Whether the rule is among those that changed the pod."""
        return rule in self.mutated.injected


Oracle = Callable[[Seen], Complaints]
"""Says in sentences what a rule did that it must not do, or left undone."""


def exactly(found: bool, expected: bool, what: str) -> Complaints:
    """A complaint where something is there although it must not be, or the other way round."""
    if found and not expected:
        yield f"{what}, without a reason"
    elif expected and not found:
        yield f"not {what}, although there is a reason"
