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
OLD = policy({"priorityClass": {"name": "old", "allowed": ["own"], "ifMissing": "refuse"}})
NEW = policy({"priorityClass": {"name": "new", "allowed": ["own"], "ifMissing": "refuse"}})
LAB = {"selectors": [{"app": "lab"}]}
A_DAY = policy({"timeLimit": {**LAB, "max": "24h"}})
AN_HOUR = policy({"timeLimit": {**LAB, "max": "1h"}})


def trainer(name: str = "", **spec: Any) -> dict[str, Any]:
    return pod(1, spec={**spec, **({"priorityClassName": name} if name else {})}, labels={"app": "lab"})


def completed(raw: dict[str, Any], using: Policy) -> Any:
    return engine.mutate(raw, using, CLUSTER).object


def judged(raw: Any, using: Policy, facts: Cluster = CLUSTER) -> Outcome:
    return engine.validate(raw, using, facts)


@pytest.mark.parametrize("name", ["", "normal"], ids=["none", "the default"])
def test_a_class_that_got_lost_is_found(name: str) -> None:
    outcome = judged(trainer(name), NEW)
    assert [finding.kind for finding in outcome.findings] == [FindingKind.MISSING]
    assert len(outcome.refusals) == 1
    assert judged(completed(trainer(name), NEW), NEW).findings == ()


@pytest.mark.parametrize("rules", [{"name": "new"}, {"name": "new", "allowed": ["new"]}], ids=["", "and allowed"])
def test_a_class_that_was_deleted_meanwhile_is_not_missed(rules: dict[str, Any]) -> None:
    using = policy({"priorityClass": {**rules, "ifMissing": "refuse"}})
    assert judged(completed(trainer(), using), using, facts=EMPTIED).findings == ()


def test_a_pod_that_was_created_without_a_class_because_there_was_none_may_be_created() -> None:
    using = policy({"priorityClass": {"name": "new", "ifMissing": "refuse"}})
    without = engine.mutate(trainer(), using, EMPTIED)
    assert without.injections == ()
    assert judged(without.object, using, facts=EMPTIED).findings == ()


@pytest.mark.parametrize(("before", "after"), [(OLD, NEW), (A_DAY, AN_HOUR)], ids=["class", "time"])
def test_what_another_policy_set_is_not_held_against_the_pod(before: Policy, after: Policy) -> None:
    ready = completed(trainer(), before)
    assert (judged(ready, after).refusals, judged(ready, after).warnings) == ((), ())


@pytest.mark.parametrize(
    ("before", "after", "raw"),
    [
        pytest.param(OLD, NEW, trainer("old"), id="class"),
        pytest.param(A_DAY, AN_HOUR, trainer(activeDeadlineSeconds=86400), id="time"),
    ],
)
def test_what_the_author_wrote_is_held_against_it_as_soon_as_one_policy_completes_and_judges(
    before: Policy, after: Policy, raw: dict[str, Any]
) -> None:
    assert judged(completed(raw, before), after).refusals == ()
    assert len(judged(completed(raw, after), after).refusals) == 1


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


def test_an_update_that_leaves_class_and_time_alone_is_silent() -> None:
    raw = trainer("normal-x", activeDeadlineSeconds=86400)
    using = policy({"priorityClass": {"allowed": ["own"]}, "timeLimit": {**LAB, "max": "1h"}})
    changed = {**raw, "metadata": {**raw["metadata"], "annotations": {"a": "b"}}}
    assert engine.validate(changed, using, CLUSTER, old=raw).findings == ()
    assert len(engine.validate(raw, using, CLUSTER).refusals) == 2


@pytest.mark.parametrize(("seconds", "refused"), [(3600, 0), (86399, 1)], ids=["to what is allowed", "not enough"])
def test_an_update_that_lowers_the_time_lowers_it_to_what_is_allowed(seconds: int, refused: int) -> None:
    old, new = trainer(activeDeadlineSeconds=86400), trainer(activeDeadlineSeconds=seconds)
    assert len(engine.validate(new, AN_HOUR, CLUSTER, old=old).refusals) == refused
