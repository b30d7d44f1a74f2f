"""The commands of the Dockerfile, run here: what they build starts, and holds everything that it needs."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.dockerfile import context, stages

ROOT = Path(__file__).parents[3]
BUILD, FINAL = stages(ROOT / "Dockerfile")
PYTHON = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
"""Stands for the `python` of the base."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the build stage was run as if it were the root of a file system."""
    root = tmp_path_factory.mktemp("image")
    (root / "python").write_text(f'#!/bin/sh\nexec {PYTHON} "$@"\n')
    (root / "python").chmod(0o755)
    environment = _clean(os.environ, path=root) | BUILD.pairs("ENV")
    directory = root
    for instruction in BUILD.instructions:
        if instruction.name == "WORKDIR":
            directory = root / instruction.text.lstrip("/")
            directory.mkdir(parents=True)
        elif instruction.name == "COPY":
            _copy(instruction.words[:-1], directory)
        elif instruction.name == "RUN":
            command = _moved(instruction.text, root)
            done = subprocess.run(
                ["/bin/sh", "-c", command],  # as Docker runs it
                cwd=directory,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return root


def _clean(environment: Mapping[str, str], path: Path) -> dict[str, str]:
    """The environment without what tests set for theirs; commands are looked for in `path` first."""
    own = ("PYTHON", "COVERAGE", "VIRTUAL_ENV")
    kept = {name: value for name, value in environment.items() if not name.startswith(own)}
    return kept | {"PATH": f"{path}{os.pathsep}{environment['PATH']}"}


def _copy(sources: list[str], target: Path) -> None:
    for file in context(ROOT):
        if str(file) in sources or "." in sources:
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, target / file)


def _moved(command: str, root: Path) -> str:
    """The command with its absolute paths below the directory that stands for the root."""
    return re.sub(r"(?<![\w./])/opt/", f"{root}/opt/", command)


def run(image: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """What a container does with this command: a PATH that begins as the image says, and nothing of ours."""
    path = _moved(FINAL.pairs("ENV")["PATH"], image).replace("$PATH", "/usr/bin:/bin")
    return subprocess.run(
        ["/usr/bin/env", *command],
        cwd="/",
        env={**FINAL.pairs("ENV"), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_entry_point_starts(image: Path) -> None:
    (entry_point,), (command,) = FINAL.of("ENTRYPOINT"), FINAL.of("CMD")
    version = run(image, *entry_point.exec_form, "--version")
    assert (version.returncode, version.stdout) == (0, f"gpu-policy, version {FINAL.pairs('ARG')['VERSION']}\n")
    help_text = run(image, *entry_point.exec_form, *command.exec_form, "--help")
    assert (help_text.returncode, help_text.stderr) == (0, "")
    assert "--policies" in help_text.stdout


def test_it_decides(image: Path) -> None:
    """Every layer below the server is there: policies, rules, the model, and the data that they need."""
    example = ROOT / "examples" / "3-requests-only.yaml"
    done = run(image, "gpu-policy", "review", str(example), "--policies", str(ROOT / "policies"))
    assert (done.returncode, done.stderr) == (1, "")
    assert "Move the 4 to resources.limits" in done.stdout


def test_every_module_can_be_imported(image: Path) -> None:
    modules = [".".join(file.with_suffix("").parts) for file in context(ROOT) if file.suffix == ".py"]
    wanted = [module for module in modules if not module.endswith("__main__")]
    done = run(image, "python", "-W", "error", "-c", f"import {', '.join(wanted)}")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_wheel_holds_every_source_file_and_the_marks_of_a_typed_package(image: Path) -> None:
    (wheel,) = (image / "opt" / "built").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    assert {str(file) for file in context(ROOT) if file.parts[0] in {"certs", "webhook"}} <= packed
    assert {"certs/py.typed", "webhook/py.typed"} <= packed


def test_the_environment_that_runs_has_no_pip(image: Path) -> None:
    environment = image / "opt" / "gpu-policy"
    assert not list(environment.glob("bin/pip*"))
    assert run(image, "python", "-m", "pip").returncode != 0
