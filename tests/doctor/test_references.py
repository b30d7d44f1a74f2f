"""What policies name of the cluster is looked for there, and what cannot be looked for is said so."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from webhook.doctor import platform
from webhook.doctor.checklist import CHECKS, examine
from webhook.doctor.cluster import UnavailableError
from webhook.doctor.doctor_finding import DoctorFinding, Status
from webhook.doctor.installation import Installation, Place
from webhook.policy.loader import load

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
    return list(platform.references(installation(directory, rules, objects)))


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
    assert finding.expected == "a class that pods can have"
    assert finding.remedy == "correct the policy, or kubectl create priorityclass gpu-training --value=VALUE"


@pytest.mark.parametrize("path", [RUNTIME_CLASSES, PRIORITY_CLASSES])
def test_classes_that_must_not_be_listed_are_said_to_be_unknown(tmp_path: Path, path: str) -> None:
    """An operator without the right is told so, and not that the cluster has none."""
    objects = {kind: found for kind, found in holding("gpu-training").items() if kind != path}
    checks = [check for check in CHECKS if check.key == "references"]
    (result,) = examine(installation(tmp_path, NAMED, objects), checks).results
    assert result.finding.status is Status.SKIPPED
    assert result.finding.found == f"the API server answered 403: cannot list {path}"


def test_policies_that_name_nothing_need_nothing(tmp_path: Path) -> None:
    (finding,) = said(tmp_path, "{sharedMemory: {mode: enforce}}", {})
    assert finding.status is Status.SKIPPED
    assert finding.found == "the policies name no RuntimeClass, no PriorityClass, no node label and no taint"
