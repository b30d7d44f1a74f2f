"""The outcome of a pod as values: findings with their mode, and the texts of refusals and warnings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as attribute
from enum import StrEnum
from typing import Any

from webhook.model.edits import Edit
from webhook.model.pod import Pod
from webhook.model.shape import shortened
from webhook.model.wording import ended
from webhook.policy.exceptions import AppliedException
from webhook.policy.policy_set import Policy
from webhook.rules.rule_settings import Mode

MOST_WARNED = 4_000
"""Characters of all warnings of an answer. Where the warnings of a request have more than 4,096 together, the API
server cuts each to 256, and drops what is still too much (k8s.io/apiserver, endpoints/filters/warning.go)."""

MOST_REFUSED = 20_000
"""Characters of a whole refusal. It quotes parts of the pod, which can be long."""

LONGEST_FIELD = 500
"""Characters of a place that a finding shows."""

LONGEST_LINE = 2_000
"""Characters of one finding in a refusal or a warning. Findings of real pods have a tenth of them."""

MOST_VIOLATIONS = 100
"""Violations that one refusal names. A pod can be made to have thousands."""


def printable(text: str) -> str:
    """`text` on one line, with a question mark for each control character: a terminal would obey them."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


class FindingKind(StrEnum):
    """What kind of thing was found."""

    VIOLATION = "violation"
    INJECTION = "injection"
    MISSING = "missing"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule found, with the rule's mode. `refuses` tells whether it refuses the pod.

    `origin` is the policy file that sets the rule, and `line` its line from 1; 0 if not known. `about` says which pods
    of a workload are meant; empty for a single pod.
    """

    rule: str
    mode: Mode
    kind: FindingKind
    field: str
    message: str
    remedy: str = ""
    refuses: bool = False
    fails_validation: bool = False
    origin: str = attribute(default="", compare=False)
    line: int = attribute(default=0, compare=False)
    about: str = attribute(default="", compare=False)
    fault: str = attribute(default="", compare=False)
    """The name of a fault that several rules may report, so that it is reported once; empty for most findings."""
    number: int = attribute(default=1, compare=False)
    """The number of findings that this one stands for, if there are too many to keep all."""
    follows_nodes: bool = attribute(default=False, compare=False)
    """Whether it follows from the nodes that the pod may use."""
    softens_on_update: bool = attribute(default=False, compare=False)
    """Whether an update that causes it brings a warning, as `webhook.rules.rule.Rule` explains."""
    is_kept_off: bool = attribute(default=False, compare=False)
    """Whether the rule should have kept the pod off the nodes that it is about; an injection keeps it off them all."""
    code: int = attribute(default=403, compare=False)
    """The HTTP status of a refusal: 403 for a verdict about the pod, 429 if the client is to try again in a second, or
    else 500 or 503 for a fault of the platform."""
    exception: AppliedException | None = attribute(default=None, compare=False)
    """The exception because of which it refuses nothing; the message says so, too. None for most findings."""

    def __str__(self) -> str:
        return self._line(self.remedy)

    @property
    def where(self) -> str:
        """The field, cut to 500 characters: names in custom resources may have megabytes."""
        return shortened(self.field, LONGEST_FIELD)

    @property
    def _head(self) -> str:
        about = f"{self.about}: " if self.about else ""
        return f"{self.rule}: {about}{self.where}: {self.message}"

    def _line(self, remedy: str) -> str:
        return printable(ended(self._head) + (f" {ended(remedy)}" if remedy else ""))

    @property
    def note(self) -> str:
        """The finding for the user: one line of up to 2,000 characters. Beyond, the message is cut before the remedy.

        A pod that an exception lets through needs no remedy.
        """
        remedy = self.remedy if self.exception is None else ""
        text = self._line(remedy)
        if len(text) <= LONGEST_LINE:
            return text
        tail = shortened(f". {ended(remedy)}" if remedy else ".", LONGEST_LINE // 2)
        return printable(shortened(self._head, LONGEST_LINE - len(tail)) + tail)

    @property
    def warns(self) -> bool:
        """Whether the finding is a warning for the user. What an exception lets through always is."""
        return not self.refuses and (self.mode in (Mode.ENFORCE, Mode.WARN) or self.exception is not None)

    @property
    def warning(self) -> str:
        """The `note` in plain ASCII, which is all that headers of HTTP take; other characters are question marks."""
        return "".join(c if " " <= c <= "~" else "?" for c in self.note)


@dataclass(frozen=True, slots=True)
class Injection:
    """The edits that an enforced rule injected. `origin` and `line` are as in a Finding."""

    rule: str
    edits: tuple[Edit, ...]
    origin: str
    line: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a pod in one phase.

    `object` is the object after the patch, which shares all unchanged parts with the original. `injections` are the
    edits in the patch, by rule. `pod` is the pod that was read for validation; None if it is not needed any more.
    """

    policy: Policy
    object: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()
    patch: tuple[Mapping[str, Any], ...] = ()
    injections: tuple[Injection, ...] = ()
    pod: Pod | None = attribute(default=None, compare=False, repr=False)

    @property
    def injected(self) -> tuple[str, ...]:
        """The rules whose edits are in the patch."""
        return tuple([injection.rule for injection in self.injections])

    @property
    def exceptions(self) -> Mapping[str, AppliedException]:
        """By name: the exceptions that let something through, or whose settings hold for an admitted pod."""
        used = [one.exception for one in self.findings if one.exception is not None]
        if not self.refusals:
            used += [one for one in self.policy.exceptions if not one.exception.settings.keys().isdisjoint(one.rules)]
        return {one.name: one for one in used}

    @property
    def refusals(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.refuses)

    @property
    def refusal(self) -> str:
        """The message of a refusal, with up to 100 violations and 20,000 characters; empty if the pod is allowed."""
        refusals = self.refusals
        if len(refusals) < 2:
            return "".join(finding.note for finding in refusals)
        count = sum(finding.number for finding in refusals)
        lines = [f"{count} violations:"]
        room = MOST_REFUSED
        for finding in refusals[:MOST_VIOLATIONS]:
            line = f"- {finding.note}"
            room -= len(line)
            if room < 0:
                break
            lines.append(line)
        shown = len(lines) - 1
        if shown < len(refusals) or count > MOST_VIOLATIONS:
            lines.append(f"- and {count - shown} more")
        return "\n".join(lines)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One text for each finding that warns, worst first, without repeats. The last counts what is left out."""
        findings = worst_first(finding for finding in self.findings if finding.warns)
        told: dict[str, None] = {}
        left = sum(finding.number for finding in findings)
        room = MOST_WARNED - len(_more(left))
        for finding in findings:
            warning = finding.warning
            if warning not in told:
                room -= len(warning)
                if room < 0:
                    return (*told, _more(left))
                told[warning] = None
            left -= finding.number
        return tuple(told)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """The findings in the order of warnings: what would refuse or be injected before advice, enforced rules first."""
    return sorted(findings, key=lambda finding: (finding.kind is FindingKind.ADVICE, finding.mode is not Mode.ENFORCE))


def _more(count: int) -> str:
    return f"and {count} more; gpu-policy review shows all of them"
