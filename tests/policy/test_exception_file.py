"""Mistakes in `_exceptions.yaml` are told all at once, with file, line and key; what only time brings is no mistake."""

from datetime import UTC, datetime

import pytest

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC).timestamp()
RULES = "gpuLimits: {mode: enforce, maxPerPod: 8}\ngpuQuota: {mode: enforce, gpus: 16}"
SOUND = """\
- name: bert-legacy
  namespaces: [team-nlp]
  match: {names: ["bert-*"]}
  rules: [gpuLimits]
  until: "2027-01-15"
  reason: migration to 8 GPUs
  ticket: OPS-123
"""


@pytest.fixture
def directory(policies):
    policies.policy("_default", RULES)
    return policies


def test_an_exception_is_read_as_it_is_written(directory) -> None:
    directory.exceptions(SOUND)
    (found,) = directory.load(NOW).exceptions.all
    assert (found.name, found.namespaces, found.match.names) == ("bert-legacy", ("team-nlp",), ("bert-*",))
    assert (found.rules, found.mode, found.ticket, found.node.line) == (("gpuLimits",), "audit", "OPS-123", 6)
    assert found.period.ends == datetime(2027, 1, 16, tzinfo=UTC).timestamp()


def test_an_unquoted_date_is_a_day(directory) -> None:
    directory.exceptions(SOUND.replace('"2027-01-15"', "2027-01-15"))
    assert directory.load(NOW).exceptions.all[0].period.text == "2027-01-15"


def test_the_last_day_that_is_allowed_ends_with_that_day(directory) -> None:
    directory.exceptions(SOUND.replace("2027-01-15", "2027-02-23"))
    assert directory.load(NOW).exceptions.all


def test_the_default_policy_says_how_far_ahead_an_end_may_be(directory) -> None:
    text = (directory.path / "_default.yaml").read_text()
    directory.write("_default.yaml", text.replace("spec:", "spec:\n  exceptions: {maxDays: 10}"))
    directory.exceptions(SOUND)
    assert "2027-01-15 is more than 10 days ahead" in directory.errors(NOW)[0]


def test_an_end_in_the_past_is_a_remark_and_no_mistake(directory) -> None:
    directory.exceptions(SOUND)
    later = datetime(2027, 1, 16, tzinfo=UTC).timestamp()
    assert directory.load(later - 1).notices == ()
    (notice,) = directory.load(later).notices
    assert notice.endswith("_exceptions.yaml:10: exception bert-legacy ended 2027-01-15; remove it")


def test_a_replica_loads_a_set_whatever_its_clock_says(directory) -> None:
    """Without a moment to judge by, no end is too far ahead; the exception does not hold until it is near enough."""
    directory.exceptions(SOUND.replace("2027-01-15", "2031-01-15"))
    assert directory.load(None).exceptions.all[0].period.until(NOW) == ""


def test_settings_are_tried_under_every_policy_that_they_may_be_merged_over(directory) -> None:
    directory.policy("team-nlp", "gpuQuota: {byModel: {H100: 4}}")
    directory.exceptions(
        SOUND.replace("rules: [gpuLimits]", "settings: {gpuQuota: {unspecifiedModel: maybe}}").replace(
            "[team-nlp]", '["team-*"]'
        )
    )
    (error,) = directory.errors(NOW)
    assert error.startswith("_exceptions.yaml:9: spec.exceptions[0].settings.gpuQuota.unspecifiedModel: ")


def test_an_exception_to_a_rule_that_is_disabled_everywhere_is_a_remark(directory) -> None:
    directory.policy("team-nlp", "gpuLimits: {mode: disabled}")
    directory.exceptions(SOUND)
    (notice,) = directory.load(NOW).notices
    assert notice.endswith(
        "_exceptions.yaml:6: exception bert-legacy does nothing about gpuLimits, which is disabled in all of its "
        "namespaces; remove the rule from it"
    )


def test_kinds_that_nobody_knows_and_globs_of_kinds_are_none(directory) -> None:
    directory.exceptions(SOUND.replace('{names: ["bert-*"]}', '{kinds: [things, "job*", Pod]}'))
    assert directory.load(NOW).exceptions.all[0].match.kinds == ("things", "job*", "Pod")
