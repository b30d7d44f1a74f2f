"""What people reported, as small inputs with their right answers: `cases/` has a file for each kind.

A case has a `name`, the `source` of the report, manifests (`pods`), the `inventory` of the cluster, `policies` by file
name (those of the project where there are none), and parts of the answer: `says` are in it, `once` only once, `never`
are not. `command` are the arguments of `gpu-policy`; the default reviews the manifests. `exit` is the exit status,
where it matters.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command_line import ROOT, gpu_policy

CASES = [
    pytest.param(case, id=f"{file.stem}: {case['name']}")
    for file in sorted(Path(__file__).with_name("cases").glob("*.yaml"))
    for case in yaml.safe_load(file.read_text())
]


@pytest.mark.parametrize("case", CASES)
def test_people_get_the_answer_that_they_needed(case: dict[str, Any], tmp_path: Path) -> None:
    places = {"pods": tmp_path / "pods.yaml", "inventory": tmp_path / "inventory.yaml", "policies": ROOT / "policies"}
    places["pods"].write_text(case.get("pods", ""))
    places["inventory"].write_text(case.get("inventory", ""))
    if "policies" in case:
        places["policies"] = tmp_path / "policies"
        places["policies"].mkdir()
        for name, text in case["policies"].items():
            (places["policies"] / name).write_text(text)
    command = case.get("command", ["review", "{pods}", "--inventory={inventory}", "--policies={policies}"])
    done = gpu_policy(*(argument.format(**places) for argument in command))
    for part in case.get("says", ()):
        assert part in done.output, done.output
    for part in case.get("once", ()):
        assert done.output.count(part) == 1, done.output
    for part in case.get("never", ()):
        assert part not in done.output, done.output
    assert done.exit_code == case.get("exit", done.exit_code), done.output
