"""Workloads that are malformed, or made to cost: an error with its place, and so many templates."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given

from tests.build import policy
from tests.judged_workloads import (
    ENFORCING,
    EXPOSED,
    LIMITED,
    WARNING,
    cluster,
    judged,
    pods_foreseen,
    said,
    training,
)
from tests.quota.quotas import own
from tests.strategies import broken_pods, checked_on_pods
from webhook.engine.workloads import MOST_TEMPLATES
from webhook.model.shape import ShapeError
from webhook.outcome import Finding, FindingKind, Outcome

# Malformed templates.


def broken(**changes: Any) -> dict[str, Any]:
    raw = training(9, 8, **changes)
    raw["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"] = 7
    return raw


PLACE = "spec.pytorchReplicaSpecs.Worker.template.spec.containers: found a number, expected a list"


def test_a_malformed_template_is_a_warning_that_takes_nothing_from_the_others() -> None:
    found = said(broken())
    assert found[0].startswith("gpuLimits: pod template of Master")
    assert found[1:] == [f"workloads: pod template of Worker (4 pods): {PLACE}. Correct the manifest."]
    assert judged(broken()).refusals == ()


def test_a_malformed_template_is_an_error_where_workloads_are_refused() -> None:
    with pytest.raises(ShapeError, match=PLACE.replace(".", r"\.")):
        judged(broken(), using=ENFORCING)


def test_a_review_is_told_the_place_in_the_object() -> None:
    with pytest.raises(ShapeError, match=PLACE.replace(".", r"\.")):
        pods_foreseen(broken(), WARNING)


@pytest.mark.parametrize("using", [WARNING, ENFORCING], ids=["warn", "enforce"])
def test_an_object_that_was_malformed_before_can_still_be_changed(using: Any) -> None:
    changed = broken()
    changed["spec"]["runPolicy"] = {"suspend": True}
    assert said(changed, using=using, old=broken()) == []


def test_a_template_whose_old_version_was_malformed_is_new_as_a_whole() -> None:
    (finding,) = judged(training(9, 9), old=broken()).findings
    assert finding.about == "pod template of Worker (4 pods, 36 GPUs)"


@checked_on_pods
@given(raw=broken_pods())
def test_no_template_makes_more_than_an_error_with_a_place(raw: Any) -> None:
    job = training()
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"] = raw
    assert isinstance(judged(job, own(gpus=32)), Outcome)
    assert isinstance(judged(training(), own(gpus=32), old=job), Outcome)


# Objects that are made to cost.


def crowd(count: int, gpus: int = 9) -> dict[str, Any]:
    return cluster(*range(gpus, gpus + count))


def test_only_so_many_templates_of_one_object_are_judged_where_somebody_waits_and_it_is_said() -> None:
    found = judged(crowd(30_000)).findings
    *judged_ones, last = found
    assert len(judged_ones) == MOST_TEMPLATES - 1  # the head is one of them, and asks for nothing
    assert (last.kind, last.warns, last.refuses) == (FindingKind.ADVICE, True, False)
    assert str(last) == (
        f"workloads: spec.workerGroupSpecs[gpu-{8 + MOST_TEMPLATES}].template.spec: not checked, like all pod "
        f"templates after it: the object has 30001 of them, and {MOST_TEMPLATES} are checked; pods of the others are "
        "checked when they are created."
    )


def test_what_was_not_looked_at_is_not_said_again() -> None:
    assert said(crowd(MOST_TEMPLATES + 2), old=crowd(MOST_TEMPLATES + 1)) == []


def test_a_review_looks_at_all_of_them() -> None:
    assert sum(one.is_refused for one in pods_foreseen(crowd(MOST_TEMPLATES + 5), WARNING)) == MOST_TEMPLATES + 5


def test_nothing_changes_the_object_that_is_judged() -> None:
    raw = training(9, 9)
    before = copy.deepcopy(raw)
    judged(raw, own(gpus=8), old=training())
    assert raw == before == json.loads(json.dumps(raw))


def test_two_findings_are_one_only_if_they_say_the_same_of_the_same_place() -> None:
    found: list[Finding] = list(judged(training(9, 9)).findings)
    assert len(set(found)) == 2


def test_what_would_refuse_pods_is_said_before_what_would_only_warn() -> None:
    """The API server passes on the first 4096 characters of all warnings."""
    using = policy(LIMITED | {"visibleDevices": {"mode": "warn"}})
    raw = cluster(9)
    raw["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"] = EXPOSED
    assert [finding.rule for finding in judged(raw, using=using).findings] == ["gpuLimits", "visibleDevices"]
