"""The API server that a benchmark runs beside."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.control_plane import ControlPlane
from tests.lab.benchmarks.runs import need


@contextmanager
def control_plane() -> Iterator[ControlPlane]:
    """A control plane in a directory of its own, as long as the block runs."""
    need(ControlPlane.missing())
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(Path(folder))
        try:
            plane.start()
            yield plane
        finally:
            plane.stop()


def named(plane: ControlPlane) -> str:
    """The product and its version, such as Kubernetes 1.36."""
    return f"Kubernetes {'.'.join(map(str, plane.version))}"
