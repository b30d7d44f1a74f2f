"""What the pages show of kubectl is what kubectl prints, and their commands run."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests import runbook
from tests.e2e.gpu_nodes import add_node, labels, remove_node
from tests.e2e.installation import Installation
from tests.e2e.objects import gpu_pod, job
from tests.test_documents import PAGES, ROOT
from webhook.rules import gpu_limits
from webhook.rules_page.page_of_rules import shown_example

BLOCK = re.compile(r"^( *)```console\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
BLOCKS = [(block[2], page) for page in PAGES for block in BLOCK.finditer((ROOT / page).read_text())]
COMMAND = r"((?:[^#\n]*\| )?gpu-policy (?:\\\n|[^#\n])*)"
COMMANDS = {
    found[1].strip(): page
    for text, page in BLOCKS
    for found in re.finditer(("^ *" if "$ " not in text else r"^ *\$ ") + COMMAND, text, re.MULTILINE)
}
IMAGE = '{"image": "nvidia/cuda:12.4.1-base-ubuntu22.04", "driver": "550.54.15", "product": "Tesla-T4"}\n'
CHART = "apiVersion: v2\nname: train\nversion: 0.1.0\n"


@pytest.fixture(scope="module")
def reader(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of somebody who reads the pages: the repository, files of their own, and a cluster."""
    folder, plane = tmp_path_factory.mktemp("reader"), installation.plane
    for name in ("examples", "policies"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("new", "proposed"):
        shutil.copytree(ROOT / "policies", folder / name)
    shutil.copytree(ROOT / "examples", folder / "manifests", ignore=shutil.ignore_patterns("*.py"))
    for name in (".kube", "chart/templates", "schemas"):
        (folder / name).mkdir(parents=True)
    shutil.copy(ROOT / "examples" / "7-deployment.yaml", folder / "chart" / "templates")
    shutil.copy(ROOT / "examples" / "cluster.yaml", folder)
    shutil.copy(plane.kubeconfig, folder / ".kube" / "config")
    (folder / "chart" / "Chart.yaml").write_text(CHART)
    (folder / "images.jsonl").write_text(IMAGE)
    plane.shared_namespace("team-vision")
    training = job("train", gpu_pod("train", gpus=6))
    plane.kubectl("apply", "-f", "-", namespace="team-vision", input=yaml.safe_dump(training))
    pool = {"pool": "training", "gpupolicy.dev/pool": "training"}
    add_node(plane, "read-about", {**labels("535.183.01", "Tesla-T4", "7.5"), **pool}, gpus=8)
    yield folder
    remove_node(plane, "read-about")
    plane.kubectl("delete", "job", "train", namespace="team-vision")


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_commands_of_the_pages_run(
    reader: Path, installation: Installation, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    done = runbook.run(installation.plane, reader, command, answers="\n" * 5)
    assert done.returncode in (0, 1), (COMMANDS[command], done.stdout, done.stderr)
    assert "Traceback" not in done.stderr


def test_a_refusal_in_the_documents_is_what_kubectl_prints(
    webhook: Installation, make_namespace, tmp_path: Path
) -> None:
    assert gpu_limits.RULE.example is not None
    file = tmp_path / "train.yaml"
    file.write_text(gpu_limits.RULE.example.manifest)
    done = webhook.plane.kubectl("apply", "-f", str(file), namespace=make_namespace("judged"), check=False)
    printed = done.stderr.strip().splitlines()[-1].replace(str(file), file.name)
    assert printed.startswith("Error from server (Forbidden): ")
    refusal = printed.partition("denied the request: ")[2]
    assert refusal
    assert refusal in " ".join("".join(shown_example(gpu_limits.RULE)).split())
