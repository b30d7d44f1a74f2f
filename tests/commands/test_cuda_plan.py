"""`gpu-policy plan`, and the older `gpu-policy cuda plan`: what it reads, what it prints, and how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command_line import gpu_policy
from tests.facts.test_made_pools import node_pool
from tests.golden import golden
from tests.upgrades.test_changes import A100, CUDA_12, UNKNOWN, V100, nodes, pod
from tests.upgrades.test_driver_changes import nvidia_driver
from tests.upgrades.test_owners_and_pools import deployed
from webhook.commands.cuda_plan import PLAN_FORMATS

NODES = [*nodes(2, V100, "535.183.01", "v"), *nodes(3, A100, "535.183.01", "a")]


def listed(*objects: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Nodes, a Deployment with its pods, and a pod whose image nobody knows."""
    path = tmp_path / "inventory.json"
    objects = deployed(CUDA_12, pods=3, gpus=2)
    path.write_text(json.dumps(listed(*NODES, *objects, pod("who", UNKNOWN, "a", node="a0"))))
    return path


def plan(inventory: Path, *arguments: object) -> Any:
    return json.loads(gpu_policy("cuda", "plan", "--inventory", inventory, "--format", "json", *arguments).stdout)


def rows(found: Any) -> dict[str, tuple[str, int]]:
    return {f"{one['kind']}/{one['name']}": (one["change"], one["gpus"]) for one in found["workloads"]}


def test_the_text_tells_nodes_then_images_then_what_breaks(inventory: Path) -> None:
    result = gpu_policy("cuda", "plan", "--inventory", inventory, "--set", "pool=v=590.44.01", "--matrix")
    assert result.exit_code == 1
    lines = [line.strip() for line in result.stdout.splitlines()]
    wanted = [
        f"pool=v  2 nodes, 16 GPUs, {V100}  driver 535.183.01 -> 590.44.01",
        f"{UNKNOWN}  1 workload, 1 GPU",
        "neither its name nor anything else says which CUDA version it needs",
        f"2 nodes with {V100}, driver 535.183.01  16 GPUs  newest that breaks nobody: 580",
        "Nodes pool=v  undriven",
        "Deployment team/d  breaks",
        "Install a driver of branch 580 or older.",
        "2 workloads: 1 break, 1 the same.",
    ]
    assert [line for line in lines if line in wanted] == wanted
    assert any(line.startswith("6 GPUs, 2 of 2 nodes -> 0 of 2 nodes: nvidia/cuda:12.4.1") for line in lines)


def test_a_value_that_no_node_has_is_a_note_beside_one_that_some_have(inventory: Path) -> None:
    result = gpu_policy("cuda", "plan", "--inventory", inventory, "--set", "pool in (v,x)=590.44.01")
    assert result.exit_code == 1
    assert 'note: --set "pool in (v,x)=590.44.01": no node and no declared node pool has "x"; pool is ' in result.stderr
    assert gpu_policy("cuda", "plan", "--inventory", inventory, "--set", "pool in (x,y)=590").exit_code == 2


def test_a_manifest_replaces_the_object_of_its_name(inventory: Path, tmp_path: Path) -> None:
    """So it shows what a change of the image does together with the driver."""
    manifest = tmp_path / "d.yaml"
    own = deployed(CUDA_12, pods=3, gpus=2)[3]
    own["metadata"] = {"name": "d", "namespace": "team"}
    own["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "a"}
    manifest.write_text(yaml.safe_dump(own))
    found = plan(inventory, "--set", "pool=v=590.44.01", manifest)
    assert rows(found)["Deployment/d"][0] == "same"


def hashed(*, pods: int, gpus: int) -> list[Any]:
    """A Deployment and its running pods as a cluster names them; the ReplicaSet between them is left out."""
    *made, deployment, _ = deployed(CUDA_12, pods=pods, gpus=gpus)
    for raw in made:
        raw["metadata"]["labels"] = {"pod-template-hash": "7d9f"}
        raw["metadata"]["ownerReferences"][0]["name"] = "d-7d9f"
    return [*made, deployment]


def test_an_inventory_without_replica_sets_has_each_deployment_once(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    path.write_text(json.dumps(listed(*NODES, *hashed(pods=3, gpus=2))))
    assert rows(plan(path, "--set", "pool=v=590.44.01")) == {"Deployment/d": ("breaks", 6)}


@pytest.mark.parametrize("has_deployment", [True, False], ids=["with the Deployment", "with its pods alone"])
@pytest.mark.parametrize("namespace", [{"namespace": "team"}, {}], ids=["named", "by -n"])
def test_a_manifest_is_the_owner_of_the_pods_that_run(
    tmp_path: Path, namespace: dict[str, str], *, has_deployment: bool
) -> None:
    objects = hashed(pods=3, gpus=2)
    path, manifest = tmp_path / "inventory.json", tmp_path / "d.yaml"
    path.write_text(json.dumps(listed(*NODES, *(objects if has_deployment else objects[:-1]))))
    manifest.write_text(yaml.safe_dump({**objects[-1], "metadata": {"name": "d", **namespace}}))
    assert rows(plan(path, "--set", "pool=v=590.44.01", "-n", "team", manifest)) == {"Deployment/d": ("breaks", 6)}


def test_nodes_that_come_are_read_from_a_file(inventory: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.yaml"
    new.write_text(yaml.safe_dump(listed(*nodes(1, A100, "580.95.05", "new"))))
    found = plan(inventory, "--add", new)
    assert [(one["action"], one["selector"], one["nodes"]) for one in found["pools"]] == [("add", str(new), 1)]


def test_policies_say_what_images_need(inventory: Path, tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    head = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUPolicy", "metadata": {"name": "_default"}}
    rules = {"tolerations": {"mode": "enforce"}, "cudaDriver": {"mode": "warn", "images": {UNKNOWN: "12.4"}}}
    (folder / "_default.yaml").write_text(yaml.safe_dump({**head, "spec": {"rules": rules}}))
    without = plan(inventory, "--set", "pool=a=580.95.05")
    found = plan(inventory, "--set", "pool=a=580.95.05", "--policies", folder)
    assert (rows(without)["Pod/who"][0], rows(found)["Pod/who"][0]) == ("unknown", "same")
    assert found["unknownImages"] == []


@golden
def test_the_exit_status(inventory: Path, arguments: tuple[str, ...], status: int) -> None:
    assert gpu_policy("cuda", "plan", "--inventory", inventory, *arguments).exit_code == status


@golden
def test_unusable_input_ends_with_2_and_says_what_to_do(inventory: Path, arguments: tuple[str, ...], told: str) -> None:
    result = gpu_policy("cuda", "plan", "--inventory", inventory, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr


def test_nodes_to_add_must_be_new_nodes(inventory: Path, tmp_path: Path) -> None:
    old, none = tmp_path / "old.yaml", tmp_path / "none.yaml"
    old.write_text(yaml.safe_dump(listed(NODES[0])))
    none.write_text(yaml.safe_dump(listed(pod("p", CUDA_12))))
    assert (
        "the cluster has a node v0 already" in gpu_policy("cuda", "plan", "--inventory", inventory, "--add", old).stderr
    )
    assert "has no node" in gpu_policy("cuda", "plan", "--inventory", inventory, "--add", none).stderr


def test_a_manifest_that_cannot_be_read_is_an_error_and_the_rest_is_planned(inventory: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("kind: [")
    result = gpu_policy("cuda", "plan", "--inventory", inventory, "--set", "pool=v=590.44.01", broken)
    assert result.exit_code == 2
    assert str(broken) in result.stderr
    assert "Deployment team/d" in result.stdout


@pytest.mark.parametrize("form", PLAN_FORMATS)
def test_every_format_can_be_written_to_a_file(inventory: Path, tmp_path: Path, form: str) -> None:
    file = tmp_path / "plan"
    options = ("--set", "pool=v=590.44.01", "--matrix", "--format", form, "-o", file)
    result = gpu_policy("cuda", "plan", "--inventory", inventory, *options)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "590.44.01" in file.read_text()


def test_a_driver_object_says_what_changes(inventory: Path, tmp_path: Path) -> None:
    """As --set does for the nodes that it selects; two objects know of each other."""
    objects = [
        nvidia_driver("590.44.01", nodeSelector={"pool": "v"}),
        nvidia_driver("580.95.05", "a", nodeSelector={"pool": "a"}),
    ]
    manifest = tmp_path / "driver.yaml"
    manifest.write_text(yaml.safe_dump_all(objects))
    found = plan(inventory, manifest)
    assert rows(found) == rows(plan(inventory, "--set", "pool=v=590.44.01", "--set", "pool=a=580.95.05"))
    assert [one["selector"] for one in found["pools"]] == ["NVIDIADriver d", "NVIDIADriver a"]


@golden
def test_a_driver_object_that_plans_nothing_says_why(
    inventory: Path, tmp_path: Path, spec: dict[str, Any], status: int, told: str
) -> None:
    manifest = tmp_path / "driver.yaml"
    manifest.write_text(yaml.safe_dump(nvidia_driver(**spec)))
    result = gpu_policy("cuda", "plan", "--inventory", inventory, manifest)
    assert result.exit_code == status
    assert f"{manifest}:1: {told}" in result.stderr


def test_a_driver_object_for_a_node_pool_alone_is_planned_where_set_names_it(tmp_path: Path) -> None:
    path, manifest = tmp_path / "inventory.json", tmp_path / "driver.yaml"
    path.write_text(json.dumps(listed(*NODES, node_pool(["instance-family In g5"], labels={"x": "y"}))))
    manifest.write_text(yaml.safe_dump(nvidia_driver("580.95.05", nodeSelector={"x": "y"})))
    for options, status in (((), 2), (("--set", "gpu=580.95.05"), 0)):
        result = gpu_policy("plan", "--inventory", path, manifest, *options)
        assert (result.exit_code, "NodePool gpu is left out" in result.stderr) == (status, True)


@pytest.mark.parametrize(
    ("name", "options", "start"),
    [
        ("p.json", (), "{"),
        ("p.md", (), "**GPU driver plan**"),
        ("p.html", (), "<!"),
        ("p.txt", (), "GPU driver plan"),
        ("p.json", ("--format", "text"), "GPU driver plan"),
    ],
    ids=str,
)
def test_the_name_of_a_file_says_its_format(
    inventory: Path, tmp_path: Path, name: str, options: tuple[str, ...], start: str
) -> None:
    gpu_policy("plan", "--inventory", inventory, "--set", "pool=v=590.44.01", "-o", tmp_path / name, *options)
    assert (tmp_path / name).read_text().startswith(start)


def test_a_manifest_without_any_change_is_no_plan(inventory: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(yaml.safe_dump(pod("p", CUDA_12)))
    result = gpu_policy("cuda", "plan", "--inventory", inventory, manifest)
    assert (result.exit_code, "say what changes: --set" in result.stderr) == (2, True)
