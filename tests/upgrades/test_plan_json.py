"""A plan as JSON: the whole of it, in the shape that its schema describes."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.audit.reports.test_json import closed
from tests.upgrades.generated import DRIVERS, cluster, gpu_node
from tests.upgrades.plans import changed, planned
from webhook.audit.documents import DocumentError
from webhook.facts.facts import ClusterFacts
from webhook.upgrades.driver_plan import DriverPlan, WorkloadChange, to_json

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "plan-schema.json").read_text())
VALIDATOR = Draft202012Validator(closed(SCHEMA))


def sample(*, has_matrix: bool) -> DriverPlan:
    """A plan with all kinds of entries."""
    now = cluster(3)
    new = ClusterFacts.of([gpu_node("new", "NVIDIA-B200", DRIVERS[4], ("driver-version",))])
    whole = changed(now.facts, ["pool in (a,b)=590.44.01"], ["pool=c"], new)
    return planned(
        [*now.objects, {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": "none"}}],
        whole,
        has_matrix=has_matrix,
    )


def rendered(plan: DriverPlan) -> Any:
    return json.loads(to_json(plan))


@pytest.mark.parametrize("has_matrix", [True, False], ids=["with a matrix", "without a matrix"])
def test_what_is_printed_has_the_shape_that_is_documented(has_matrix: bool) -> None:
    plan = sample(has_matrix=has_matrix)
    VALIDATOR.validate(rendered(plan))
    assert {one.change for one in plan.workloads} >= {WorkloadChange.BREAKS, WorkloadChange.UNKNOWN}
    assert [one.action for one in plan.pools] == ["set", "retire", "add"]
    assert plan.errors


def test_the_contract_has_its_keys() -> None:
    """Programs read these; the order of words is from the worst change to none."""
    found = rendered(sample(has_matrix=False))
    keys = {"kind", "namespace", "name", "gpus", "change", "before", "after", "reason"}
    assert all(keys <= one.keys() for one in found["workloads"])
    words = ["breaks", "unknown", "losesNodes", "compatOnly", "unblocked", "gains", "same"]
    assert list(found["counts"]) == words == list(WorkloadChange)
    ranks = [words.index(one["change"]) for one in found["workloads"]]
    assert ranks == sorted(ranks)


def test_the_counts_are_those_of_the_rows() -> None:
    found = rendered(sample(has_matrix=False))
    for change, counted in found["counts"].items():
        rows = [one for one in found["workloads"] if one["change"] == change]
        assert counted == {"workloads": len(rows), "gpus": sum(one["gpus"] for one in rows)}


def test_an_empty_plan_has_that_shape_too() -> None:
    plan = planned([], changed(ClusterFacts.of([])))
    VALIDATOR.validate(rendered(plan))
    assert plan.exit_status(WorkloadChange.LOSES_NODES) == 0


def test_half_a_surrogate_pair_is_replaced() -> None:
    error = DocumentError("f.yaml", 1, 2, "\ud800")
    text = to_json(DriverPlan(sample(has_matrix=False).created, (), (), errors=(error,)))
    assert text.isascii()
    assert json.loads(text)["errors"][0]["message"] == "�"
