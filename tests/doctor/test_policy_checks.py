"""ConfigMaps are read as the kubelet projects them, so that the hash is the one that replicas serve."""

import base64
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from webhook.doctor import policy_checks
from webhook.doctor.checklist import CHECKS, examine
from webhook.doctor.cluster import UnavailableError
from webhook.doctor.doctor_report import DoctorFinding, Status
from webhook.doctor.installation import Installation, Place, changed_at, of_config_maps
from webhook.policy.loader import load
from webhook.yaml_files.file_errors import FileErrors

SHIPPED = Path(__file__).resolve().parents[2] / "policies"


def config_map(files: dict[str, str], **others: Any) -> dict[str, Any]:
    return {"metadata": {"name": "m"}, "data": files, **others}


def shipped(*names: str) -> dict[str, str]:
    return {file.name: file.read_text() for file in SHIPPED.glob("*.yaml") if not names or file.name in names}


WHOLE = [({"name": "m"}, config_map(shipped()))]


@pytest.mark.parametrize(
    "mounted",
    [
        pytest.param(WHOLE, id="one ConfigMap"),
        pytest.param(
            [
                ({"name": "a"}, config_map(shipped("_default.yaml", "team-vision.yaml"))),
                ({"name": "b"}, config_map(shipped("gpu-operator.yaml", "team-notebooks.yaml"))),
            ],
            id="several",
        ),
        pytest.param(
            [({"name": "a"}, config_map({"_default.yaml": "garbage"})), *WHOLE], id="a later file wins over an earlier"
        ),
        pytest.param(
            [
                (
                    {"name": "m", "items": [{"key": f"x{name}", "path": name} for name in shipped()]},
                    config_map({f"x{name}": text for name, text in shipped().items()} | {"other.yaml": "garbage"}),
                )
            ],
            id="items",
        ),
        pytest.param(
            [
                (
                    {"name": "m"},
                    {
                        "metadata": {"name": "m"},
                        "binaryData": {
                            name: base64.b64encode(text.encode()).decode() for name, text in shipped().items()
                        },
                    },
                )
            ],
            id="binaryData",
        ),
    ],
)
def test_the_policies_of_config_maps_are_those_of_the_directory_that_they_become(mounted: Any) -> None:
    assert load(SHIPPED).hash == of_config_maps(mounted).hash


def test_mistakes_name_the_config_map_and_the_file() -> None:
    with pytest.raises(FileErrors) as refused:
        of_config_maps([({"name": "teams"}, config_map({"a.yml": "", "_other.yaml": "", "b.yaml": "[]"}))])
    assert [str(error).partition(": ")[0] for error in refused.value.errors] == [
        "ConfigMap teams/_other.yaml",
        "ConfigMap teams/a.yml",
        "ConfigMap teams/b.yaml:1",
    ]


def test_no_config_map_is_no_empty_set_of_policies() -> None:
    with pytest.raises(UnavailableError, match="mounts no ConfigMap with policies"):
        of_config_maps([])
    with pytest.raises(FileErrors, match="ConfigMap m: holds no policy file"):
        of_config_maps([({"name": "m"}, config_map({}))])


def test_a_change_is_as_old_as_the_last_writer_says() -> None:
    metadata = {
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"time": "2026-03-01T00:00:00Z"}, {"time": "2026-02-01T00:00:00Z"}, {}],
    }
    assert changed_at({"metadata": metadata}) == datetime(2026, 3, 1, tzinfo=UTC)
    assert changed_at({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}) == datetime(2026, 1, 1, tzinfo=UTC)


NODES, RUNTIME_CLASSES = "/api/v1/nodes", "/apis/node.k8s.io/v1/runtimeclasses"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NAMED = "{priorityClass: {mode: enforce, name: gpu-training}}"


class Listing:
    """A cluster that has these objects, and refuses to list all others."""

    def __init__(self, objects: Mapping[str, list[dict[str, Any]]]) -> None:
        self._objects = objects

    def items(self, path: str, query: Mapping[str, str] = MappingProxyType({})) -> Iterator[dict[str, Any]]:
        assert not query
        if path not in self._objects:
            raise UnavailableError(f"the API server answered 403: cannot list {path}", "other rights")
        yield from self._objects[path]


def installation(directory: Path, rules: str, objects: Mapping[str, list[dict[str, Any]]]) -> Installation:
    head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: _default}\n"
    (directory / "_default.yaml").write_text(f"{head}spec: {{rules: {rules}}}\n")
    found = Installation(Listing(objects), Place())
    found.policies = load(directory)
    return found


def holding(*priority_classes: str) -> dict[str, list[dict[str, Any]]]:
    named = [{"metadata": {"name": name}, "value": 10} for name in priority_classes]
    return {NODES: [], RUNTIME_CLASSES: [], PRIORITY_CLASSES: named}


def said(directory: Path, rules: str, objects: Mapping[str, list[dict[str, Any]]]) -> list[DoctorFinding]:
    return list(policy_checks.references(installation(directory, rules, objects)))


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        pytest.param(NAMED, "1 class, node label or taint", id="one"),
        pytest.param(
            "{priorityClass: {mode: warn, allowed: [gpu-training, low]}}",
            "2 classes, node labels and taints",
            id="several",
        ),
    ],
)
def test_priority_classes_that_the_cluster_has_are_well(tmp_path: Path, rules: str, found: str) -> None:
    (finding,) = said(tmp_path, rules, holding("gpu-training", "low"))
    assert finding.status is Status.OK
    assert finding.found == f"the cluster has all that the policies name: {found}"


def test_a_priority_class_that_the_cluster_lacks_is_a_warning_with_the_way_to_make_it(tmp_path: Path) -> None:
    (finding,) = said(tmp_path, NAMED, holding("gpu-inference"))
    assert finding.status is Status.WARNING
    assert finding.found == "the cluster has no PriorityClass gpu-training (_default.yaml: priorityClass)"
    assert finding.expected == "a PriorityClass that exists"
    assert finding.remedy == "correct the policy, or kubectl create priorityclass gpu-training --value=VALUE"


@pytest.mark.parametrize("path", [RUNTIME_CLASSES, PRIORITY_CLASSES])
def test_classes_that_must_not_be_listed_are_said_to_be_unknown(tmp_path: Path, path: str) -> None:
    """For an operator without the right the finding names the right; it does not say that the cluster has none."""
    objects = {kind: found for kind, found in holding("gpu-training").items() if kind != path}
    checks = [check for check in CHECKS if check.key == "references"]
    (result,) = examine(installation(tmp_path, NAMED, objects), checks).results
    assert result.finding.status is Status.SKIPPED
    assert result.finding.found == f"the API server answered 403: cannot list {path}"


def test_policies_that_name_nothing_need_nothing(tmp_path: Path) -> None:
    (finding,) = said(tmp_path, "{sharedMemory: {mode: enforce}}", {})
    assert finding.status is Status.SKIPPED
    assert finding.found == "the policies name no RuntimeClass, no PriorityClass, no node label and no taint"
