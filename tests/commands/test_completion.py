"""`gpu-policy completion`, and the completions that its scripts ask for."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.command_line import ROOT


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
