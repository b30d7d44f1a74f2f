"""`gpu-policy serve`: options that cannot work end it at once, with a message."""

from pathlib import Path

import pytest

from tests.command_line import serve
from tests.golden import golden


@golden
def test_serve_without_something_that_it_needs_says_so_at_once(
    here: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], reason: str
) -> None:
    (here / "c").touch()
    result = serve(monkeypatch, "--cert=c", "--key=c", *args)
    assert result.exit_code == 2
    assert reason in result.stderr
