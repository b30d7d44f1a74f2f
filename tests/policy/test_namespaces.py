"""Names and globs of namespaces."""

import pytest

from webhook.policy.namespaces import fault_in


@pytest.mark.parametrize("pattern", ["a", "team-a", "9", "a" * 63, "*", "?", "team-*", "*-gpu", "a?c", "?" * 63])
def test_names_and_globs_that_can_be_namespaces_are_accepted(pattern: str) -> None:
    assert fault_in(pattern) == ""


@pytest.mark.parametrize(
    "pattern", ["", "Team", "a_b", "-a", "a-", "a.b", "a" * 64, "[ab]*", "{a,b}", "a*-", "-*", "?" * 64, "a b", "a\n"]
)
def test_what_cannot_be_a_namespace_is_refused(pattern: str) -> None:
    assert "cannot be a namespace" in fault_in(pattern)
