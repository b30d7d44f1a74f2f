"""deploy/README.md: its commands run, and the values that it names exist."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from deploy.generate import CHART, FOLDER, find_helm
from tests.deploy.manifests import NEWEST, Objects, needs_helm
from tests.deploy.value_sets import AUTHORITY

TEXT = (FOLDER / "README.md").read_text()
ROOT = FOLDER.parent
BLOCKS = re.findall(r"```console\n(.*?)```", TEXT, flags=re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.replace("\\\n", " ").splitlines()]
INSTALLING = [command for command in COMMANDS if command.startswith("helm upgrade --install")]
SED = next(command for command in COMMANDS if command.startswith("sed"))


@needs_helm
@pytest.mark.parametrize("command", INSTALLING, ids=["a release", "the image", "a certificate of our own"])
def test_the_commands_that_install_render(command: str, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text(AUTHORITY)
    (tmp_path / "deploy").symlink_to(FOLDER)
    program, arguments = find_helm(), command.removeprefix("helm upgrade --install").replace("--create-namespace", "")
    arguments = arguments.replace("oci://ghcr.io/OWNER/charts/gpu-policy", "deploy/chart")
    script = f"{program} template --kube-version={NEWEST} {arguments}"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert Objects.read(done.stdout).one("Deployment")["metadata"]["namespace"] == "gpu-policy"


def test_the_image_of_the_plain_manifest_is_replaced_by_the_command_that_says_so() -> None:
    script = SED.removesuffix("| kubectl apply -f -")
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    image = Objects.read(done.stdout).container["image"]
    assert image.startswith("registry.example.com/gpu-policy-webhook:")
    assert done.stdout.count("image: registry.example.com") == 1


@needs_helm
def test_a_policy_file_is_brought_along_by_the_argument_that_the_table_names() -> None:
    (argument,) = re.findall(r"`(--set-file '.*?)`", TEXT)
    script = f"{find_helm()} template gpu-policy {CHART} --kube-version={NEWEST} {argument}"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    data = Objects.read(done.stdout).one("ConfigMap", "gpu-policy-policies")["data"]
    assert data["team-vision.yaml"] == (ROOT / "policies" / "team-vision.yaml").read_text()


def test_every_value_that_is_named_exists() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    dotted = re.findall(r"`((?:" + "|".join(values) + r")(?:\.\w+)+)`", TEXT)
    assert len(dotted) > 10
    for name in set(dotted):
        inner = values
        for part in name.split("."):
            assert part in inner, name
            inner = inner[part]
