"""The outcome of a pod as values: findings with their mode, and the texts of refusals and warnings."""

from collections.abc import Iterator, Mapping
from dataclasses import field as attribute
from enum import StrEnum
from typing import Any

from webhook.model.edits import Edit
from webhook.model.fixed import fixed
from webhook.model.pod import Pod
from webhook.model.shape import shortened
from webhook.model.wording import cut_at_a_word, cut_sentence, ended, fitted, shorter
from webhook.policy.exceptions import AppliedException
from webhook.policy.policy_set import Policy
from webhook.rules.rule_settings import Mode

LONGEST_WARNING = 256
"""Characters of one warning. The API server cuts longer ones."""

MOST_WARNED = 4096
"""Characters of all warnings together. The API server silently drops warnings beyond them."""

MOST_REFUSED = 20_000
"""Characters of a whole refusal. It quotes parts of the pod, which can be long."""

LONGEST_FIELD = 500
"""Characters of a place that a finding shows."""
_SHORT_FIELD = 50
"""Characters of a place in a warning that also says which pods of a workload are meant."""
_LONGEST_REMEDY, _LONGEST_REASON = LONGEST_WARNING // 2, LONGEST_WARNING // 3
"""Characters of a remedy and of a reason in a warning that has to be cut."""

LONGEST_LINE = 2_000
"""Characters of one violation in a refusal. Violations of real pods have a tenth of them."""

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


@fixed(frozen=True, slots=True)
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
    brief: str = attribute(default="", compare=False)
    """A shorter message for warnings; empty if `message` is short. Its first clause is the most important one."""
    fault: str = attribute(default="", compare=False)
    """The name of a fault that several rules may report, so that it is reported once; empty for most findings."""
    number: int = attribute(default=1, compare=False)
    """The number of findings that this one stands for, if there are too many to keep all."""
    follows_nodes: bool = attribute(default=False, compare=False)
    """Whether it follows from the nodes that the pod may use."""
    softens_on_update: bool = attribute(default=False, compare=False)
    """Whether an update that causes it brings a warning, as `webhook.rules.rule.Rule` explains."""
    is_kept_off: bool = attribute(default=False, compare=False)
    """Whether the rule should have kept the pod off the nodes that it is about."""
    code: int = attribute(default=403, compare=False)
    """The HTTP status of a refusal: 403 for a verdict about the pod, 500 or 503 for a fault of the platform."""
    exception: AppliedException | None = attribute(default=None, compare=False)
    """The exception because of which it refuses nothing; the message says so, too. None for most findings."""

    def __str__(self) -> str:
        return printable(f"{ended(self._head(self.where))}{self._tail}")

    @property
    def where(self) -> str:
        """The field, cut to 500 characters: names in custom resources may have megabytes."""
        return shortened(self.field, LONGEST_FIELD)

    def _head(self, where: str) -> str:
        return f"{self._opening(where)}{self.message}"

    def _opening(self, where: str) -> str:
        about = f"{self.about}: " if self.about else ""
        return f"{self.rule}: {about}{where}: "

    @property
    def _tail(self) -> str:
        return f" {ended(self.remedy)}" if self.remedy else ""

    @property
    def _where_in_a_pod(self) -> str:
        inside = self.where.rpartition(".spec.")[2]
        return inside if len(inside) <= _SHORT_FIELD else f"...{inside[3 - _SHORT_FIELD :]}"

    @property
    def violation(self) -> str:
        """The finding in a refusal: up to 2,000 characters. If it is longer, the message is cut, not the remedy."""
        text = str(self)
        if len(text) <= LONGEST_LINE:
            return text
        tail = shortened(f".{self._tail}", LONGEST_LINE // 2)
        return printable(shortened(self._head(self.where), LONGEST_LINE - len(tail)) + tail)

    @property
    def warns(self) -> bool:
        """Whether the finding is a warning for the user. Whoever is let through by an exception is told so."""
        return not self.refuses and (self.mode in (Mode.ENFORCE, Mode.WARN) or self.exception is not None)

    @property
    def warning(self) -> str:
        """The `note` in plain ASCII, which is all that headers of HTTP take; other characters are question marks."""
        return "".join(c if " " <= c <= "~" else "?" for c in self.note)

    @property
    def note(self) -> str:
        """The finding for the user: one line of at most 256 characters, with its reason and one full stop.

        If the text is too long, it has the place in the pod instead of the workload, the brief message, and fewer
        alternatives in the remedy. Only if this is too long, too, it is cut between words.
        """
        text = str(self) if self.exception is None else self._excepted
        if len(text) > LONGEST_WARNING:
            text = next((text for text in self._ways_to_say_it() if len(text) <= LONGEST_WARNING), "") or self._cut()
        return printable(text)

    @property
    def _excepted(self) -> str:
        """The finding without its remedy, as long as an exception holds; what is said of the exception is never cut."""
        text = ended(f"{self._opening(self.where)}{self.message}")
        if len(text) <= LONGEST_WARNING:
            return printable(text)
        said, _, told = (self.brief or self.message).rpartition("; ")
        return printable(f"{cut_at_a_word(self._short_opening + said, LONGEST_WARNING - len(told) - 3)}; {ended(told)}")

    @property
    def _short_opening(self) -> str:
        """The opening of a warning that would be too long."""
        return self._opening(self._where_in_a_pod if self.about else self.where)

    def _ways_to_say_it(self) -> Iterator[str]:
        """Texts of the finding in whole sentences, each shorter than the one before."""
        opening, brief = self._short_opening, self.brief
        for messages in ([self.message, brief], [brief.partition("; ")[0]]):
            said = [ended(opening + message) for message in messages if message]
            for remedy in shorter(self.remedy):
                yield from (f"{one} {ended(remedy)}" for one in said)
            if not self.remedy:
                yield from said

    def _cut(self) -> str:
        """The finding with a cut message. The reason, which follows the last semicolon, stays."""
        remedies = list(shorter(self.remedy))
        fitting = (remedy for remedy in remedies if len(remedy) < _LONGEST_REMEDY)
        remedy = next(fitting, cut_sentence(remedies[-1], _LONGEST_REMEDY) if remedies else "")
        text, semicolon, reason = f"{self._short_opening}{self.brief or self.message}".rpartition("; ")
        if not remedy:
            return cut_sentence(text + semicolon + reason, LONGEST_WARNING)
        room = LONGEST_WARNING - len(f" {ended(remedy)}")
        if not semicolon or len(reason) > min(_LONGEST_REASON, room // 2):
            return f"{fitted(text + semicolon + reason, room)} {ended(remedy)}"
        return f"{cut_at_a_word(text, room - len(semicolon + reason) - 1)}{semicolon}{ended(reason)} {ended(remedy)}"


@fixed(frozen=True, slots=True)
class Injection:
    """The edits that an enforced rule injected. `origin` and `line` are as in a Finding."""

    rule: str
    edits: tuple[Edit, ...]
    origin: str
    line: int


@fixed(frozen=True, slots=True)
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
        """The exceptions that let something through, by name."""
        return {one.exception.name: one.exception for one in self.findings if one.exception is not None}

    @property
    def refusals(self) -> tuple[Finding, ...]:
        """The findings that refuse the pod; empty if it is allowed."""
        return tuple(finding for finding in self.findings if finding.refuses)

    @property
    def refusal(self) -> str:
        """The message of a refusal, with up to 100 violations and 20,000 characters; empty if the pod is allowed."""
        refusals = self.refusals
        if len(refusals) < 2:
            return "".join(finding.violation for finding in refusals)
        count = sum(finding.number for finding in refusals)
        lines = [f"{count} violations:"]
        room = MOST_REFUSED
        for finding in refusals[:MOST_VIOLATIONS]:
            line = f"- {finding.violation}"
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
        """One text for each finding that warns, without repeats. If room is short, the last text says how many more."""
        findings = [finding for finding in self.findings if finding.warns]
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


def _more(count: int) -> str:
    return f"and {count} more; gpu-policy review shows all of them"
