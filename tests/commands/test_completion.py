"""`gpu-policy completion`, and the completions that its scripts ask for."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import ROOT
from tests.e2e.control_plane import BINARIES, ControlPlane
from webhook.commands.completion import answer_to_kubectl


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run gpu-policy in an environment."""
    given = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], **environment}
    command = [sys.executable, "-c", "from webhook.commands.main import main; main(prog_name='gpu-policy')", *arguments]
    return subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_it_can_read(shell: str) -> None:
    done = run("completion", shell)
    assert done.returncode == 0, done.stderr
    assert "_GPU_POLICY_COMPLETE" in done.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=done.stdout, text=True, check=True, timeout=60)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("gpu-policy re", "review", id="a command"),
        pytest.param("gpu-policy policy sch", "schema", id="a command of a group"),
        pytest.param("gpu-policy audit --form", "--format", id="an option"),
        pytest.param("gpu-policy audit --format sar", "sarif", id="a value"),
    ],
)
def test_the_program_answers_what_the_script_asks(words: str, expected: str) -> None:
    last = str(len(words.split()) - 1)
    done = run(_GPU_POLICY_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=last)
    assert expected in {line.partition(",")[2] for line in done.stdout.splitlines()}


def test_another_shell_is_refused_with_those_that_there_are() -> None:
    done = run("completion", "tcsh")
    assert done.returncode == 2
    assert "'bash', 'zsh', 'fish'" in done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["pol"], ["policy\tCheck, show and document policies.", ":4"], id="a command"),
        pytest.param(["audit", "--format", "sar"], ["sarif", ":4"], id="a value"),
        pytest.param(["audit", "--format=sar"], ["sarif", ":4"], id="a value after an equals sign"),
        pytest.param(["audit", "--policies", "x"], [":0"], id="a path, which the shell completes"),
        pytest.param(["nothing", "x"], [":4"], id="no such command"),
        pytest.param(["why", "-n", "team", "--con"], ["--context\tContext in the kubeconfig.", ":4"], id="an option"),
    ],
)
def test_kubectl_gets_completions_in_its_own_protocol(words: list[str], expected: list[str]) -> None:
    assert answer_to_kubectl(words).splitlines() == expected


@pytest.mark.parametrize("words", [[], [""]], ids=["no word", "an empty word"])
def test_kubectl_gets_all_commands_where_nothing_is_written_yet(words: list[str]) -> None:
    lines = answer_to_kubectl(words).splitlines()
    assert {"why", "audit"} < {line.partition("\t")[0] for line in lines}
    assert lines[-1] == ":4"


@pytest.mark.e2e
def test_kubectl_completes_the_plugin_by_the_executable_that_pip_installs(tmp_path: Path) -> None:
    """By its name on PATH."""
    if reason := ControlPlane.missing():
        pytest.skip(reason)
    name = "kubectl_complete-gpu_policy"
    assert f'{name} = "webhook.commands.completion:kubectl"' in (ROOT / "pyproject.toml").read_text()
    script = "from webhook.commands.completion import kubectl; kubectl()"
    program = tmp_path / name
    program.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c '{script}' \"$@\"\n")
    (tmp_path / "kubectl-gpu_policy").write_text("#!/bin/sh\n")
    for one in tmp_path.iterdir():
        one.chmod(0o755)
    given = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    command = [BINARIES / "kubectl", "__complete", "gpu-policy", "policy", "sch"]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=60)
    found, directive = done.stdout.splitlines()
    assert (found.partition("\t")[0], directive) == ("schema", ":4"), done.stderr
