"""What people are told: warnings that the API server does not cut, and everything that refuses in one message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import checked
from webhook.outcome import (
    LONGEST_LINE,
    LONGEST_WARNING,
    MOST_REFUSED,
    MOST_VIOLATIONS,
    MOST_WARNED,
    Finding,
    FindingKind,
    Outcome,
)
from webhook.policy.policy_set import NO_POLICY
from webhook.rules.rule_settings import Mode


def finding(
    message: str = "found; allowed",
    remedy: str = "Do this",
    *,
    mode: Mode = Mode.ENFORCE,
    refuses: bool = False,
    field: str = "spec",
) -> Finding:
    return Finding("rule", mode, FindingKind.VIOLATION, field, message, remedy, refuses=refuses)


def outcome(*findings: Finding) -> Outcome:
    return Outcome(NO_POLICY, {}, findings)


def test_a_finding_reads_rule_place_message_remedy() -> None:
    assert str(finding()) == "rule: spec: found; allowed. Do this."


def test_a_finding_without_remedy_ends_after_its_message() -> None:
    assert str(finding(remedy="")) == "rule: spec: found; allowed."


def test_a_warning_reads_like_the_finding() -> None:
    assert finding().warning == str(finding())


@given(field=st.text(max_size=400), message=st.text(max_size=400), remedy=st.text(max_size=400), known=st.booleans())
@checked
def test_a_warning_is_printable_ascii_of_at_most_256_characters(
    field: str, message: str, remedy: str, known: bool
) -> None:
    warning = finding(message, remedy, field=field if known else "spec").warning
    assert len(warning) <= LONGEST_WARNING == 256
    assert all(" " <= character <= "~" for character in warning)


@pytest.mark.parametrize("length", [10, 199, 200, 201, 5000])
def test_a_long_warning_is_cut_before_its_remedy(length: int) -> None:
    warning = finding("x" * length, "Move the 4 to resources.limits").warning
    assert warning.endswith(". Move the 4 to resources.limits.")
    assert ("..." in warning) == (len(warning) == LONGEST_WARNING and length > 200)
    assert "...." not in warning


def test_a_remedy_too_long_for_a_warning_leaves_room_for_what_it_is_about() -> None:
    warning = finding("too many GPUs", "y" * 1000).warning
    assert warning.startswith("rule: spec: too many GPUs. yyy")
    assert warning.endswith("yyy [...].")


def words(number: int) -> str:
    return " ".join(f"word{at}" for at in range(number))


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        pytest.param(words(60), "Do this", id="a long message"),
        pytest.param(f"{words(60)}; it breaks", "Do this", id="a long finding with a reason"),
        pytest.param("too many", words(60), id="a long remedy"),
        pytest.param(words(60), words(60), id="both"),
        pytest.param(words(60), "", id="no remedy"),
        pytest.param(f"is {'x' * 60}...", "Do this", id="a message that ends in dots"),
    ],
)
@pytest.mark.parametrize("length", range(3))
def test_a_warning_is_cut_between_words_and_ends_in_one_full_stop(message: str, remedy: str, length: int) -> None:
    """Wherever the end falls: the place moves it."""
    given_words = {*f"{message} {remedy}".replace(";", "").split(), "rule:"}
    warning = finding(message, remedy, field="f" * (4 + length)).warning
    assert len(warning) <= LONGEST_WARNING
    assert "...." not in warning
    assert (warning.endswith("."), warning.endswith("..")) == (True, False)
    assert {word.rstrip(".;") for word in warning.split()[2:]} <= {word.rstrip(".") for word in given_words} | {"[...]"}


def test_a_warning_that_is_cut_keeps_the_reason_and_the_remedy() -> None:
    warning = finding(f"{words(60)}; it can use up its node's memory", "Write limits.memory").warning
    assert warning.startswith("rule: spec: word0 word1 ")
    assert warning.endswith("...; it can use up its node's memory. Write limits.memory.")


def test_a_warning_says_in_brief_what_is_too_long_and_leaves_alternatives_out_before_it_cuts() -> None:
    long = Finding(
        "rule", Mode.WARN, FindingKind.ADVICE, "spec", words(60), f"Use A, or {words(50)}", brief="needs A; has B"
    )
    assert long.warning == "rule: spec: needs A; has B. Use A."
    assert str(long).startswith(f"rule: spec: {words(60)}. Use A, or word0")


def test_a_warning_that_is_short_enough_is_not_made_brief() -> None:
    short = Finding("rule", Mode.WARN, FindingKind.ADVICE, "spec", "needs A, as the tag says", "Use A", brief="needs A")
    assert short.warning == "rule: spec: needs A, as the tag says. Use A."


def test_a_megabyte_of_alternatives_costs_no_more_than_its_length() -> None:
    assert len(finding("x", "a, or " * 200_000).warning) <= LONGEST_WARNING


def test_a_message_cannot_break_its_line_or_drive_a_terminal() -> None:
    assert str(finding('is "a\x1b[2J\nb\u2028c" é')) == 'rule: spec: is "a?[2J?b?c" é. Do this.'


@pytest.mark.parametrize(
    ("mode", "refuses", "warns"),
    [
        (Mode.ENFORCE, True, False),
        (Mode.ENFORCE, False, True),
        (Mode.WARN, False, True),
        (Mode.AUDIT, False, False),
    ],
    ids=["refused", "enforced advice", "warn", "audit"],
)
def test_what_refuses_is_not_also_a_warning(mode: Mode, refuses: bool, warns: bool) -> None:
    said = outcome(finding(mode=mode, refuses=refuses))
    assert (refuses, warns) == (bool(said.refusal), bool(said.warnings))


def test_one_violation_is_the_refusal() -> None:
    assert outcome(finding(refuses=True), finding()).refusal == "rule: spec: found; allowed. Do this."


def test_several_violations_are_counted_and_listed_all_at_once() -> None:
    refusal = outcome(finding("a; b", refuses=True), finding("c; d", refuses=True)).refusal
    assert refusal == "2 violations:\n- rule: spec: a; b. Do this.\n- rule: spec: c; d. Do this."


def test_a_pod_made_to_have_thousands_of_violations_gets_a_message_of_bounded_length() -> None:
    refusal = outcome(*(finding(f"{number}; d", refuses=True) for number in range(5000))).refusal
    lines = refusal.splitlines()
    assert (len(lines), lines[0], lines[-1]) == (MOST_VIOLATIONS + 2, "5000 violations:", "- and 4900 more")


def test_the_same_warning_is_said_once() -> None:
    assert outcome(finding(), finding(), finding("other")).warnings == (finding().warning, finding("other").warning)


def test_of_more_warnings_than_the_api_server_passes_on_it_is_said_how_many_there_are() -> None:
    warnings = outcome(*(finding(f"{number}; d") for number in range(5000))).warnings
    assert MOST_WARNED - LONGEST_WARNING < sum(map(len, warnings)) <= MOST_WARNED
    assert warnings[-1] == f"and {5001 - len(warnings)} more; gpu-policy review shows all of them"
    assert warnings[0] == finding("0; d").warning


def test_A48_a_refusal_is_cut_before_its_remedy() -> None:
    text = outcome(finding("x" * 1_000_000, refuses=True)).refusal
    assert len(text) == LONGEST_LINE
    assert text.endswith("xxx.... Do this.")
    assert finding("x" * 100, refuses=True).violation == str(finding("x" * 100))


def test_A48_a_refusal_of_many_violations_says_how_many_there_is_no_room_for() -> None:
    text = outcome(*[finding("x" * 5_000, "y" * 5_000, refuses=True) for _ in range(90)]).refusal
    lines = text.split("\n")
    assert lines[0] == "90 violations:"
    assert lines[-1] == f"- and {90 - (len(lines) - 2)} more"
    assert 2 < len(lines) < 20
    assert len(text) <= MOST_REFUSED + 100
