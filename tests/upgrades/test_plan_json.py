"""A plan as JSON: the whole of it, in the shape that its schema describes."""

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from tests.audit.reports.test_json import closed
from tests.golden import each
from tests.upgrades.generated import DRIVERS, cluster, gpu_node
from tests.upgrades.plans import changed, planned
from webhook.facts.facts import ClusterFacts
from webhook.upgrades.driver_plan import DriverPlan, WorkloadChange, to_json

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "plan-schema.json").read_text())
VALIDATOR = Draft202012Validator(closed(SCHEMA))


@cache
def sample(*, has_matrix: bool) -> DriverPlan:
    now = cluster(3, workloads=80)
    new = ClusterFacts.of([gpu_node("new", "NVIDIA-B200", DRIVERS[4], ("driver-version",))])
    whole = changed(now.facts, ["pool in (a,b)=590.44.01"], ["pool=c"], new)
    return planned(
        [*now.objects, {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": "none"}}],
        whole,
        has_matrix=has_matrix,
    )


def rendered(plan: DriverPlan) -> Any:
    return json.loads(to_json(plan))


@each(
    "plan",
    {
        "with a matrix": partial(sample, has_matrix=True),
        "without a matrix": partial(sample, has_matrix=False),
        "of nothing": lambda: planned([], changed(ClusterFacts.of([]))),
    },
)
def test_what_is_printed_has_the_shape_that_is_documented(plan: Callable[[], DriverPlan]) -> None:
    """Programs read it; the order of words is from the worst change to none."""
    found = rendered(plan())
    VALIDATOR.validate(found)
    words = ["breaks", "unknown", "losesNodes", "compatOnly", "unblocked", "gains", "same"]
    assert list(found["counts"]) == words == list(WorkloadChange)
    ranks = [words.index(one["change"]) for one in found["workloads"]]
    assert ranks == sorted(ranks)
    for change, counted in found["counts"].items():
        rows = [one for one in found["workloads"] if one["change"] == change]
        assert counted == {"workloads": len(rows), "gpus": sum(one["gpus"] for one in rows)}


def test_the_sample_has_all_kinds_of_entries() -> None:
    plan = sample(has_matrix=True)
    assert {one.change for one in plan.workloads} >= {WorkloadChange.BREAKS, WorkloadChange.UNKNOWN}
    assert [one.action for one in plan.pools] == ["set", "retire", "add"]
    assert plan.errors
