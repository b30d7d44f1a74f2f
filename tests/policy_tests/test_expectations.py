"""Every kind of expectation passes where it is met, and fails where it is not."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.golden import each
from tests.policy_tests.files import SEES_ALL, case, deployment, pod, result, results, suite, write

TOLERATION = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
JOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "llama"},
    "spec": {
        "pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": {"spec": pod(2)["spec"]}},
            "Worker": {"replicas": 2, "template": {"spec": pod(9)["spec"]}},
        }
    },
}


def injected(**spec: Any) -> dict[str, Any]:
    return {"injected": {"spec": spec}}


def of_main(**container: Any) -> list[dict[str, Any]]:
    return [{"name": "main", **container}]


ROWS = yaml.safe_load(Path(__file__).with_name("expectations.yaml").read_text())


def resource_of(said: Any) -> Any:
    """A pod or a deployment with so many GPUs, the job above, or the object itself."""
    if said == "job":
        return JOB
    if "pod" in said:
        return pod(said.pop("pod"), **said)
    return deployment(said["deployment"], said["replicas"]) if "deployment" in said else said


@pytest.mark.parametrize(("said", "met", "missed"), ROWS.values(), ids=ROWS)
def test_an_expectation_passes_where_it_is_met_and_fails_where_it_is_not(
    tmp_path: Path, said: Any, met: Any, missed: Any
) -> None:
    resource = resource_of(said)
    good, bad = result(tmp_path, [resource], met), result(tmp_path, [resource], missed)
    assert (good.errors, good.differences) == ((), ())
    assert bad.errors == ()
    assert bad.differences


@each(
    "resources, expect, refused",
    {
        "another group": ([JOB], {"groups": {"Master": {"allowed": True}}}, "PyTorchJob default/llama"),
        "another pod": ([pod(1), pod(9, "b")], {"resources": {"Pod/train": {"allowed": True}}}, "Pod default/b"),
    },
)
def test_what_is_not_named_has_to_be_allowed(tmp_path: Path, resources: Any, expect: Any, refused: str) -> None:
    differences = result(tmp_path, resources, expect).differences
    assert {(one.about, one.expected) for one in differences} == {(refused, "refused by nothing")}
    assert all("gpuLimits: " in one.found for one in differences)


@pytest.mark.parametrize("expect", [{"warned": []}, injected(tolerations=[TOLERATION]), {"unchanged": True}])
def test_what_is_not_said_to_be_refused_has_to_be_allowed(tmp_path: Path, expect: Any) -> None:
    differences = result(tmp_path, [pod(9)], expect).differences
    assert {(one.place, one.expected) for one in differences} == {("allowed", "refused by nothing")}
    assert all("gpuLimits: " in one.found for one in differences)


@pytest.mark.parametrize(
    ("said", "expect", "told"),
    [
        (
            {"pod": 2},
            injected(containers=of_main(env=[{"name": "NCCL_DEBUG", "value": "INFO"}])),
            'injected spec.containers[main].env[NCCL_DEBUG].value: expected "INFO"; found "WARN"',
        ),
        (
            {"pod": 7},
            {"refused": [{"rule": "gpuLimits", "field": "spec"}]},
            "refused: expected gpuLimits at spec; found gpuLimits: spec.containers[main].resources: ",
        ),
        (
            {"pod": 0, "env": [SEES_ALL]},
            {"refused": [{"rule": "visibleDevices"}]},
            "refused: expected visibleDevices; found warned: visibleDevices: spec.containers[main].env",
        ),
    ],
    ids=["a value", "another field", "a warning only"],
)
def test_a_difference_names_resource_place_and_both_sides(tmp_path: Path, said: Any, expect: Any, told: str) -> None:
    (found,) = map(str, result(tmp_path, [resource_of(dict(said))], expect).differences)
    assert found.startswith(f"Pod default/train: {told}")


def test_a_value_that_the_resource_has_itself_is_told_as_such(tmp_path: Path) -> None:
    given = pod(1)
    given["spec"]["tolerations"] = [{**TOLERATION, "operator": "Exists"}]
    (found,) = result(tmp_path, [given], injected(tolerations=[TOLERATION])).differences
    assert found.place == "injected spec.tolerations"
    assert found.found.endswith("in the resource itself")


def test_resources_are_counted_in_order_and_named_by_kind_and_name(tmp_path: Path) -> None:
    resources = [pod(6, "a"), pod(6, "b"), pod(4, "c")]
    expect = {"allowed": True, "resources": {"Pod/b": {"refused": [{"rule": "gpuQuota"}]}}}
    assert result(tmp_path, resources, expect).passed
    assert not result(tmp_path, resources, {"allowed": True}).passed


def test_resources_of_the_same_name_are_told_apart_by_namespace(tmp_path: Path) -> None:
    resources = [pod(9), {**pod(1), "metadata": {"name": "train", "namespace": "other"}}]
    assert result(tmp_path, resources, {"allowed": True, "resources": {"Pod/default/train": {"allowed": False}}}).passed
    both = result(tmp_path, resources, {"resources": {"Pod/train": {"allowed": False}}})
    assert [one.about for one in both.differences] == ["Pod other/train"]


def test_every_case_begins_with_the_pods_of_the_inventory_and_no_others(tmp_path: Path) -> None:
    running = {**pod(4, "running"), "status": {"phase": "Running"}}
    running["spec"]["nodeName"] = "node-0"
    fits, over = case([pod(6)], {"allowed": True}), case([pod(6), pod(1, "b")], {"allowed": True})
    content = suite(
        {**fits, "name": "first"}, {**fits, "name": "second"}, {**over, "name": "third"}, inventory=[running]
    )
    verdicts = [one.passed for one in results(write(tmp_path / "sample.yaml", content)).cases]
    assert verdicts == [True, True, False]


def test_the_namespace_of_a_case_chooses_the_policy_unless_the_resource_names_one(tmp_path: Path) -> None:
    policies = {
        "_default.yaml": {"spec": {"rules": {"gpuLimits": {"mode": "enforce", "maxPerPod": 1}}}},
        "team.yaml": {"spec": {"rules": {"gpuLimits": {"maxPerPod": 2}}}},
    }
    own = {**pod(2), "metadata": {"name": "train", "namespace": "default"}}
    cases = [
        case([pod(2)], {"allowed": True}, "of the case", namespace="team"),
        case([own], {"allowed": False}, "its own", namespace="team"),
        case([pod(2)], {"allowed": False}, "neither"),
    ]
    done = results(write(tmp_path / "sample.yaml", suite(*cases, policies=policies)))
    assert [one.passed for one in done.cases] == [True, True, True]


@pytest.mark.parametrize(("mode", "applied"), [("warn", "warned"), ("enforce", "refused"), ("disabled", "accepted")])
def test_what_apply_says_of_a_workload_follows_the_mode_for_workloads(tmp_path: Path, mode: str, applied: str) -> None:
    rules = {"gpuLimits": {"mode": "enforce", "maxPerPod": 1}}
    policies = {"_default.yaml": {"spec": {"workloads": {"mode": mode}, "rules": rules}}}
    content = suite(case([deployment(2)], {"allowed": False, "applied": applied}), policies=policies)
    (done,) = results(write(tmp_path / "sample.yaml", content)).cases
    assert (done.errors, done.differences) == ((), ())


def test_an_inventory_gives_the_nodes_and_runtime_classes(tmp_path: Path) -> None:
    policies = {"_default.yaml": {"spec": {"rules": {"runtimeClass": {"mode": "enforce", "name": "nvidia"}}}}}
    nvidia = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "n"}
    expect = injected(runtimeClassName="nvidia")
    write(tmp_path / "inventory.yml", {"apiVersion": "v1", "kind": "List", "items": [nvidia]})
    for inventory, passed in (([nvidia], True), ("inventory.yml", True), ([], False)):
        content = suite(case([pod(1)], expect), policies=policies, inventory=inventory)
        (done,) = results(write(tmp_path / "sample.yaml", content)).cases
        assert done.passed is passed


def test_resources_in_files_and_folders_stand_beside_the_test_and_other_objects_are_passed_over(tmp_path: Path) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "serve"}, "spec": {}}
    write(
        tmp_path / "manifests" / "pod.json",
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}',
    )
    write(tmp_path / "manifests" / "list.yaml", {"apiVersion": "v1", "kind": "List", "items": [service, deployment(9)]})
    expect = {"resources": {"Pod/a": {"allowed": True}, "Deployment/serve": {"allowed": False}}}
    assert result(tmp_path, ["manifests"], expect).passed
    assert result(tmp_path / "below", ["../manifests/pod.json"], {"unchanged": True}).passed


def test_without_policies_a_test_takes_the_nearest_directory_above_it_with_a_default(tmp_path: Path) -> None:
    head = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUPolicy", "metadata": {"name": "_default"}}
    for folder, most in ((tmp_path, 1), (tmp_path / "near", 2)):
        rules = {"gpuLimits": {"mode": "enforce", "maxPerPod": most}}
        write(folder / "_default.yaml", {**head, "spec": {"rules": rules}})
    content = suite(case([pod(2)], {"allowed": True}))
    del content["spec"]["policies"]
    near = write(tmp_path / "near" / "tests" / "deep" / "sample.yaml", content)
    far = write(tmp_path / "far" / "sample.yaml", content)
    assert [results(file).cases[0].passed for file in (near, far)] == [True, False]


def test_policies_can_be_texts_and_directories_too(tmp_path: Path) -> None:
    text = (
        "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: _default}\n"
        "spec: {rules: {gpuLimits: {mode: enforce, maxPerPod: 1}}}\n"
    )
    write(tmp_path / "policies" / "_default.yaml", text)
    for policies in ({"_default.yaml": text}, "policies", "../" + tmp_path.name + "/policies"):
        content = suite(case([pod(2)], {"refused": [{"rule": "gpuLimits"}]}), policies=policies)
        assert results(write(tmp_path / "sample.yaml", content)).exit_status == 0


@pytest.mark.parametrize(("resource", "allowed"), [("nvidia.com/gpu", True), ("amd.com/gpu", False)])
def test_an_inventory_in_the_test_may_hold_device_classes(tmp_path: Path, resource: str, allowed: bool) -> None:
    """Of GPUs that one gives `schedulable` says nothing."""
    policies = {"_default.yaml": {"spec": {"rules": {"schedulable": {"mode": "enforce"}}}}}
    inventory = [
        {"kind": "Node", "metadata": {"name": "cpu"}, "status": {"capacity": {"cpu": "8"}}},
        {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"extendedResourceName": resource}},
    ]
    expect = {"allowed": True} if allowed else {"refused": [{"rule": "schedulable"}]}
    write(tmp_path / "a.yaml", suite(case([pod(1)], expect), policies=policies, inventory=inventory))
    (found,) = results(tmp_path).cases
    assert found.passed


def test_claims_of_an_inventory_in_the_test_count_and_its_priority_classes_are_known(tmp_path: Path) -> None:
    uid = "11111111-2222-3333-4444-555555555555"
    devices = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 9}}]}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "held", "uid": uid}}
    inventory = [{**claim, "spec": {"devices": devices}}, {"kind": "PriorityClass", "metadata": {"name": "low"}}]
    expect = {"refused": [{"rule": "gpuQuota", "message": "9 of 10"}]}
    write(tmp_path / "a.yaml", suite(case([pod(2)], expect), inventory=inventory))
    (found,) = results(tmp_path).cases
    assert found.passed


NEXT_DRIVER = {
    "_default.yaml": {
        "spec": {
            "nodePools": [
                {
                    "name": "training",
                    "labels": {"pool": "training"},
                    "driver": "535.183.01",
                    "product": "Tesla-V100-SXM2-16GB",
                    "gpus": 8,
                    "next": {"driver": "590.44.01", "from": "2026-12-01"},
                }
            ],
            "rules": {"cudaDriver": {"mode": "enforce"}},
        }
    }
}
RUNS_BEFORE = pod(1, image="nvidia/cuda:12.2.0-base-ubuntu22.04")
WARNED: dict[str, Any] = {"warned": [{"rule": "cudaDriver"}], "allowed": True}
REFUSED: dict[str, Any] = {"refused": [{"rule": "cudaDriver"}]}


@each(
    "at, met, unmet",
    {
        "a second before": ("2026-11-30T23:59:59Z", WARNED, REFUSED),
        "from that day on": ("2026-12-01T00:00:00Z", REFUSED, WARNED),
    },
)
def test_a_case_sees_the_driver_of_its_time(tmp_path: Path, at: str, met: Any, unmet: Any) -> None:
    cases = [case([RUNS_BEFORE], expect, name, at=at) for name, expect in (("met", met), ("unmet", unmet))]
    found = results(write(tmp_path / "next.yaml", suite(*cases, policies=NEXT_DRIVER)))
    assert [(one.case.settings.name, one.passed) for one in found.cases] == [("met", True), ("unmet", False)]
