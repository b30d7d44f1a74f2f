"""`gpu-policy serve`: options that cannot work end it at once, with a message."""

from pathlib import Path

import pytest

from tests.command_line import serve


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        pytest.param(
            ["--inventory=inventory.yaml", "--cert=nowhere"],
            "nowhere: no such file; `gpu-policy certs` makes a certificate and its key\n",
            id="no certificate",
        ),
        pytest.param(
            [],
            "no source of facts about the cluster: this process does not run in a pod; give --inventory or --kub",
            id="no facts",
        ),
        pytest.param(["--inventory=inventory.yaml", "--kubeconfig=k"], "exclude each other", id="two sources of facts"),
        pytest.param(["--kubeconfig=nowhere"], "nowhere: no such file", id="no kubeconfig"),
        pytest.param(["--inventory=nowhere"], "nowhere: the file cannot be read", id="no inventory"),
    ],
)
def test_serve_without_something_that_it_needs_says_so_at_once(
    here: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], reason: str
) -> None:
    (here / "c").touch()
    result = serve(monkeypatch, "--cert=c", "--key=c", *args)
    assert result.exit_code == 2
    assert reason in result.stderr
