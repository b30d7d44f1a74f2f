"""Which worker runs which tests: those that need a control plane are left to two workers.

A control plane takes as much CPU time as some of its tests do, and each worker that needs one starts its own. Who has
one waits for it most of the time; the other workers have enough to do meanwhile.
"""

from functools import cache
from pathlib import Path

from xdist.scheduler.loadfile import LoadFileScheduling

PLANES = 2
_ROOT = Path(__file__).parents[1]


class FewPlanes(LoadFileScheduling):
    """Gives a worker a whole file, or every other file of those that need a control plane."""

    def _split_scope(self, nodeid: str) -> str:
        """The name of what one worker runs as a whole, the same for all tests in it."""
        file = nodeid.partition("::")[0]
        shares = _shares()
        return f"control plane {shares[file]}" if file in shares else file


@cache
def _shares() -> dict[str, int]:
    """The number of the plane by file. Where one is missing its worker starts a plane more, and nothing else is lost."""
    files = sorted(path for path in (_ROOT / "tests").rglob("test_*.py") if _needs_plane(path))
    return {str(path.relative_to(_ROOT)): number % PLANES for number, path in enumerate(files)}


def _needs_plane(path: Path) -> bool:
    return path.parent.name == "e2e" or "control_plane: " in path.read_text()
