"""action.yml, whose steps are run as a runner does: inputs reach bash as environment variables, and as nothing else."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.command_line import ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = ACTION["runs"]["steps"]
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: early}
spec:
  containers:
    - {name: main, image: "a:1", resources: {requests: {nvidia.com/gpu: 1}}}
"""


class Runner:
    """Runs the steps of the action that are scripts, but for the installation: in its place stands this checkout."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.output = directory / "output"
        self.output.touch()
        self.install(f'exec "{sys.executable}" -m webhook "$@"\n')
        (directory / "manifests").mkdir()
        (directory / "manifests" / "early.yaml").write_text(POD)

    def install(self, script: str) -> None:
        """Have this for the program `gpu-policy`."""
        program = self.directory / "temp" / "gpu-policy" / "bin" / "gpu-policy"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}")
        program.chmod(0o755)

    def run(self, step: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run the step with these inputs; the others have their defaults."""
        (found,) = [one for one in STEPS if one.get("id") == step]
        values = {name: one.get("default", "") for name, one in ACTION["inputs"].items()}
        values |= {
            "policies": str(ROOT / "policies"),
            **{name.replace("_", "-"): text for name, text in inputs.items()},
        }
        environment = {name: self._filled(text, values) for name, text in found["env"].items()}
        given = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "RUNNER_TEMP": str(self.directory / "temp"),
            "GITHUB_OUTPUT": str(self.output),
        }
        script = self.directory / "script.sh"
        script.write_text(found["run"])
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        return subprocess.run(
            command,
            cwd=self.directory,
            env=given | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    @staticmethod
    def _filled(text: str, values: dict[str, str]) -> str:
        """The text with expressions in the place of which a runner writes inputs."""
        return re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda match: values[match[1]], text)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A runner in a directory with a manifest that is refused."""
    return Runner(tmp_path)


def test_no_script_has_an_expression_in_it() -> None:
    """A runner writes the value into the script before bash reads it."""
    scripts = [step["run"] for step in STEPS if "run" in step]
    assert len(scripts) == 3
    assert not [script for script in scripts if "${{" in script]


def test_what_is_not_ours_is_named_by_its_commit() -> None:
    """Whoever can move a tag of another repository could run anything here."""
    (used,) = [step["uses"] for step in STEPS if "uses" in step]
    assert re.fullmatch(r"github/codeql-action/upload-sarif@[0-9a-f]{40}", used)


def test_every_input_is_used_and_every_used_input_is_declared() -> None:
    used = set(re.findall(r"inputs\.([a-z-]+)", json.dumps(STEPS)))
    assert used == set(ACTION["inputs"])


def test_what_is_installed_is_what_the_locks_name() -> None:
    (install,) = [step["run"] for step in STEPS if step.get("id") == "install"]
    assert "--require-hashes" in install
    for name in re.findall(r"\$ACTION/([\w.-]+)", install):
        assert (ROOT / name).is_file()


NAMED = "sarif-file=gpu-policy.sarif\n"


@pytest.mark.parametrize(
    ("inputs", "status", "named"),
    [
        pytest.param({}, 1, NAMED, id="a refused manifest"),
        pytest.param(
            {"fail_on": "never", "paths": "manifests\n\nmanifests/early.yaml\n"}, 0, NAMED, id="a report alone"
        ),
        pytest.param({"command": "review"}, 1, "", id="review"),
        pytest.param({"paths": ""}, 2, "", id="no path"),
        pytest.param({"policies": "missing"}, 2, "", id="an audit that ends before it has a report"),
        pytest.param({"inventory": "missing"}, 2, "", id="an inventory that is missing"),
        pytest.param({"sarif_file": "missing/gpu-policy.sarif"}, 2, "", id="a file that cannot be written"),
        pytest.param({"sarif_file": "manifests"}, 2, "", id="a directory"),
        pytest.param({"sarif_file": "a\rb=c"}, 1, "", id="a name that the runner would take for two outputs"),
        pytest.param({"command": "serve"}, 2, "", id="another command"),
    ],
)
def test_the_step_ends_as_the_command_does_and_names_the_report_that_it_has_written(
    runner: Runner, inputs: dict[str, str], status: int, named: str
) -> None:
    """Uploading fails for a file that is missing, and one of an earlier run says what is not so any more."""
    (runner.directory / "gpu-policy.sarif").write_text("{}")
    done = runner.run("judge", **{"paths": "manifests", **inputs})
    assert (done.returncode, runner.output.read_text()) == (status, named), done.stdout + done.stderr
    if named and status == 1:
        report = json.loads((runner.directory / "gpu-policy.sarif").read_text())
        assert [result["ruleId"] for result in report["runs"][0]["results"]]


def test_the_runner_obeys_no_line_about_files_of_a_pull_request(runner: Runner) -> None:
    """Between its first and last line the runner waits for a token, which differs each time."""
    (runner.directory / "wrong").mkdir()
    (runner.directory / "wrong" / "_default.yaml").write_text('"##[add-mask]e": 1\n')
    tokens = set()
    for step, inputs in (("check", {"policies": "wrong"}), ("judge", {"paths": "##[add-mask]e"})):
        done = runner.run(step, **{"paths": "manifests", **inputs})
        assert done.returncode == 2
        first, *_, last = done.stdout.splitlines()
        opening, _, token = first.rpartition("::")
        assert (opening, last, done.stderr) == ("::stop-commands", f"::{token}::", "")
        assert re.fullmatch("[0-9a-f]{32}", token)
        tokens.add(token)
    assert len(tokens) == 2


def test_policies_without_a_mistake_pass_the_check(runner: Runner) -> None:
    assert runner.run("check").returncode == 0


@pytest.mark.parametrize(
    "text", ["$(touch pwned)", "`touch pwned`", "'; touch pwned; '", '"; touch pwned; "', "a\ntouch pwned"]
)
def test_no_input_is_run_as_a_script(runner: Runner, text: str) -> None:
    """The program is left out, but for the report that it writes: what scripts make of inputs is asked."""
    runner.install('for one; do case "$one" in --output=*) : >"${one#--output=}";; esac; done\n')
    for name in sorted(set(ACTION["inputs"]) - {"upload", "python"}):
        for step in ("check", "judge"):
            runner.run(step, **{"paths": "manifests", name: text})
        assert not (runner.directory / "pwned").exists(), name
        assert len(runner.output.read_text().splitlines()) <= 1, f"{name}: a second line would be a second output"
        runner.output.write_text("")
