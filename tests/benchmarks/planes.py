"""The API server that a benchmark runs beside."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.runs import need
from tests.e2e.control_plane import ControlPlane

PATCHES = (1, 28)
"""The first version on which patches and custom resources are measured. Older ones have no matchConditions, and a 1.20
that was built with a Go newer than 1.17 crashes (modern-go/reflect2).
"""


@contextmanager
def control_plane(since: tuple[int, int] = (0, 0)) -> Iterator[ControlPlane]:
    """A control plane in a directory of its own, as long as the block runs."""
    need(ControlPlane.missing())
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(Path(folder))
        least = ".".join(map(str, since))
        need(None if plane.version >= since else f"this is {named(plane)}; {least} or newer is needed")
        try:
            plane.start()
            yield plane
        finally:
            plane.stop()


def named(plane: ControlPlane) -> str:
    """The product and its version, such as Kubernetes 1.36."""
    return f"Kubernetes {'.'.join(map(str, plane.version))}"
