"""Rows of `_cuda.yaml` decide alike in the webhook, in `review`, in `audit` and in `gpu-policy cuda` and `test`."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.audit.audits import audited
from tests.build import NAMESPACE, against, pod, request
from tests.cuda_command import answer, run
from webhook.admission import phases
from webhook.audit.documents import Document
from webhook.audit.review_objects import review
from webhook.commands.main import main
from webhook.facts.facts import ClusterFacts
from webhook.policy.loader import load
from webhook.policy.policy_set import PolicySet

HEAD = "apiVersion: gpupolicy.dev/v1alpha1\n"
DEFAULT = HEAD + "kind: GPUPolicy\nmetadata: {name: _default}\nspec: {rules: {cudaDriver: {mode: enforce}}}\n"
ROWS = """
  toolkits: [{cuda: "14.0.0", driver: "650.10.02", source: me, date: unknown}]
  drivers: [{branch: 650, cuda: "14.0", source: me, date: unknown}]
"""
NEW = HEAD + "kind: GPUCudaTables\nmetadata: {name: _cuda}\nspec:" + ROWS
IMAGE = "nvidia/cuda:14.0.0-base-ubuntu26.04"


def node(name: str, driver: str) -> dict[str, Any]:
    labels = {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-5090",
        "nvidia.com/cuda.driver-version.full": driver,
        "kubernetes.io/hostname": name,
    }
    return {"metadata": {"name": name, "labels": labels}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}


OLD, NEWER = node("old", "650.05.01"), node("newer", "650.20.01")
FACTS = ClusterFacts.of([OLD, NEWER])


def asking(image: str = IMAGE, on: str = "") -> dict[str, Any]:
    """A pod with this image, on one node where one is named."""
    found = pod(1, spec={"nodeSelector": {"kubernetes.io/hostname": on}} if on else {})
    found["spec"]["containers"][0]["image"] = image
    return found


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory of policies in which a test may write rows."""
    (tmp_path / "_default.yaml").write_text(DEFAULT)
    return tmp_path


def said(raw: dict[str, Any], policies: PolicySet) -> set[bool]:
    """Whether the pod is refused, by everybody who says so."""
    webhook = phases.validate(request(raw), policies, FACTS)
    documents = [Document("f.yaml", 1, 1, raw)]
    (item,) = review(documents, NAMESPACE, against(policies, FACTS)).items
    report = audited(raw, using=policies, facts=FACTS)
    is_refused = {not webhook.answer.is_allowed, bool(item.outcome.refusals)}
    return is_refused | {any(one.rule == "cudaDriver" for one in report.findings)}


def test_everybody_admits_a_cuda_that_nobody_knows_and_refuses_it_by_its_row(directory) -> None:
    assert said(asking(on="old"), load(directory)) == {False}
    (directory / "_cuda.yaml").write_text(NEW)
    assert said(asking(on="old"), load(directory)) == {True}
    assert said(asking(on="newer"), load(directory)) == {False}


def test_a_pod_is_kept_off_the_driver_that_a_row_says_is_too_old(directory) -> None:
    before = phases.mutate(request(asking()), load(directory), FACTS)
    (directory / "_cuda.yaml").write_text(NEW)
    after = phases.mutate(request(asking()), load(directory), FACTS)
    assert "nvidia.com/cuda.driver-version.full" not in json.dumps(before.outcome.patch)
    assert "650.05.01" in json.dumps(after.outcome.patch)


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "nodes" / "inventory.yaml"
    path.parent.mkdir()
    items = [{"apiVersion": "v1", "kind": "Node", **one} for one in (OLD, NEWER)]
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def test_the_command_judges_by_the_rows_of_the_directory_that_it_is_given(directory, inventory) -> None:
    (directory / "_cuda.yaml").write_text(NEW)
    by_node = ("--driver", "650.05.01", "--product", "NVIDIA-GeForce-RTX-5090")
    assert answer(IMAGE, *by_node)["verdict"] == "unknown"
    assert answer(IMAGE, *by_node, "--policies", directory)["verdict"] == "incompatible"
    kinds = json.loads(
        run("check", IMAGE, "--inventory", inventory, "--policies", directory, "--output", "json").stdout
    )
    assert {kind["driver"]: kind["verdict"] for kind in kinds} == {
        "650.05.01": "incompatible",
        "650.20.01": "compatible",
    }


def test_the_command_prints_the_newest_cuda_of_a_branch_of_the_platform(directory, inventory) -> None:
    (directory / "_cuda.yaml").write_text(NEW)
    without = json.loads(run("nodes", "--inventory", inventory, "--output", "json").stdout)
    found = json.loads(run("nodes", "--inventory", inventory, "--policies", directory, "--output", "json").stdout)
    assert ({kind["newestCuda"] for kind in without}, {kind["newestCuda"] for kind in found}) == ({None}, {"14.0"})


def test_the_page_of_the_tables_has_the_rows_of_the_platform(directory) -> None:
    (directory / "_cuda.yaml").write_text(NEW)
    page = run("docs", "--policies", directory).stdout
    assert "| 650 | 14.0 |  |  |" in page
    assert "| 650 |" not in run("docs").stdout


def test_the_page_of_the_tables_has_the_images_of_the_platform(directory) -> None:
    rows = 'images: [{image: team/*, cuda: "12.4", compat: false, source: me, date: unknown}]'
    (directory / "_cuda.yaml").write_text(NEW + f"  {rows}\n")
    assert "| team/* | 12.4 | no |  | me |" in run("docs", "--policies", directory).stdout
    assert "Images of the platform" not in run("docs").stdout


def test_the_commands_about_policies_tell_of_the_rows(directory) -> None:
    (directory / "_cuda.yaml").write_text(NEW)
    checked = CliRunner().invoke(main, ["policy", "check", str(directory)])
    shown = CliRunner().invoke(main, ["policy", "show", "--policies", str(directory), "team"])
    rows = "toolkits 1, drivers 1"
    assert f"rows for the tables of CUDA ({rows})" in checked.output
    assert f"# rows for the tables of CUDA beside those of this release, from _cuda.yaml: {rows}" in shown.output


def test_a_pod_that_names_a_gpu_of_the_platform_by_another_clouds_label_is_told_its_name_here(directory) -> None:
    """The name is looked for in the labels of this release and in the labels that the row names."""
    rules = "{schedulable: {mode: enforce}}"
    (directory / "_default.yaml").write_text(DEFAULT.replace("{cudaDriver: {mode: enforce}}", rules))
    row = "{name: F100, compute: '9.0', labels: {example.com/gpu: [fast]}, source: me, date: unknown}"
    wanting = pod(1, spec={"nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-f100"}})

    def message(labels: dict[str, str]) -> str:
        named = {"metadata": {"name": "f", "labels": labels}, "status": OLD["status"]}
        return phases.validate(request(wanting), load(directory), ClusterFacts.of([named])).answer.message

    nodes = {"nvidia.com/gpu.product": "NVIDIA-F100-SXM"}, {"example.com/gpu": "fast"}
    assert ["is GKE's label" in message(labels) for labels in nodes] == [False, False]
    (directory / "_cuda.yaml").write_text(NEW.replace(ROWS, f"\n  gpus: [{row}]\n"))
    opening = "cloud.google.com/gke-accelerator=nvidia-f100 is GKE's label; here it is "
    assert [message(labels).partition(opening)[2] for labels in nodes] == [
        "nvidia.com/gpu.product=NVIDIA-F100-SXM. Write that instead.",
        "example.com/gpu=fast. Write that instead.",
    ]


def test_a_test_of_policies_may_bring_rows(directory, tmp_path) -> None:
    case = {
        "name": "a driver that is too old",
        "resources": [asking(on="old")],
        "expect": {"refused": [{"rule": "cudaDriver", "message": "needs driver 650.10.02 or newer"}]},
    }
    policies = {"_default.yaml": yaml.safe_load(DEFAULT), "_cuda.yaml": {"spec": yaml.safe_load(ROWS)}}
    nodes = [{"apiVersion": "v1", "kind": "Node", **one} for one in (OLD, NEWER)]
    spec = {"policies": policies, "inventory": nodes, "cases": [case]}
    head = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUPolicyTest", "metadata": {"name": "rows"}}
    file = tmp_path / "case.test.yaml"
    file.write_text(yaml.safe_dump({**head, "spec": spec}))
    result = CliRunner().invoke(main, ["test", str(file)])
    assert result.exit_code == 0, result.output
