"""What several tests of a replica's answers need."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.admission.quota_desk import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A namespace that may use 4 GPUs, two of which are in use."""
    site = Site(tmp_path)
    yield site
    site.desk.close()
