"""What became of a pod, as values: findings with their mode, and what people are told."""

from collections.abc import Iterator, Mapping
from dataclasses import field as attribute
from enum import StrEnum
from typing import Any

from webhook.model.edits import Edit
from webhook.model.fixed import fixed
from webhook.model.pod import Pod
from webhook.model.shape import shortened
from webhook.model.wording import cut_at_a_word, cut_sentence, ended, fitted, shorter
from webhook.policy.policy_set import Policy
from webhook.rules.rule_settings import Mode

LONGEST_WARNING = 256
"""Characters of one warning; the API server cuts what is longer."""

MOST_WARNED = 4096
"""Characters of all warnings together; the API server silently drops those beyond."""

MOST_REFUSED = 20_000
"""Characters of a whole refusal, of which what people write into a pod can be most."""

LONGEST_FIELD = 500
"""Characters of a place that a finding shows."""
_SHORT_FIELD = 50
"""Characters of a place where a warning also has to say which of the pods of a workload are meant."""
_LONGEST_REMEDY, _LONGEST_REASON = LONGEST_WARNING // 2, LONGEST_WARNING // 3
"""Characters of both in a warning of which something has to be cut."""

LONGEST_LINE = 2_000
"""Characters of one violation in a refusal; what a rule says of a real pod is a tenth of it."""

MOST_VIOLATIONS = 100
"""Violations that one refusal spells out; a pod can be made to have thousands."""


def printable(text: str) -> str:
    """`text` on one line and without control characters, which a manifest can hold and a terminal would obey."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


class FindingKind(StrEnum):
    """What a finding is about."""

    VIOLATION = "violation"
    INJECTION = "injection"
    MISSING = "missing"
    ADVICE = "advice"


@fixed(frozen=True, slots=True)
class Finding:
    """One thing that a rule found, with the mode it was found in. `refuses` says whether it refuses the pod.

    `origin` and `line` are where the policy says so: a file, and a line from 1, 0 where that is not known. `about` says
    which of the pods of a workload are meant, empty for a pod itself.
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
    """What `message` says, in few words for a warning; empty where it has few itself. Its first clause says most."""
    fault: str = attribute(default="", compare=False)
    """What advice and violations of several rules are about, of which people are told once; empty for most."""
    number: int = attribute(default=1, compare=False)
    """Findings that this one stands for, where there are too many to keep them all."""

    def __str__(self) -> str:
        return printable(f"{ended(self._head(self.where))}{self._tail}")

    @property
    def where(self) -> str:
        """The field, as far as people read it: custom resources may give megabytes of name to what stands in them."""
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
        """The finding as a refusal has it: as long as it is, up to 2,000 characters, and cut before the remedy."""
        text = str(self)
        if len(text) <= LONGEST_LINE:
            return text
        tail = shortened(f".{self._tail}", LONGEST_LINE // 2)
        return printable(shortened(self._head(self.where), LONGEST_LINE - len(tail)) + tail)

    @property
    def warns(self) -> bool:
        """Whether the user is told in a warning."""
        return not self.refuses and self.mode in (Mode.ENFORCE, Mode.WARN)

    @property
    def warning(self) -> str:
        """The finding as one warning: plain ASCII, at most 256 characters, with its reason, ended by one full stop.

        Where it is too long, the place is that in a pod, the message the brief one, and the remedy has fewer
        alternatives; only what is too long even so is cut, between words.
        """
        text = str(self)
        if len(text) > LONGEST_WARNING:
            text = next((text for text in self._ways_to_say_it() if len(text) <= LONGEST_WARNING), "") or self._cut()
        return "".join(c if " " <= c <= "~" else "?" for c in text)

    @property
    def _short_opening(self) -> str:
        """How a warning opens that is too long."""
        return self._opening(self._where_in_a_pod if self.about else self.where)

    def _ways_to_say_it(self) -> Iterator[str]:
        """The finding in ever fewer words, every one of them a whole sentence."""
        opening, brief = self._short_opening, self.brief
        for messages in ([self.message, brief], [brief.partition("; ")[0]]):
            said = [ended(opening + message) for message in messages if message]
            for remedy in shorter(self.remedy):
                yield from (f"{one} {ended(remedy)}" for one in said)
            if not self.remedy:
                yield from said

    def _cut(self) -> str:
        """The finding with its message cut before the reason, which is what stands after its last semicolon."""
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
    """What an enforced rule injected. `origin` and `line` are where the policy says so, as in a Finding."""

    rule: str
    edits: tuple[Edit, ...]
    origin: str
    line: int


@fixed(frozen=True, slots=True)
class Outcome:
    """What became of a pod in one phase.

    `object` is the object after the patch, sharing what did not change with the one that came in; `injections` are what
    the patch is made of. `pod` is the object as it was read to be judged, None where nobody needs it any more.
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
    def refusals(self) -> tuple[Finding, ...]:
        """What refuses the pod; empty where it is allowed."""
        return tuple(finding for finding in self.findings if finding.refuses)

    @property
    def refusal(self) -> str:
        """Everything that refuses the pod in one message, up to 100 violations and 20,000 characters.

        Empty where it is allowed.
        """
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
        """One text for each finding that warns, none of them twice; the last says how many there is no room for."""
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
