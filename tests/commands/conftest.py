"""A directory in which the commands run."""

from pathlib import Path

import pytest

from tests.command_line import with_sample_files


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with policies and manifests, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    return with_sample_files(tmp_path)
