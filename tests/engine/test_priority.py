"""Classes and limits of time that a policy sets: whose they are when another policy, or no class, is there by now."""

from typing import Any

import pytest

from tests.build import pod, policy
from tests.rules.samples import Cluster
from webhook import engine
from webhook.model.node import PriorityClass
from webhook.outcome import FindingKind, Outcome
from webhook.policy.policy_set import Policy

CLASSES = tuple(PriorityClass(name, 1000) for name in ("old", "new", "own"))
CLUSTER = Cluster(priorities=(PriorityClass("normal", 1, is_default=True), *CLASSES))
EMPTIED = Cluster(priorities=(PriorityClass("normal", 1, is_default=True),))
LAB = {"selectors": [{"app": "lab"}]}


def trainer(name: str = "", **spec: Any) -> dict[str, Any]:
    return pod(1, spec={**spec, **({"priorityClassName": name} if name else {})}, labels={"app": "lab"})


def completed(raw: dict[str, Any], using: Policy) -> Any:
    return engine.mutate(raw, using, CLUSTER).object


def judged(raw: Any, using: Policy, facts: Cluster = CLUSTER) -> Outcome:
    return engine.validate(raw, using, facts)


@pytest.mark.parametrize("rules", [{"name": "new"}, {"name": "new", "allowed": ["new"]}], ids=["", "and allowed"])
def test_a_class_that_was_deleted_meanwhile_is_not_missed(rules: dict[str, Any]) -> None:
    using = policy({"priorityClass": {**rules, "ifMissing": "refuse"}})
    assert judged(completed(trainer(), using), using, facts=EMPTIED).findings == ()


def test_a_pod_that_was_created_without_a_class_because_there_was_none_may_be_created() -> None:
    using = policy({"priorityClass": {"name": "new", "ifMissing": "refuse"}})
    without = engine.mutate(trainer(), using, EMPTIED)
    assert without.injections == ()
    assert judged(without.object, using, facts=EMPTIED).findings == ()


@pytest.mark.parametrize(
    ("raw", "rules"),
    [
        pytest.param(trainer(), {"priorityClass": {"name": "new", "allowed": ["own"]}}, id="class"),
        pytest.param(trainer(), {"timeLimit": LAB}, id="time"),
        pytest.param(trainer(activeDeadlineSeconds=99999), {"timeLimit": {**LAB, "longer": "cap"}}, id="a longer time"),
    ],
)
def test_a_rule_that_only_warns_says_what_it_would_set_and_holds_nothing_against_the_pod(
    raw: dict[str, Any], rules: dict[str, Any]
) -> None:
    using = policy(rules, mode="warn")
    outcome = engine.mutate(raw, using, CLUSTER)
    assert (outcome.injections, judged(raw, using).findings) == ((), ())
    assert FindingKind.INJECTION in [finding.kind for finding in outcome.findings]
