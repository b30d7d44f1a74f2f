"""A duration in a policy: how it is written, told when it is wrong, shown, and known to editors."""

import pytest
import yaml

from webhook.policy.show import explain


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(
            "1d", '"1d" is not a duration; write hours, minutes and seconds such as 12h, 90m or 1h30m', id="days"
        ),
        pytest.param(
            "8 h", '"8 h" is not a duration; write hours, minutes and seconds such as 12h, 90m or 1h30m', id="a blank"
        ),
        pytest.param(
            "43200", "43200 is not a duration; write hours, minutes and seconds such as 12h, 90m or 1h30m", id="no unit"
        ),
        pytest.param(
            "1.5", "1.5 is not a duration; write hours, minutes and seconds such as 12h, 90m or 1h30m", id="a fraction"
        ),
        pytest.param(
            "yes",
            "yes is a boolean in YAML; write hours, minutes and seconds such as 12h, 90m or 1h30m",
            id="a boolean",
        ),
        pytest.param("[8h]", "found a list; write a string such as 12h", id="a list"),
        pytest.param("0s", "0s is out of range; write a duration from 1s to 596523h14m7s", id="nothing"),
    ],
)
def test_what_is_no_duration_is_told_with_line_key_and_remedy(policies, written, expected) -> None:
    policies.policy("team-a", f"timeLimit: {{mode: warn, max: {written}}}")
    assert [f"team-a.yaml:6: spec.rules.timeLimit.max: {expected}"] == policies.errors()


@pytest.mark.parametrize(
    ("rules", "shown"),
    [
        ("{mode: warn, max: 90m}", "1h30m"),
        ('{mode: warn, max: "7200s"}', "2h"),
        ("{mode: warn}", "12h"),
    ],
    ids=["minutes", "seconds", "the default"],
)
def test_a_duration_is_shown_in_one_way(policies, rules, shown) -> None:
    policies.policy("team-a", f"timeLimit: {rules}")
    before = policies.load()
    text = explain(before, "team-a")
    assert yaml.safe_load(text)["spec"]["rules"]["timeLimit"]["max"] == shown
    policies.write("team-a.yaml", text)
    after = policies.load()
    assert after.for_namespace("team-a").rules[0].settings == before.for_namespace("team-a").rules[0].settings
