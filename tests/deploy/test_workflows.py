"""`.github/workflows`: what a runner executes is pinned, and scripts of a release run here, with stand-ins."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from deploy.generate import find_helm
from tests.command_line import ROOT
from tests.deploy.manifests import needs_helm

FILES = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
RELEASE = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text())["jobs"]["release"]
DIGEST, CHART_DIGEST = f"sha256:{'5f' * 32}", f"sha256:{'a0' * 32}"
IMAGE = "ghcr.io/our-team/gpu-policy-webhook"
HELM = f"""\
#!/bin/sh
if [ "$1" = push ]; then echo "$@" >>asked; echo "Digest: {CHART_DIGEST}"; else exec "{find_helm()}" "$@"; fi
"""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_actions_are_pinned_by_commit_and_nothing_is_published_but_to_one_registry(file: Path) -> None:
    text = file.read_text()
    for used in re.findall(r"uses: (\S+.*)", text):
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+.*|\./\.github/workflows/ci\.yaml", used)
    assert set(re.findall(r"[\w-]+\.(?:io|org|dev|com)\b", text)) <= {"ghcr.io", "github.com", "k8s.io"}
    if (linter := shutil.which("actionlint")) is not None:
        assert subprocess.run([linter, file], capture_output=True, text=True, check=False).stdout == ""


def run(directory: Path, step: str, **given: str) -> dict[str, str]:
    """Run a step of the release, whose outputs are returned."""
    (found,) = [one for one in RELEASE["steps"] if one.get("id") == step]
    output, script = directory / "output", directory / "script.sh"
    output.write_text("")
    script.write_text(found["run"])
    path = f"{directory / 'bin'}:{os.environ['PATH']}"
    environment = {"PATH": path, "GITHUB_OUTPUT": str(output), **given}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", script]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(line.split("=", 1) for line in output.read_text().splitlines())


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a release reads, at version 0.1.0, and programs that write down what they are asked for."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "dist").mkdir()
    stand_in = '#!/bin/sh\necho "$@" >>asked\n'
    for name, text in {"cosign": stand_in, "helm": HELM}.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy", symlinks=True)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text("## 0.1.0\n\nThe first version.\n")
    return tmp_path


def test_a_release_has_the_number_of_its_tag_and_goes_to_the_packages_of_its_owner(checkout: Path) -> None:
    given = {"TAG": "v0.1.0", "GITHUB_REPOSITORY_OWNER": "Our-Team"}
    assert run(checkout, "numbers", **given) == {
        "version": "0.1.0",
        "image": IMAGE,
        "charts": "ghcr.io/our-team/charts",
    }
    with pytest.raises(AssertionError):
        run(checkout, "numbers", **given | {"TAG": "v0.2.0"})


@needs_helm
def test_chart_and_manifest_of_a_release_name_its_image_by_the_digest_and_are_signed(checkout: Path) -> None:
    given = {"IMAGE": IMAGE, "DIGEST": DIGEST, "CHARTS": "ghcr.io/our-team/charts", "VERSION": "0.1.0"}
    assert run(checkout, "chart", **given) == {"digest": CHART_DIGEST}
    assert (checkout / "asked").read_text().splitlines() == [
        "push dist/gpu-policy-0.1.0.tgz oci://ghcr.io/our-team/charts",
        f"sign --yes ghcr.io/our-team/charts/gpu-policy@{CHART_DIGEST}",
        "sign-blob --yes --bundle dist/install.yaml.sigstore.json dist/install.yaml",
    ]
    for made in ("rendered", "install.yaml"):
        text = (checkout / "dist" / made).read_text()
        assert set(re.findall(r"(?m)^ *image: (\S+)", text)) == {f"{IMAGE}@{DIGEST}"}
