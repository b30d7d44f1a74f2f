"""What people are told: warnings as whole sentences, and everything that refuses in one message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import checked
from webhook.outcome import LONGEST_LINE, MOST_REFUSED, MOST_VIOLATIONS, MOST_WARNED, Finding, FindingKind, Outcome
from webhook.policy.policy_set import NO_POLICY
from webhook.rules.rule_settings import Mode


def finding(
    message: str = "found; allowed",
    remedy: str = "Do this",
    *,
    mode: Mode = Mode.ENFORCE,
    refuses: bool = False,
    field: str = "spec",
    kind: FindingKind = FindingKind.VIOLATION,
) -> Finding:
    return Finding("rule", mode, kind, field, message, remedy, refuses=refuses)


def outcome(*findings: Finding) -> Outcome:
    return Outcome(NO_POLICY, {}, findings)


def test_a_finding_reads_rule_place_message_remedy() -> None:
    assert str(finding()) == "rule: spec: found; allowed. Do this."


def test_a_finding_without_remedy_ends_after_its_message() -> None:
    assert str(finding(remedy="")) == "rule: spec: found; allowed."


@given(field=st.text(max_size=400), message=st.text(max_size=400), remedy=st.text(max_size=400), known=st.booleans())
@checked
def test_a_warning_is_one_line_of_printable_ascii_with_all_that_was_found(
    field: str, message: str, remedy: str, known: bool
) -> None:
    warning = finding(message, remedy, field=field if known else "spec").warning
    assert len(warning) >= len(field if known else "spec") + len(message) + len(remedy)
    assert all(" " <= character <= "~" for character in warning)


def test_a_warning_of_any_usual_length_is_whole() -> None:
    message, remedy = f"needs {'a word ' * 100}; has none", f"Use {'A, or ' * 50}B"
    assert finding(message, remedy).warning == f"rule: spec: {message}. {remedy}."


@pytest.mark.parametrize(
    ("message", "remedy", "field"),
    [
        pytest.param("x" * 1_000_000, "Do this", "spec", id="a message"),
        pytest.param("x", "a, or " * 200_000, "spec", id="a remedy"),
        pytest.param("x", "Do this", "f" * 1_000_000, id="a place"),
    ],
)
def test_a_warning_of_megabytes_is_cut_and_still_says_what_to_do(message: str, remedy: str, field: str) -> None:
    warning = finding(message, remedy, field=field).warning
    assert len(warning) <= LONGEST_LINE
    assert remedy[:7] in warning


def test_a_message_cannot_break_its_line_or_drive_a_terminal() -> None:
    assert str(finding('is "a\x1b[2J\nb\u2028c" é')) == 'rule: spec: is "a?[2J?b?c" é. Do this.'


@pytest.mark.parametrize(
    ("mode", "refuses", "warns"),
    [(Mode.ENFORCE, True, False), (Mode.ENFORCE, False, True), (Mode.WARN, False, True), (Mode.AUDIT, False, False)],
    ids=["refused", "enforced advice", "warn", "audit"],
)
def test_what_refuses_is_not_also_a_warning(mode: Mode, refuses: bool, warns: bool) -> None:
    said = outcome(finding(mode=mode, refuses=refuses))
    assert (refuses, warns) == (bool(said.refusal), bool(said.warnings))


def test_several_violations_are_counted_and_listed_all_at_once() -> None:
    refusal = outcome(finding("a; b", refuses=True), finding("c; d", refuses=True)).refusal
    assert refusal == "2 violations:\n- rule: spec: a; b. Do this.\n- rule: spec: c; d. Do this."


def test_a_pod_made_to_have_thousands_of_violations_gets_a_message_of_bounded_length() -> None:
    refusal = outcome(*(finding(f"{number}; d", refuses=True) for number in range(5000))).refusal
    lines = refusal.splitlines()
    assert (len(lines), lines[0], lines[-1]) == (MOST_VIOLATIONS + 2, "5000 violations:", "- and 4900 more")


def test_the_same_warning_is_said_once() -> None:
    assert outcome(finding(), finding(), finding("other")).warnings == (finding().warning, finding("other").warning)


def test_of_more_warnings_than_there_is_room_for_it_is_said_how_many_are_left_out() -> None:
    warnings = outcome(*(finding(f"{number}; d") for number in range(5000))).warnings
    assert MOST_WARNED - 100 < sum(map(len, warnings)) <= MOST_WARNED
    assert warnings[-1] == f"and {5001 - len(warnings)} more; gpu-policy review shows all of them"
    assert warnings[0] == finding("0; d").warning


def test_the_worst_warnings_come_first_whatever_is_left_out() -> None:
    """What would refuse, enforced rules before others, then advice."""
    advice = [finding("a" * 1_000, kind=FindingKind.ADVICE) for _ in range(2)]
    advice.append(finding("b" * 1_900, kind=FindingKind.ADVICE))
    would_refuse, enforced = finding("c" * 1_000, mode=Mode.WARN), finding("d" * 500)
    assert outcome(*advice, would_refuse, enforced).warnings == (
        enforced.warning,
        would_refuse.warning,
        advice[0].warning,
        "and 1 more; gpu-policy review shows all of them",
    )


def test_a_refusal_is_cut_before_its_remedy() -> None:
    text = outcome(finding("x" * 1_000_000, refuses=True)).refusal
    assert len(text) == LONGEST_LINE
    assert text.endswith("xxx.... Do this.")


def test_a_refusal_of_many_violations_says_how_many_there_is_no_room_for() -> None:
    text = outcome(*[finding("x" * 5_000, "y" * 5_000, refuses=True) for _ in range(90)]).refusal
    lines = text.split("\n")
    assert lines[0] == "90 violations:"
    assert lines[-1] == f"- and {90 - (len(lines) - 2)} more"
    assert 2 < len(lines) < 20
    assert len(text) <= MOST_REFUSED + 100
