"""Objects of any shape and size: nothing raises, only counts are counted, and no finding is about the status."""

import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.golden import each
from tests.model.workloads.samples import OBJECTS, title
from webhook.model.pod_reader import pod_from_raw
from webhook.model.shape import ShapeError
from webhook.model.workloads import Template, templates_of
from webhook.model.workloads.template import MOST_PODS

DEEP: Any = []
for _ in range(3000):
    DEEP = [DEEP]
HOSTILE = (
    *(None, True, 0, -1, 2**70, 1e308, "", "{{x}}", "$GPUS", "x" * 1000, "8", [], {}, [None], [[]], {"": None}),
    *(
        {"name": None},
        [{"name": {}}],
        [{"name": "a", "template": 7}],
        {"containers": [{"name": "a", "image": 1}]},
        DEEP,
    ),
)


def places(raw: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(raw, (dict, list)):
        for key, value in raw.items() if isinstance(raw, dict) else enumerate(raw):
            yield from places(value, (*path, key))


def with_value(raw: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    key, *rest = path
    changed = copy.copy(raw)
    changed[key] = with_value(raw[key], tuple(rest), value) if rest else value
    return changed


def read(raw: dict[str, Any]) -> tuple[Template, ...]:
    """The templates of an object, each looked at as the engine does: a malformed one is a named error."""
    found = templates_of(raw)
    for template in found:
        assert template.pods is None or 0 <= template.pods <= MOST_PODS**3
        with suppress(ShapeError):
            pod_from_raw(template.pod)
        for field in ("spec.containers[main].image", "metadata.annotations", "spec"):
            assert template.place(field)
            assert not template.is_unknown("spec")
    return found


CHANGES = [(raw, path) for raw in OBJECTS for path in places(raw) if path and path[0] not in ("apiVersion", "kind")]


@pytest.mark.parametrize("at", range(len(HOSTILE)))
def test_any_part_of_a_workload_may_be_anything(at: int) -> None:
    """Each value in a third of the places; most kinds have their templates in places that other kinds have, too."""
    for raw, path in CHANGES[at % 3 :: 3]:
        read(with_value(raw, path, HOSTILE[at]))


@pytest.mark.parametrize("key", ["apiVersion", "kind"])
@pytest.mark.parametrize("value", [None, 7, [], {}, ["Pod"]], ids=str)
def test_an_object_may_have_any_head(key: str, value: Any) -> None:
    assert read({"apiVersion": "a/v1", "kind": "Thing", key: value}) == ()


@pytest.mark.parametrize("raw", OBJECTS, ids=title)
def test_reading_changes_nothing_and_says_the_same_again(raw: dict[str, Any]) -> None:
    before = copy.deepcopy(raw)
    assert templates_of(raw) == templates_of(raw)
    assert raw == before


@pytest.mark.parametrize("raw", OBJECTS, ids=title)
def test_what_stands_in_the_status_makes_no_pods(raw: dict[str, Any]) -> None:
    assert templates_of({**raw, "spec": None, "template": None, "status": {"spec": raw.get("spec"), **raw}}) == ()


CONTAINERS = [{"name": "a", "image": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]
TEMPLATE = {"spec": {"containers": CONTAINERS}}
MANY = 10_000


def workflow(**spec: Any) -> dict[str, Any]:
    templates = [{"name": f"t{n}", "container": CONTAINERS[0]} for n in range(MANY)]
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "spec": {"templates": templates, **spec}}


@each(
    "raw",
    {
        "tasks": {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "spec": {"tasks": [{"name": f"t{n}", "replicas": 1, "template": TEMPLATE} for n in range(MANY)]},
        },
        "cliques": {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "spec": {
                "template": {
                    "cliques": [{"name": f"c{n}", "spec": {"podSpec": TEMPLATE["spec"]}} for n in range(MANY)],
                    "podCliqueScalingGroups": [{"cliqueNames": [f"c{n}"]} for n in range(MANY)],
                }
            },
        },
        "services": {
            "apiVersion": "nvidia.com/v1alpha1",
            "kind": "DynamoGraphDeployment",
            "spec": {
                "envs": [{"name": "A", "value": "b"}],
                "services": {f"s{n}": {"resources": {"limits": {"gpu": "1"}}} for n in range(MANY)},
            },
        },
        "templates and volumes": workflow(volumes=[{"name": f"v{n}"} for n in range(MANY)]),
        "searched": {"apiVersion": "a.b/v1", "kind": "Thing", "spec": {"things": [TEMPLATE] * MANY}},
    },
)
def test_ten_thousand_templates_are_read(raw: dict[str, Any]) -> None:
    assert len(templates_of(raw)) == MANY


@each(
    "spec",
    {
        "tolerations": {"tolerations": [{"key": "a"}] * MANY},
        "defaults": {"templateDefaults": {"volumes": [{"name": f"v{n}"} for n in range(MANY)]}},
        "annotations": {"podMetadata": {"annotations": {f"a{n}": "" for n in range(MANY)}}},
    },
)
def test_much_that_many_templates_share_is_left_alone(spec: dict[str, Any]) -> None:
    """Read for each of them it would take hours."""
    assert templates_of(workflow(**spec)) == ()


def test_very_many_sidecars_are_found_where_they_stand() -> None:
    sidecars = [{"name": f"s{n}", "image": "a"} for n in range(MANY)]
    template = {"name": "a", "container": CONTAINERS[0], "sidecars": sidecars}
    raw = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "spec": {"templates": [template]}}
    (found,) = templates_of(raw)
    assert all(found.place(f"spec.containers[s{n}]") == f"spec.templates[a].sidecars[s{n}]" for n in range(MANY))


@each(
    "value",
    {
        "wide": [{} for _ in range(500_000)],
        "deep": DEEP,
        "containers that are none": {"containers": [{"name": "a"}] * 100_000},
        "a long name": {"containers": [{"name": "-" * 100_000}]},
        "long keys": {"x" * 1_000_000: {"y" * 1_000_000: []}},
    },
)
def test_a_huge_object_of_an_unknown_kind_has_no_templates(value: Any) -> None:
    assert templates_of({"apiVersion": "example.com/v1", "kind": "Thing", "spec": value}) == ()
