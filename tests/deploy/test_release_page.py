"""docs/release.md: its commands run as they are written, but for programs that need a registry or an identity."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.command_line import ROOT

BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "release.md").read_text(), re.DOTALL)
DIGEST = f"sha256:{'5f' * 32}"
IMAGE = f"REGISTRY/gpu-policy-webhook@{DIGEST}"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory with the shipped install.yaml, and a cosign that writes down what it is asked for."""
    (tmp_path / "deploy").mkdir()
    (tmp_path / "dist").mkdir()
    (tmp_path / "deploy" / "install.yaml").write_text((ROOT / "deploy" / "install.yaml").read_text())
    program = tmp_path / "bin" / "cosign"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@" >> asked\n')
    program.chmod(0o755)
    return tmp_path


def run(checkout: Path, block: str, image: str) -> subprocess.CompletedProcess[str]:
    """Run a block of the page."""
    environment = {"PATH": f"{checkout / 'bin'}:{os.environ['PATH']}", "image": image}
    return subprocess.run(
        ["bash", "-c", block], cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def block_with(words: str) -> str:
    """The one block with these words."""
    (found,) = [block for block in BLOCKS if words in block]
    return found


def images_of(manifest: Path) -> set[str]:
    """The images of all containers."""
    pods = [one["spec"]["template"]["spec"] for one in yaml.safe_load_all(manifest.read_text()) if _makes_pods(one)]
    return {container["image"] for pod in pods for container in pod["containers"]}


def _makes_pods(raw: dict[str, object]) -> bool:
    spec = raw.get("spec")
    return isinstance(spec, dict) and "template" in spec


def test_what_operators_apply_names_the_image_of_the_release_by_its_digest(checkout: Path) -> None:
    done = run(checkout, block_with("sign-blob"), IMAGE)
    assert done.returncode == 0, done.stderr
    assert images_of(checkout / "dist" / "install.yaml") == {IMAGE}
    signed = (checkout / "asked").read_text()
    assert signed == "sign-blob --yes --bundle dist/install.yaml.sigstore.json dist/install.yaml\n"


def test_nothing_is_signed_without_a_digest(checkout: Path) -> None:
    """As if the build had printed none."""
    assert run(checkout, block_with("sign-blob"), "").returncode == 1
    assert not (checkout / "asked").exists()


def test_whoever_verifies_the_manifest_verifies_the_image_that_it_names(checkout: Path) -> None:
    run(checkout, block_with("sign-blob"), IMAGE)
    (checkout / "install.yaml").write_text((checkout / "dist" / "install.yaml").read_text())
    (checkout / "asked").unlink()
    run(checkout, block_with("verify-blob"), "")
    asked = (checkout / "asked").read_text().splitlines()
    assert [line.split()[0] for line in asked] == ["verify-blob", "verify", "verify-attestation"]
    assert all(line.endswith(IMAGE) for line in asked[1:])
