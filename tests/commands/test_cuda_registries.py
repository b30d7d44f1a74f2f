"""`gpu-policy cuda check --resolve`: registries are asked now, and the replicas get to know what they said."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cuda_command import answer, run
from tests.e2e.control_plane import ControlPlane
from tests.images import images
from tests.images.scripted import LOOPBACK, REPOSITORY, ScriptedServer, scripted
from webhook.images.shared_results import unpack


@pytest.fixture
def registry() -> Iterator[ScriptedServer]:
    with scripted() as server:
        config = images.config({"CUDA_VERSION": "12.4.1"})
        server.holds("1", images.manifest(config), config)
        yield server


@pytest.fixture
def registries(registry: ScriptedServer, tmp_path: Path) -> Path:
    listed = {"host": f"{LOOPBACK}:{registry.port}", "plainHTTP": True}
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
    assert "registry.corp was not queried, because it is not in the list of registries" in elsewhere["reason"]


def test_a_batch_asks_about_each_image_once(registry: ScriptedServer, registries: Path) -> None:
    image = f"{LOOPBACK}:{registry.port}/{REPOSITORY}:1"
    asked = [{"image": image, "driver": driver, "cuda-compat": "no"} for driver in ("550.54.15", "470.82.01")]
    lines = "".join(f"{json.dumps(line)}\n" for line in asked)
    found = run("check", "--batch", "-", "--resolve", "--registries", registries, stdin=f"{lines}broken\n")
    verdicts = [json.loads(line)["verdict"] for line in found.stdout.splitlines()]
    assert (verdicts, found.exit_code) == (["compatible", "incompatible", "unknown"], 2)
    assert registry.paths().count(f"/v2/{REPOSITORY}/manifests/1") == 1


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
    ((_, shared),) = unpack(config_map).values()
    assert shared.env["CUDA_VERSION"] == "12.4.1"
