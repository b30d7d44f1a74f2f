"""`gpu-policy cuda`: answers that programs rely on, one for each question whatever it holds, and exit statuses."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.cluster.fake_api_server import NODES, fake_api_server
from tests.cluster.samples import GPU_TAINT, node
from tests.e2e.control_plane import ControlPlane
from tests.registry import images
from tests.registry.scripted import LOOPBACK, REPOSITORY, ScriptedServer, scripted
from webhook.cli import main
from webhook.installation.images import KEY
from webhook.registry.packing import unpack

KEYS = ["image", "cuda", "evidence", "verdict", "legacyGate", "reason"]
A100 = ("--product", "NVIDIA-A100-SXM4-80GB", "--arch", "amd64")
V100 = ("--product", "Tesla-V100-SXM2-32GB", "--arch", "amd64")
CUDA_12 = "nvidia/cuda:12.4.1-runtime-ubuntu22.04"
CUDA_13 = "nvidia/cuda:13.0.0-base-ubuntu24.04"


def run(*args: object, stdin: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(main, ["cuda", *map(str, args)], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def answer(*args: object) -> dict[str, str]:
    found = run("check", *args, "--output", "json")
    document: dict[str, str] = json.loads(found.stdout)
    assert list(document) == KEYS
    assert all(isinstance(value, str) for value in document.values())
    return document


def batch(*lines: object) -> tuple[list[dict[str, str]], int]:
    """The answers to these lines, objects as JSON and texts as they are, and the exit status."""
    texts = [line if isinstance(line, str | bytes) else json.dumps(line) for line in lines]
    source = b"".join((text if isinstance(text, bytes) else text.encode()) + b"\n" for text in texts)
    found = run("check", "--batch", "-", stdin=source)
    answers = [json.loads(line) for line in found.stdout.splitlines()]
    assert all(list(each) == KEYS for each in answers)
    return answers, found.exit_code


@pytest.mark.parametrize(
    ("args", "verdict", "gate", "status"),
    [
        pytest.param((CUDA_12, "--driver", "550.54.15", *A100), "compatible", "pass", 0, id="native"),
        pytest.param((CUDA_13, "--driver", "580.65.06", *V100), "incompatible", "pass", 1, id="GPU too old"),
        pytest.param((CUDA_13, "--driver", "535.183.01", *A100), "forward-compat-only", "pass", 0, id="by cuda-compat"),
        pytest.param((CUDA_12,), "unknown", "unknown", 0, id="nothing said of the node"),
        pytest.param(("python:3.12-slim",), "compatible", "n/a", 0, id="no CUDA"),
    ],
)
@pytest.mark.parametrize("output", ["text", "json"])
def test_the_exit_status_says_whether_anything_is_incompatible(args, verdict, gate, status, output) -> None:
    found = run("check", *args, "--output", output)
    assert status == found.exit_code
    assert verdict in found.stdout
    told = answer(*args)
    assert (told["image"], told["verdict"], told["legacyGate"]) == (args[0], verdict, gate)


def test_people_are_told_need_evidence_reason_and_remedy() -> None:
    found = run("check", CUDA_13, "--driver", "580.65.06", *V100).stdout
    assert found.splitlines()[:2] == [
        f"incompatible         {CUDA_13}",
        "    needs CUDA 13.0.0: tag 13.0.0-base-ubuntu24.04 of nvidia/cuda",
    ]
    assert "Tesla-V100-SXM2-32GB" in found
    assert "12.9" in found.splitlines()[-1]


def test_the_environment_of_the_container_counts_and_a_later_variable_beats_an_earlier_one() -> None:
    told = answer("registry.corp/app:1", "--env", "CUDA_VERSION=11.8.0", "--env", "CUDA_VERSION=12.4.1")
    assert (told["cuda"], told["evidence"]) == ("12.4.1", "env CUDA_VERSION=12.4.1")


def test_what_is_said_of_cuda_compat_beats_what_is_known_of_the_image() -> None:
    node_of = (CUDA_13, "--driver", "535.183.01", *A100)
    verdicts = [answer(*node_of, "--cuda-compat", word)["verdict"] for word in ("yes", "unknown", "no")]
    assert verdicts == ["forward-compat-only", "forward-compat-only", "incompatible"]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        pytest.param((CUDA_12, "--driver", "abc", *A100), '"abc"', id="driver"),
        pytest.param(
            (CUDA_12, "--driver", "550.54.15", "--compute-capability", "new"), '"new"', id="compute capability"
        ),
        pytest.param(("Not//An:Image:", "--driver", "550.54.15"), "Not//An:Image:", id="image"),
        pytest.param(("registry.corp/app:1", "--env", "CUDA_VERSION=$V", *A100), "$V", id="variable"),
    ],
)
def test_what_cannot_be_read_stands_in_the_reason(args, text) -> None:
    assert text in answer(*args)["reason"]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        pytest.param((CUDA_12, "--driver", "abc", *A100), '"abc"', id="driver"),
        pytest.param(("Not//An:Image:", "--driver", "550.54.15"), "Not//An:Image:", id="image"),
    ],
)
def test_a_verdict_that_needs_what_cannot_be_read_is_unknown(args, text) -> None:
    assert answer(*args)["verdict"] == "unknown"


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(("check",), id="no image"),
        pytest.param(("check", CUDA_12, "--batch", "-"), id="an image and a batch"),
        pytest.param(("check", "--batch", "-", "--driver", "550.54.15"), id="a batch and a node"),
        pytest.param(("check", "--batch", "-", "--env", "A=b"), id="a batch and a variable"),
        pytest.param(("check", "--batch", "nowhere.jsonl"), id="no such file"),
        pytest.param(("check", CUDA_12, "--inventory", "a.yaml", "--driver", "550.54.15"), id="two kinds of nodes"),
        pytest.param(("check", CUDA_12, "--inventory", "nowhere.yaml"), id="no such inventory"),
        pytest.param(("check", CUDA_12, "--env", "CUDA_VERSION"), id="a variable without a value"),
        pytest.param(("check", CUDA_12, "--cuda-compat", "maybe"), id="no word for cuda-compat"),
        pytest.param(("check", CUDA_12, "--policies", "nowhere"), id="no such policies"),
        pytest.param(("check", CUDA_12, "--registries", "a.yaml"), id="registries that are not to be asked"),
        pytest.param(("check", CUDA_12, "--resolve", "--registries", "nowhere.yaml"), id="no such list of registries"),
        pytest.param(("check", CUDA_12, "--resolve", "--image-results", "a/b"), id="results of whose registries"),
        pytest.param(("nodes",), id="nodes of no cluster"),
    ],
)
def test_options_that_make_no_sense_are_told_with_status_2(args) -> None:
    found = run(*args)
    assert found.exit_code == 2
    assert found.stderr
    assert not found.stdout


def test_a_batch_is_answered_line_by_line_in_order() -> None:
    answers, status = batch(
        {"image": CUDA_13, "driver": "580.65.06", "product": "Tesla-V100-SXM2-32GB", "compute-capability": "7.0"},
        {"image": "python:3.12-slim"},
        {"image": CUDA_13, "driver": "535.183.01", "product": "NVIDIA-A100-SXM4-80GB", "cuda-compat": "no"},
        {"image": "registry.corp/app:1", "env": {"CUDA_VERSION": "12.4.1"}, "driver": "550.54.15", "arch": "amd64"},
        {"image": CUDA_12, "env": None, "driver": None, "product": None, "compute-capability": None},
    )
    assert [(each["image"], each["cuda"], each["verdict"]) for each in answers] == [
        (CUDA_13, "13.0.0", "incompatible"),
        ("python:3.12-slim", "none", "compatible"),
        (CUDA_13, "13.0.0", "incompatible"),
        ("registry.corp/app:1", "12.4.1", "compatible"),
        (CUDA_12, "12.4.1", "unknown"),
    ]
    assert status == 1


def test_a_batch_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "images.jsonl").write_text(json.dumps({"image": "python:3.12"}))
    found = run("check", "--batch", tmp_path / "images.jsonl")
    assert (json.loads(found.stdout)["cuda"], found.exit_code) == ("none", 0)


@pytest.mark.parametrize(
    ("line", "image", "text"),
    [
        pytest.param("nonsense", "", "line 2: not JSON", id="no JSON"),
        pytest.param('{"image": "a"', "", "line 2: not JSON", id="half of an object"),
        pytest.param("", "", "line 2: the line is empty", id="nothing"),
        pytest.param("[]", "", "line 2: found a list", id="a list"),
        pytest.param("null", "", "line 2: found null", id="null"),
        pytest.param("{}", "", "line 2: no image", id="no image"),
        pytest.param('{"image": ""}', "", "line 2: no image", id="an empty image"),
        pytest.param('{"image": ["a"]}', "", "line 2: image: found a list", id="an image that is no text"),
        pytest.param('{"image": "a", "env": []}', "a", "line 2: env: found a list", id="an environment that is a list"),
        pytest.param('{"image": "a", "env": {"B": {}}}', "a", "line 2: env.B: found a map", id="a value that is none"),
        pytest.param('{"image": "a", "driver": true}', "a", "line 2: driver: found true", id="a driver that is true"),
        pytest.param(b'{"image": "\xff"}', "", "line 2: not UTF-8", id="no UTF-8"),
        pytest.param("[" * 100_000, "", "line 2: not JSON", id="deeper than anybody reads"),
    ],
)
def test_a_broken_line_is_answered_in_its_place_and_stops_nothing(line, image, text) -> None:
    answers, status = batch({"image": "python:3.12"}, line, {"image": "python:3.13"})
    assert [each["image"] for each in answers] == ["python:3.12", image, "python:3.13"]
    assert answers[1]["reason"].startswith(text)
    assert (answers[1]["cuda"], answers[1]["evidence"]) == ("unknown", "none")
    assert (answers[1]["verdict"], answers[1]["legacyGate"]) == ("unknown", "unknown")
    assert status == 2


def test_what_windows_adds_to_files_and_empty_lines_at_the_end_say_nothing() -> None:
    answers, status = batch(b'\xef\xbb\xbf{"image": "python:3.12"}\r', "", " \r", "")
    assert [each["image"] for each in answers] == ["python:3.12"]
    assert status == 0


def test_numbers_in_a_batch_keep_every_digit() -> None:
    (told,), _ = batch(
        '{"image": "a/b:1", "env": {"CUDA_VERSION": 12.10}, "driver": 550.100, "compute-capability": 8.0}'
    )
    assert told["cuda"] == "12.10"
    assert "550.100" in told["reason"]


def test_what_a_batch_says_beyond_the_question_is_passed_over_and_named() -> None:
    (told,), status = batch({"image": "python:3.12", "id": 7, "cuda-compat": "perhaps"})
    assert (told["verdict"], status) == ("compatible", 0)
    assert 'passed over "id"' in told["reason"]
    assert 'cuda-compat is "perhaps"' in told["reason"]


def gpu_node(name: str, driver: str, product: str, gpus: int, **labels: str) -> dict[str, Any]:
    """A node as GPU Feature Discovery labels it."""
    of_gpu = {"nvidia.com/cuda.driver-version.full": driver, "nvidia.com/gpu.product": product}
    capacity = {"nvidia.com/gpu": str(gpus)}
    return node(name, labels={**of_gpu, "kubernetes.io/arch": "amd64", **labels}, taints=[GPU_TAINT], capacity=capacity)


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Two A100 nodes that differ in nothing that matters, a V100 node with time-slicing, and nodes without CUDA."""
    items = [
        gpu_node("a100-0", "535.183.01", "NVIDIA-A100-SXM4-80GB", 8, rack="1"),
        gpu_node("a100-1", "535.183.01", "NVIDIA-A100-SXM4-80GB", 4, rack="2"),
        gpu_node("v100-0", "580.65.06", "Tesla-V100-SXM2-32GB-SHARED", 16, **{"nvidia.com/gpu.count": "4"}),
        node("amd-0", capacity={"amd.com/gpu": "8"}),
        node("cpu-0"),
    ]
    path = tmp_path / "inventory.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """A policy that knows an image and declares a pool that may have no node."""
    pool = {"name": "h100", "driver": "580.65.06", "product": "NVIDIA-H100-80GB-HBM3", "gpus": 8}
    knows = {"mode": "warn", "images": {"registry.corp/*": "13.0"}}
    head = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUPolicy", "metadata": {"name": "_default"}}
    path = tmp_path / "policies"
    path.mkdir()
    document = {**head, "spec": {"nodePools": [pool], "rules": {"cudaDriver": knows}}}
    (path / "_default.yaml").write_text(yaml.safe_dump(document))
    return path


def test_the_kinds_of_nodes_are_counted_with_their_gpus(inventory: Path) -> None:
    found = run("nodes", "--inventory", inventory, "--output", "json")
    kinds = [
        {key: kind[key] for key in ("product", "driver", "newestCuda", "count", "gpus")}
        for kind in json.loads(found.stdout)
    ]
    assert kinds == [
        {"product": "NVIDIA-A100-SXM4-80GB", "driver": "535.183.01", "newestCuda": "12.2", "count": 2, "gpus": 12},
        {"product": "Tesla-V100-SXM2-32GB", "driver": "580.65.06", "newestCuda": "13.0", "count": 1, "gpus": 4},
    ]
    lines = [line.split() for line in run("nodes", "--inventory", inventory).stdout.splitlines()]
    assert lines == [
        ["PRODUCT", "DRIVER", "NEWEST", "CUDA", "ARCH", "NODES", "GPUS"],
        ["NVIDIA-A100-SXM4-80GB", "535.183.01", "12.2", "amd64", "2", "12"],
        ["Tesla-V100-SXM2-32GB", "580.65.06", "13.0", "amd64", "1", "4"],
    ]


def test_a_declared_pool_is_a_kind_without_nodes(inventory: Path, policies: Path) -> None:
    found = run("nodes", "--inventory", inventory, "--policies", policies).stdout
    assert ["NVIDIA-H100-80GB-HBM3", "580.65.06", "13.0", "amd64", "0", "0"] in map(str.split, found.splitlines())


def test_labels_that_cannot_be_read_are_named_below_the_nodes(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text(yaml.safe_dump(gpu_node("n", "newest", "[bold]GPU", 1)))
    found = run("nodes", "--inventory", path)
    assert found.stdout.splitlines()[1].split() == ["[bold]GPU", "-", "-", "amd64", "1", "1"]
    assert '"newest"' in found.stdout.splitlines()[2]


def test_an_inventory_is_answered_by_kind_of_node(inventory: Path, policies: Path) -> None:
    found = run("check", CUDA_13, "--inventory", inventory, "--policies", policies, "--output", "json")
    answers = json.loads(found.stdout)
    assert [(each["product"], each["count"], each["verdict"]) for each in answers] == [
        ("NVIDIA-A100-SXM4-80GB", 2, "forward-compat-only"),
        ("NVIDIA-H100-80GB-HBM3", 0, "compatible"),
        ("Tesla-V100-SXM2-32GB", 1, "incompatible"),
    ]
    assert all(list(each)[: len(KEYS)] == KEYS for each in answers)
    assert found.exit_code == 1


def test_people_are_told_about_each_kind_of_node(inventory: Path, policies: Path) -> None:
    found = run("check", CUDA_13, "--inventory", inventory, "--policies", policies).stdout
    heads = [line for line in found.splitlines() if not line.startswith(" ")]
    assert heads == [
        f"{CUDA_13} needs CUDA 13.0.0: tag 13.0.0-base-ubuntu24.04 of nvidia/cuda",
        "forward-compat-only  2 nodes with NVIDIA-A100-SXM4-80GB, driver 535.183.01",
        "compatible           a pool with NVIDIA-H100-80GB-HBM3, driver 580.65.06",
        "incompatible         1 node with Tesla-V100-SXM2-32GB, driver 580.65.06",
    ]


def test_a_cluster_without_gpus_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text(yaml.safe_dump(node("cpu-0")))
    found = run("check", CUDA_13, "--inventory", tmp_path / "inventory.yaml")
    assert "no node with an NVIDIA GPU is known" in found.stdout
    assert found.exit_code == 0


def test_what_the_policy_knows_of_an_image_counts(policies: Path) -> None:
    told = answer("registry.corp/team/app:7", "--policies", policies)
    assert (told["cuda"], told["evidence"]) == ("13.0", "policy images: registry.corp/*")


@pytest.fixture
def registry() -> Iterator[ScriptedServer]:
    """A registry with one image, for CUDA 12.4.1."""
    with scripted() as server:
        config = images.config({"CUDA_VERSION": "12.4.1"})
        server.holds("1", images.manifest(config), config)
        yield server


@pytest.fixture
def registries(registry: ScriptedServer, tmp_path: Path) -> Path:
    """The list that allows it to be asked."""
    listed = {"host": f"{LOOPBACK}:{registry.port}", "plainHTTP": True, "privateAddresses": ["127.0.0.1/32"]}
    path = tmp_path / "registries.yaml"
    document = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "Registries", "spec": {"registries": [listed]}}
    path.write_text(yaml.safe_dump(document))
    return path


def test_resolve_asks_the_registry_of_the_image_now(registry: ScriptedServer, registries: Path) -> None:
    image = f"{LOOPBACK}:{registry.port}/{REPOSITORY}:1"
    told = answer(image, "--resolve", "--registries", registries)
    assert (told["cuda"], told["evidence"]) == ("12.4.1", "image configuration: CUDA_VERSION=12.4.1")
    heard = registry.connections
    assert answer(image)["cuda"] == "unknown"
    assert registry.connections == heard


def test_why_a_registry_told_nothing_stands_in_the_reason(registry: ScriptedServer, registries: Path) -> None:
    here = f"{LOOPBACK}:{registry.port}"
    missing = answer(f"{here}/{REPOSITORY}:2", "--resolve", "--registries", registries)
    assert missing["verdict"] == "unknown"
    assert here in missing["reason"]
    elsewhere = answer("registry.corp/app:1", "--resolve", "--registries", registries)
    assert "registry.corp was not asked; it is not on the list of registries" in elsewhere["reason"]


def test_a_batch_asks_about_each_image_once(registry: ScriptedServer, registries: Path) -> None:
    image = f"{LOOPBACK}:{registry.port}/{REPOSITORY}:1"
    asked = [{"image": image, "driver": driver, "cuda-compat": "no"} for driver in ("550.54.15", "470.82.01")]
    lines = "".join(f"{json.dumps(line)}\n" for line in asked)
    found = run("check", "--batch", "-", "--resolve", "--registries", registries, stdin=f"{lines}broken\n")
    verdicts = [json.loads(line)["verdict"] for line in found.stdout.splitlines()]
    assert (verdicts, found.exit_code) == (["compatible", "incompatible", "unknown"], 2)
    assert registry.paths().count(f"/v2/{REPOSITORY}/manifests/1") == 1


def test_a_live_cluster_is_asked_for_its_nodes(tmp_path: Path) -> None:
    with fake_api_server() as server:
        server.objects[NODES].append(gpu_node("t4-0", "550.54.15", "Tesla-T4", 1))
        kubeconfig = server.kubeconfig(tmp_path)
        (kind,) = json.loads(run("nodes", "--kubeconfig", kubeconfig, "--output", "json").stdout)
        (told,) = json.loads(run("check", CUDA_12, "--kubeconfig", kubeconfig, "--output", "json").stdout)
    assert (kind["product"], kind["newestCuda"], kind["count"], kind["gpus"]) == ("Tesla-T4", "12.4", 1, 1)
    assert (told["product"], told["verdict"]) == ("Tesla-T4", "compatible")


def test_what_registries_say_is_shared_with_the_replicas(
    registry: ScriptedServer, registries: Path, control_plane: ControlPlane
) -> None:
    namespace = control_plane.namespace("cuda-command")
    place = f"/api/v1/namespaces/{namespace}/configmaps"
    assert control_plane.raw("POST", place, {"metadata": {"name": "images"}})[0] == 201
    image = f"{LOOPBACK}:{registry.port}/{REPOSITORY}:1"
    sharing = ("--image-results", f"{namespace}/images", "--kubeconfig", control_plane.kubeconfig)
    told = answer(image, "--driver", "550.54.15", "--resolve", "--registries", registries, *sharing)
    assert (told["cuda"], told["verdict"]) == ("12.4.1", "compatible")
    _, config_map = control_plane.raw("GET", f"{place}/images")
    results = unpack(base64.b64decode(config_map["binaryData"][KEY])).results
    (shared,) = [result.config for result in results.values()]
    assert shared is not None
    assert shared.env["CUDA_VERSION"] == "12.4.1"


def test_the_reference_is_printed_as_it_stands_in_the_docs() -> None:
    done = CliRunner().invoke(main, ["cuda", "docs"])
    assert done.output == (Path(__file__).parents[1] / "docs" / "cuda.md").read_text()
