"""What several commands have in common: options from the environment, faults of policies and inventories, help."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from tests.build import pod
from tests.command_line import POLICY, gpu_policy
from tests.golden import golden
from webhook.commands.main import main

ROOT = Path(__file__).parents[2]


UIDS = {"a": "7", "b": None, "c": "0b2c4d3e-0000-4000-8000-000000000001"}


@pytest.mark.parametrize("command", ["review", "audit"])
def test_what_of_an_inventory_could_not_be_used_is_told_once(here: Path, command: str) -> None:
    nameless = {"apiVersion": "v1", "kind": "Node", "metadata": {}}
    items = [nameless, *({"kind": "Pod", **pod(1, name=name, uid=uid)} for name, uid in UIDS.items())]
    file = here / "odd.yaml"
    file.write_text(yaml.safe_dump({"kind": "List", "items": items}))
    result = gpu_policy(command, "good.yaml", "--inventory", file)
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        f"warning: {file}: 1 of 1 objects of kind Node has no name and is left out",
        f"warning: {file}: pod team/a does not count against quotas: metadata.uid '7' is no UUID",
    ]


def test_options_can_come_from_the_environment(here: Path) -> None:
    (here / "policies").rename(here / "elsewhere")
    assert gpu_policy("review", "good.yaml", env={"GPU_POLICY_REVIEW_POLICIES": "elsewhere"}).exit_code == 0


@golden
def test_a_bad_policy_is_told_with_file_line_and_key_and_status_2(here: Path, command: str) -> None:
    (here / "policies" / "_default.yaml").write_text(POLICY.replace("maxPerPod", "maxPerPot"))
    (here / "policies" / "team.yaml").write_text("7")
    result = gpu_policy(*command.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "policies/_default.yaml:8: spec.rules.gpuLimits.maxPerPot: unknown key" in result.stderr
    assert "policies/team.yaml:1: " in result.stderr


@pytest.mark.parametrize("command", ["review good.yaml", "policy check"])
def test_an_empty_directory_of_policies_is_an_error_with_status_2(here: Path, command: str) -> None:
    (here / "policies" / "_default.yaml").unlink()
    result = gpu_policy(*command.split())
    assert result.exit_code == 2
    assert "policies" in result.stderr


def _commands(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The command and all below it, each with the words by which it is called."""
    yield path, command
    for name, below in command.commands.items() if isinstance(command, click.Group) else ():
        yield from _commands(below, *path, name)


COMMANDS = dict(_commands(main))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_environment_variable_of_an_option_is_called_like_the_option(path: tuple[str, ...]) -> None:
    prefix = ["GPU_POLICY", *path]
    for option in COMMANDS[path].params:
        if isinstance(option, click.Option) and option.allow_from_autoenv:
            names = {one.lstrip("-").replace("-", "_") for one in option.opts}
            variable = option.envvar or "_".join([*prefix, option.name or ""]).upper()
            assert variable in {"KUBECONFIG", *("_".join([*prefix, name]).upper() for name in names)}


def test_no_variable_prints_the_version_instead_of_doing_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_POLICY_VERSION", "1")
    assert gpu_policy("certs", "--help").stdout.startswith("Usage: ")


def test_the_version_is_told() -> None:
    assert gpu_policy("--version").stdout.startswith("gpu-policy, version ")


@pytest.mark.parametrize(
    ("written", "meant"), [(["revew"], "'review'"), (["cuda", "plna"], "'plan'"), (["policy", "chek"], "'check'")]
)
def test_a_misspelled_command_is_answered_with_the_one_that_was_meant(written: list[str], meant: str) -> None:
    done = gpu_policy(*written)
    assert done.exit_code == 2
    assert re.search(rf"Did you mean .*{meant}", done.stderr)
