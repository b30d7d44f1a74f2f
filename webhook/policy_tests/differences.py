"""What was expected of a pod against what became of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from webhook.outcome import Finding, printable
from webhook.policy_tests.containing import Mismatch, lacking, own
from webhook.policy_tests.format import Expectation, ExpectedFinding
from webhook.policy_tests.subjects import Completion, Subject


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as expected. `about` is the resource, `place` the expectation and where in the pod."""

    about: str
    place: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.about}: {self.place}: expected {self.expected}; found {self.found}"


def differences(expected: Expectation, subject: Subject) -> Iterator[Difference]:
    """Everything about the subject that is not as expected; nothing where nothing is expected of it."""
    if expected.is_empty:
        return
    for place, wanted, found in _verdict(expected, subject):
        yield Difference(subject.title, place, wanted, found)
    if expected.warned is not None:
        for wanted, found in _against(expected.warned, subject.warnings, subject.findings, "warned"):
            yield Difference(subject.title, "warned", wanted, found)
    if not subject.refusals:
        for pod in subject.completions:
            about = f"{subject.title}, pods of {pod.about}" if pod.about else subject.title
            for place, mismatch in _in_pod(expected, pod):
                yield Difference(about, place, mismatch.expected, mismatch.found)


def _verdict(expected: Expectation, subject: Subject) -> Iterator[tuple[str, str, str]]:
    """Whether and by what it is refused."""
    if expected.is_refusal and not expected.refused:
        if not subject.refusals:
            told = "; ".join(f"{_word(finding)} {finding}" for finding in subject.findings)
            yield "allowed", "refused", f"allowed{f'; {told}' if told else ''}"
        return
    for wanted, found in _against(expected.refused or (), subject.refusals, subject.findings, "refused"):
        yield "refused" if expected.is_refusal else "allowed", wanted, found


def _against(
    expected: Sequence[ExpectedFinding], found: Sequence[Finding], every: Sequence[Finding], word: str
) -> Iterator[tuple[str, str]]:
    """What is expected and not found, with what is found of the same rule, and what is found and not expected."""
    unexpected = [finding for finding in found if not any(_meets(finding, one) for one in expected)]
    for one in expected:
        if any(_meets(finding, one) for finding in found):
            continue
        close = next((finding for finding in unexpected if finding.rule == one.rule), None)
        if close is not None:
            unexpected.remove(close)
        yield _described(one), str(close) if close is not None else _instead(one, every, word)
    for finding in unexpected:
        others = f"{word} by nothing else" if expected else f"{word} by nothing"
        yield others, str(finding)


def _meets(finding: Finding, expected: ExpectedFinding) -> bool:
    if finding.rule != expected.rule or (expected.field is not None and finding.field != expected.field):
        return False
    return expected.message is None or _in_one_line(expected.message) in _in_one_line(str(finding))


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def _described(expected: ExpectedFinding) -> str:
    place = f" at {expected.field}" if expected.field is not None else ""
    message = f' saying "{_in_one_line(expected.message)}"' if expected.message is not None else ""
    return printable(f"{expected.rule}{place}{message}")


def _instead(expected: ExpectedFinding, findings: Sequence[Finding], word: str) -> str:
    """What the rule found that counts as something else."""
    others = [f"{_word(finding)} {finding}" for finding in findings if finding.rule == expected.rule]
    return "; ".join(others) if others else f"not {word} by it"


def _word(finding: Finding) -> str:
    if finding.refuses:
        return "refused:"
    return "warned:" if finding.warns else "recorded only:"


def _in_pod(expected: Expectation, pod: Completion) -> Iterator[tuple[str, Mismatch]]:
    """What the completed pod lacks, what it had before, and what it has got though nothing was expected."""
    for key, values in (("result", expected.result), ("injected", expected.injected)):
        for mismatch in lacking(values, pod.after) if values is not None else ():
            yield f"{key} {mismatch.place}", mismatch
    for mismatch in own(expected.injected, pod.before):
        yield f"injected {mismatch.place}", mismatch
    if expected.unchanged is not None and expected.unchanged != (pod.before == pod.after):
        wanted = "nothing injected" if expected.unchanged else "something injected"
        yield "unchanged", Mismatch("", wanted, _injected(pod.rules))


def _injected(rules: Sequence[str]) -> str:
    return f"injected by {', '.join(rules)}" if rules else "nothing injected"
