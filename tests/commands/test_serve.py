"""`gpu-policy serve`: options that cannot work end it at once, with a message."""

from pathlib import Path

import pytest

from tests.command_line import serve

ROOT = Path(__file__).parents[2]


def test_serve_without_a_certificate_says_how_to_get_one(here: Path) -> None:
    result = serve("--cert", "c", "--key", "k", "--inventory", "inventory.yaml")
    assert (result.exit_code, result.stderr) == (
        2,
        "c: no such file; `gpu-policy certs` makes a certificate and its key\n",
    )


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        pytest.param(
            [],
            "no source of facts about the cluster: this process does not run in a pod; give --inventory or --kub",
            id="none",
        ),
        pytest.param(["--inventory", "inventory.yaml", "--kubeconfig", "k"], "exclude each other", id="two"),
        pytest.param(["--kubeconfig", "nowhere"], "nowhere: no such file", id="no kubeconfig"),
        pytest.param(["--inventory", "nowhere"], "nowhere: the file cannot be read", id="no inventory"),
    ],
)
def test_serve_without_a_usable_source_of_facts_says_so_at_once(here: Path, args: list[str], reason: str) -> None:
    (here / "c").touch()
    result = serve("--cert", "c", "--key", "c", *args)
    assert result.exit_code == 2
    assert reason in result.stderr
