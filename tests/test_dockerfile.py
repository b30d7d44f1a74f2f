"""The Dockerfile keeps to what makes an image small, reproducible and safe. Its commands are run in tests/lab/soak."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.dockerfile import Stage, context, stages
from webhook.commands.main import main

ROOT = Path(__file__).parent.parent
BUILD, FINAL = stages(ROOT / "Dockerfile")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EVERYTHING = (ROOT / "Dockerfile").read_text()
INSTRUCTIONS = [instruction for stage in (BUILD, FINAL) for instruction in stage.instructions]


@pytest.mark.parametrize("stage", [pytest.param(BUILD, id="build"), pytest.param(FINAL, id="final")])
def test_the_base_has_a_tag_that_names_a_python_and_a_debian(stage: Stage) -> None:
    """A digest belongs to whoever publishes the image: it changes with every security update of the base."""
    assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+", stage.base)
    assert BUILD.base == stage.base, "the environment is moved from one to the other"


def test_the_base_runs_the_python_for_which_the_dependencies_were_resolved() -> None:
    version = re.search(r"python:(3\.\d+)-", FINAL.base)[1]  # type: ignore[index]  # None fails the test
    assert f"pip-compile with Python {version}\n" in (ROOT / "requirements.lock").read_text()


def test_it_runs_as_a_user_that_kubernetes_can_see_is_not_root() -> None:
    (user,) = FINAL.of("USER")
    assert [int(number) for number in user.text.split(":")] == [65532, 65532]


def test_the_last_stage_runs_nothing_so_that_it_needs_no_network_and_no_shell() -> None:
    assert FINAL.of("RUN") == []
    assert [copy.options for copy in FINAL.of("COPY")] == [{"from": "build"}]


def test_the_container_serves() -> None:
    (entry_point,), (command,) = FINAL.of("ENTRYPOINT"), FINAL.of("CMD")
    assert entry_point.exec_form + command.exec_form == ["gpu-policy", "serve"]
    assert "gpu-policy" in PROJECT["project"]["scripts"]


def test_the_port_that_it_shows_is_the_one_on_which_it_serves() -> None:
    (exposed,) = FINAL.of("EXPOSE")
    options: dict[str, Any] = {option.name or "": option.default for option in main.commands["serve"].params}
    assert int(exposed.text) == options["port"]


def test_its_labels_are_those_of_the_project() -> None:
    labels = {key.removeprefix("org.opencontainers.image."): value for key, value in FINAL.pairs("LABEL").items()}
    assert labels.keys() == {"title", "description", "licenses", "version", "revision"}
    assert labels["licenses"] == PROJECT["project"]["license"]
    assert labels["version"] == "${VERSION}"
    assert FINAL.pairs("ARG")["VERSION"] == PROJECT["project"]["version"]


def test_nothing_is_installed_but_what_a_lock_file_names_with_its_hash() -> None:
    commands = [part for run in BUILD.of("RUN") for part in run.text.split("&&")]
    installs = [command for command in commands if "pip" in command and " install " in command]
    assert len(installs) == 3
    for command in installs:
        assert "--require-hashes" in command or "--no-index" in command
    (wheel,) = [command for command in commands if " wheel " in command]
    assert "--no-build-isolation" in wheel, "isolation would fetch a build backend that nothing pins"
    for lock in re.findall(r"--requirement (\S+)", " ".join(installs)):
        names = re.findall(r"^([\w-]+)==\S+ \\\n    --hash=sha256:", (ROOT / lock).read_text(), re.MULTILINE)
        assert names


def test_the_build_backend_is_locked() -> None:
    wanted = [re.match(r"[\w-]+", requirement)[0] for requirement in PROJECT["build-system"]["requires"]]  # type: ignore[index]  # None fails the test
    locked = (ROOT / "requirements-build.lock").read_text()
    assert [name for name in wanted if f"\n{name}==" not in locked] == []


@pytest.mark.parametrize(
    "word", ["ADD", "latest", "apt", "apt-get", "curl", "wget", "sudo", "amd64", "x86_64", "arm64", "TARGETARCH"]
)
def test_it_does_without(word: str) -> None:
    """Downloads beside pip, packages of the distribution, a moving base, or a step for one architecture only."""
    assert not [
        found for found in INSTRUCTIONS if re.search(rf"(?<![\w-]){word}(?![\w-])", f"{found.name} {found.text}")
    ]


def test_what_it_copies_exists_and_the_build_gets_to_see_it() -> None:
    seen = {str(file) for file in context(ROOT)}
    for copy in BUILD.of("COPY"):
        *sources, target = copy.words
        assert target == "./"
        assert [source for source in sources if source != "." and source not in seen] == []


def test_the_build_sees_the_sources_of_the_package_and_nothing_else() -> None:
    files = context(ROOT)
    assert {file.parts[0] for file in files} == {
        "LICENSE",
        "README.md",
        "certs",
        "pyproject.toml",
        "requirements-build.lock",
        "requirements.lock",
        "webhook",
    }
    assert {file.suffix for file in files if file.parts[0] in {"certs", "webhook"}} <= {
        ".py",
        ".typed",
        ".json",
        ".md",
        ".yaml",
        ".html",
        ".css",
        ".js",
    }


def test_every_package_of_the_sources_is_named_for_the_wheel() -> None:
    found = {".".join(file.parent.parts) for file in context(ROOT) if file.name == "__init__.py"}
    assert sorted(found) == PROJECT["tool"]["setuptools"]["packages"]


def test_files_that_are_no_code_are_named_for_the_wheel() -> None:
    found = {file for file in context(ROOT) if file.parts[0] in {"certs", "webhook"} and file.suffix != ".py"}
    named = {
        file.relative_to(ROOT)
        for package, globs in PROJECT["tool"]["setuptools"]["package-data"].items()
        for glob in globs
        for file in ROOT.joinpath(*package.split(".")).glob(glob)
    }
    assert found == named
