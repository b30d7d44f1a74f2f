"""The hooks of .pre-commit-hooks.yaml, run as pre-commit runs them: entry, arguments and the files that are theirs."""

import contextlib
import re
import shlex
from pathlib import Path

import pytest
import yaml

from tests.command_line import ROOT, gpu_policy

HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
REFUSED = """\
apiVersion: v1
kind: Pod
metadata: {name: early}
spec: {containers: [{name: main, image: "a:1", resources: {requests: {nvidia.com/gpu: 1}}}]}
"""
ALLOWED = REFUSED.replace("{requests: {nvidia.com/gpu: 1}}", "{}")


def ran(directory: Path, hook: str, *arguments: str) -> tuple[int | None, str]:
    """Status and output of a hook for all files of a directory; None where none is of interest to it."""
    described = HOOKS[hook]
    names = sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
    left_out = re.compile(described.get("exclude", "^$"))  # what pre-commit takes for none
    files = [name for name in names if re.search(described["files"], name) and not left_out.search(name)]
    if not files:
        return None, ""
    program, *entry = shlex.split(described["entry"])
    assert program == "gpu-policy"
    passed = files if described.get("pass_filenames", True) else []
    with contextlib.chdir(directory):
        done = gpu_policy(*entry, *arguments, *passed)
    return done.exit_code, done.output


def written(directory: Path, files: dict[str, str]) -> Path:
    """The directory with these files."""
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return directory


def test_the_hooks_have_what_pre_commit_needs() -> None:
    assert set(HOOKS) == {"gpu-policy-review", "gpu-policy-check"}
    for hook in HOOKS.values():
        assert hook["language"] == "python"
        assert {"id", "name", "entry", "files", "description"} <= hook.keys()
        re.compile(hook["files"])


@pytest.mark.parametrize(
    ("name", "text", "status"),
    [
        pytest.param("manifests/a.yaml", REFUSED, 1, id="refused"),
        pytest.param("apps/k8s/a.yml", ALLOWED, 0, id="allowed"),
        pytest.param("manifests/a.yaml", "a: [1", 2, id="unreadable"),
        pytest.param("charts/values.yaml", "a: [1", None, id="no manifest"),
        pytest.param("k8s/base/kustomization.yaml", "resources: [a.yaml]", None, id="a kustomization"),
        pytest.param("k8s/chart/values-prod.yaml", "gpus: 4", None, id="values of a chart"),
        pytest.param("k8s/chart/Chart.yaml", "apiVersion: v2", None, id="a chart"),
        pytest.param("k8s/chart/prod-values.yml", "gpus: 4", None, id="values of an environment"),
        pytest.param("k8s/chart/values.schema.json", "{}", None, id="the schema of values"),
        pytest.param("k8s/key-values-store.yaml", REFUSED, 1, id="a manifest about values"),
        pytest.param("k8s/kustomization-job.yaml", REFUSED, 1, id="a manifest with such a name"),
    ],
)
def test_the_review_fails_a_commit_whose_manifests_would_be_refused(
    tmp_path: Path, name: str, text: str, status: int | None
) -> None:
    assert ran(written(tmp_path, {name: text}), "gpu-policy-review", f"--policies={ROOT / 'policies'}")[0] == status


def test_the_check_reads_the_whole_directory(tmp_path: Path) -> None:
    """A file can be wrong because of another one that the commit does not touch."""
    policies = {f"policies/{one.name}": one.read_text() for one in (ROOT / "policies").glob("*.yaml")}
    directory = written(tmp_path, policies)
    assert ran(directory, "gpu-policy-check")[0] == 0
    written(directory, {"policies/again.yaml": policies["policies/team-vision.yaml"]})
    status, output = ran(directory, "gpu-policy-check")
    assert status == 2
    assert "again.yaml" in output


def test_the_check_is_not_run_for_other_files(tmp_path: Path) -> None:
    assert ran(written(tmp_path, {"README.md": "", "deploy/policies.json": "{}"}), "gpu-policy-check")[0] is None
