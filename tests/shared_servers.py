"""Which files of tests run in one process, because what they share is expensive to start or to make.

Two processes have an API server each, which all tests with one share. Charts are rendered in a third, which remembers
them. All other files go to whichever process is free.
"""

from pathlib import PurePosixPath

from xdist.scheduler import LoadFileScheduling

_ONE = "an API server"
_ANOTHER = "another API server"
_CHART = "the chart"

_FOLDERS = {"tests/e2e": _ONE, "tests/lab/soak": _ONE, "tests/deploy": _CHART}
_BESIDES = ("test_admission", "test_attacks", "test_doctor", "test_published", "test_quota")
"""Tests of tests/e2e for the other API server. Both halves take about the same time."""
_OUTSIDE = {
    "tests/commands/test_cuda_registries.py": _ONE,
    "tests/doctor/test_cluster.py": _ANOTHER,
    "tests/kubernetes/test_kubeconfig.py": _ANOTHER,
    "tests/facts/test_live.py": _ONE,
    "tests/kubernetes/test_webhook_configurations.py": _ONE,
    "tests/replica/test_audit_status.py": _ANOTHER,
    "tests/replica/test_quota_status.py": _ANOTHER,
    "tests/replica/test_warning_events.py": _ANOTHER,
    "tests/replica/test_policy_objects.py": _ANOTHER,
    "tests/test_benchmarks.py": _ONE,
}
"""Files elsewhere with tests that need an API server."""


def shared_by(file: str) -> str | None:
    """What a file of tests shares with others; None where it shares nothing."""
    path = PurePosixPath(file)
    if path.is_relative_to("tests/e2e") and path.name.startswith(_BESIDES):
        return _ANOTHER
    of_folder = (server for folder, server in _FOLDERS.items() if path.is_relative_to(folder))
    return _OUTSIDE.get(file) or next(of_folder, None)


class SharingScheduler(LoadFileScheduling):
    """Sends files that share something to one process, and every other file by itself."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return shared_by(file) or file
