"""A replica whose policies have mistakes when it starts says so, and waits for good ones instead of ending."""

import os
import signal
import socket
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import gpu_policy
from tests.e2e.daemon import Daemon
from tests.e2e.eventually import eventually
from tests.policy.conftest import policy_text

GOOD = policy_text("_default", "gpuLimits: {mode: enforce, maxPerPod: 4}")
DECLARING = GOOD.replace("spec:\n", "spec:\n  accelerators: {extra: [{name: example.com/gpu, vendor: nvidia}]}\n")
BAD = policy_text("team", "gpuLimits: {maxPerPodd: 2}")


@pytest.fixture
def port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    directory = tmp_path / "policies"
    directory.mkdir()
    (directory / "_default.yaml").write_text(DECLARING)
    (directory / "team.yaml").write_text(BAD)
    return directory


@pytest.fixture
def replica(policies: Path, tmp_path: Path, port: int) -> Iterator[Daemon]:
    """The real process."""
    (tmp_path / "inventory.yaml").write_text("apiVersion: v1\nkind: List\nitems: []\n")
    made = gpu_policy("certs", str(tmp_path), "--name", "127.0.0.1")
    assert made.exit_code == 0, made.output
    daemon = Daemon(
        [
            *(sys.executable, "-m", "webhook", "serve", f"--policies={policies}", "--host=127.0.0.1", f"--port={port}"),
            *(f"--inventory={tmp_path / 'inventory.yaml'}", f"--cert={tmp_path / 'tls.crt'}"),
            f"--key={tmp_path / 'tls.key'}",
        ],
        log=tmp_path / "log",
    )
    try:
        yield daemon
    finally:
        daemon.stop()


def get(port: int, path: str) -> tuple[int, str]:
    context = ssl._create_unverified_context()  # noqa: S323  # it is on this machine
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}")
    try:
        with urllib.request.urlopen(request, timeout=5, context=context) as answer:  # noqa: S310  # https
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def test_a_replica_waits_unready_for_policies_without_mistakes_instead_of_ending(
    replica: Daemon, policies: Path, port: int
) -> None:
    eventually(lambda: "maxPerPodd" in replica.log.read_text())
    assert "not ready until these mistakes in the policies are corrected" in replica.log.read_text()
    assert "team.yaml:6: spec.rules.gpuLimits.maxPerPodd: unknown key" in replica.log.read_text()
    (policies / "team.yaml").write_text(BAD.replace("maxPerPodd: 2", "maxPerPod: two"))
    eventually(lambda: "gpuLimits.maxPerPod: " in replica.log.read_text())
    assert replica.log.read_text().count("maxPerPodd: unknown key") == 1
    assert (get(port, "/readyz")[0], replica.returncode) == (0, None)
    (policies / "team.yaml").write_text(BAD.replace("maxPerPodd", "maxPerPod"))
    eventually(lambda: get(port, "/readyz")[0] == 200)
    assert "gpu_policy_policy_reload_ok 1.0" in get(port, "/metrics")[1]
    (policies / "team.yaml").write_text(BAD)
    eventually(lambda: "gpu_policy_policy_reload_ok 0.0" in get(port, "/metrics")[1])
    assert get(port, "/readyz")[0] == 200


def test_a_replica_that_waits_ends_when_it_is_told(replica: Daemon) -> None:
    eventually(lambda: "maxPerPodd" in replica.log.read_text())
    os.kill(replica.pid, signal.SIGTERM)
    eventually(lambda: replica.returncode is not None)
    assert replica.returncode == 0


def test_a_directory_that_is_not_there_ends_it_with_a_message(tmp_path: Path) -> None:
    result = gpu_policy(
        "serve", "--policies", str(tmp_path / "nowhere"), "--cert", "c", "--key", "k", "--inventory", "i"
    )
    assert result.exit_code == 2
