"""Every kind of the table: where its pod templates stand, what the object calls their pods, and how many there are."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.model.workloads.samples import CASES, OBJECTS, title
from webhook.model.pod_reader import pod_from_raw
from webhook.model.workloads import WORKLOADS, Template, templates_of, workload_of

OF_SLINKY = {"key": "nodeset.slinky.slurm.net/worker", "operator": "Equal", "effect": "NoExecute"}
"""What Slinky adds to the tolerations that the author wrote."""
EXPECTED = [pytest.param(case["object"], case["templates"], id=title(case["object"])) for case in CASES]


def seen(template: Template) -> list[Any]:
    gpus = pod_from_raw(template.pod).gpu_count
    found = [template.path, template.group, template.pods, gpus]
    return [*found, True] if template.is_validated else found


@pytest.mark.parametrize(("raw", "expected"), EXPECTED)
def test_the_templates_of_a_kind_are_found_and_counted(raw: dict[str, Any], expected: list[Any]) -> None:
    assert [seen(template) for template in templates_of(raw)] == expected


def test_every_kind_of_the_table_has_a_case() -> None:
    tried = {(raw["apiVersion"].rpartition("/")[0], raw["kind"]) for raw in OBJECTS}
    assert tried == set(WORKLOADS)


def at(raw: object, path: str) -> object:
    """What stands at a place such as `spec.tasks[worker].template`; raises where there is nothing."""
    for word in re.findall(r"[^.\[\]]+(?=[.\[]|\Z)|\[[^\]]*\]", path):
        if not word.startswith("["):
            raw = raw[word]
            continue
        name, items = word[1:-1], raw
        assert isinstance(items, (list, dict))
        if isinstance(items, dict):
            raw = items[name]
        elif name.isdigit():
            raw = items[int(name)]
        else:
            raw = next(item for item in items if name in (item.get("name"), item.get("groupName"), item.get("manager")))
    return raw


@pytest.mark.parametrize("raw", OBJECTS, ids=title)
def test_what_a_message_names_stands_there_in_the_object(raw: dict[str, Any]) -> None:
    """The GPUs of a container, its image and the constraints on nodes, wherever the kind keeps them."""
    for template in templates_of(raw):
        spec = template.pod["spec"]
        for index, container in enumerate(spec["containers"]):
            inside = f"spec.containers[{container.get('name', index)}]"
            assert isinstance(at(raw, template.place(inside)), dict)
            amounts = {
                **(container.get("resources") or {}).get("limits", {}),
                **(container.get("resources") or {}).get("requests", {}),
            }
            gpus = str(amounts.get("nvidia.com/gpu", ""))
            if gpus not in ("", "0"):
                stands = at(raw, template.place(f"{inside}.resources"))
                assert gpus in re.findall(r"\w+", str(stands))
        written = [one for one in spec.get("tolerations") or () if one != OF_SLINKY]
        for key, value in (("nodeSelector", spec.get("nodeSelector")), ("tolerations", written)):
            if value:
                assert at(raw, template.place(f"spec.{key}")) == value


@pytest.mark.parametrize(("group", "kind"), WORKLOADS, ids=lambda part: str(part) or "core")
def test_a_kind_is_known_in_every_version(group: str, kind: str) -> None:
    for version in ("v1", "v1beta1"):
        assert workload_of(f"{group}/{version}" if group else version, kind) is WORKLOADS[group, kind]


def test_a_pod_is_no_template() -> None:
    assert (
        templates_of({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a", "image": "a"}]}}) == ()
    )


def test_every_kind_is_documented_with_its_group() -> None:
    rows = Path("docs/workloads.md").read_text().splitlines()
    documented = {
        (group.replace("core", "").strip("` "), kind.strip())
        for row in rows
        if row.startswith("| ") and len(row.split("|")) > 3
        for group in row.split("|")[1].split(",")
        for kind in row.split("|")[2].split(",")
    }
    assert [key for key in WORKLOADS if key not in documented] == []
