"""What became of a pod, as values: findings with their mode, and what people are told."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from webhook.policy.policy_set import Policy
from webhook.rules.rule import Mode

LONGEST_WARNING = 256
"""Characters of one warning; the API server cuts what is longer."""


MOST_VIOLATIONS = 100
"""Violations that one refusal spells out; a pod can be made to have thousands."""


def printable(text: str) -> str:
    """`text` on one line and without control characters, which a manifest can hold and a terminal would obey."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


class Kind(StrEnum):
    """What a finding is about."""

    VIOLATION = "violation"
    INJECTION = "injection"
    MISSING = "missing"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule found, with the mode it was found in. `refuses` says whether it refuses the pod."""

    rule: str
    mode: Mode
    kind: Kind
    field: str
    message: str
    remedy: str = ""
    refuses: bool = False
    fails_validation: bool = False

    def __str__(self) -> str:
        return printable(f"{self.rule}: {self.field}: {self.message}{self._tail}")

    @property
    def _tail(self) -> str:
        return f". {self.remedy}." if self.remedy else "."

    @property
    def warns(self) -> bool:
        """Whether the user is told in a warning."""
        return not self.refuses and self.mode in (Mode.ENFORCE, Mode.WARN)

    @property
    def warning(self) -> str:
        """The finding as one warning: plain ASCII, at most 256 characters, cut before the remedy, which stands last."""
        text, tail = f"{self.rule}: {self.field}: {self.message}", self._tail
        if len(tail) > LONGEST_WARNING // 2:
            tail = tail[: LONGEST_WARNING // 2 - 3] + "..."
        if len(text) + len(tail) > LONGEST_WARNING:
            text = text[: LONGEST_WARNING - len(tail) - 3] + "..."
        return "".join(c if " " <= c <= "~" else "?" for c in text + tail)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a pod in one phase.

    `object` is the object after the patch, sharing what did not change with the one that came in; `injected` names the
    rules whose edits are in the patch.
    """

    policy: Policy
    object: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()
    patch: tuple[Mapping[str, Any], ...] = ()
    injected: tuple[str, ...] = ()

    @property
    def refusals(self) -> tuple[Finding, ...]:
        """What refuses the pod; empty where it is allowed."""
        return tuple(finding for finding in self.findings if finding.refuses)

    @property
    def refusal(self) -> str:
        """Everything that refuses the pod in one message, up to 100 violations; empty where it is allowed."""
        refusals = self.refusals
        if len(refusals) < 2:
            return "".join(map(str, refusals))
        lines = [f"{len(refusals)} violations:", *(f"- {finding}" for finding in refusals[:MOST_VIOLATIONS])]
        if len(refusals) > MOST_VIOLATIONS:
            lines.append(f"- and {len(refusals) - MOST_VIOLATIONS} more")
        return "\n".join(lines)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One text for each finding that warns, none of them twice."""
        return tuple(dict.fromkeys(finding.warning for finding in self.findings if finding.warns))
