"""Wall clocks jump under running replicas. Time that passes is measured by the monotonic clock, so nobody notices."""

import json
import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.e2e.replica_set import Replica
from tests.lab.soak.site import SECONDS, Site

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
JUMPS = {"+2h": timedelta(hours=2), "-2h": timedelta(hours=-2), "+20y": timedelta(days=20 * 365)}
SLEEP = "import select, time\ntime.sleep = lambda seconds: select.select([], [], [], seconds)\n"
"""libfaketime 0.9.10 fails in the system call of Python's own sleep."""


@pytest.mark.skipif(LIBRARY is None, reason="no libfaketime here; Debian's package is faketime")
def test_clocks_that_jump_lose_no_create(site: Site, tmp_path: Path) -> None:
    """Each replica's clock jumps elsewhere, and then the API server restarts, so that watches have to begin again.

    Where a clock says that the API server's certificate is not valid, the replica goes on with the facts it has.
    """
    (tmp_path / "sitecustomize.py").write_text(SLEEP)
    clocks = [tmp_path / f"clock-{number}" for number in range(len(JUMPS))]
    for replica, clock in zip(site.replicas.running, clocks, strict=True):
        restart_by(clock, replica)
    site.wait_for_members()
    with site.under_load(f"clocks jump by {', '.join(JUMPS)}; the API server restarts") as account:
        account.load.go_on_for(SECONDS / 4)
        for clock, jump in zip(clocks, JUMPS, strict=True):
            clock.write_text(jump)
        account.load.go_on_for(SECONDS / 2)
        with site.replicas.readiness_watched() as unready:
            site.plane.restart_apiserver()
            account.load.go_on_for(SECONDS)
            jumped = [round(lead(replica) / timedelta(hours=1)) for replica in site.replicas.running]
    assert jumped == [jump / timedelta(hours=1) for jump in JUMPS.values()]
    assert unready == []
    account.demand_no_gap(api_server_away=True)


def restart_by(clock: Path, replica: Replica) -> None:
    """Start it again with a wall clock that is ahead by what stands in a file, now nothing, whenever that changes."""
    clock.write_text("+0")
    replica.stop()
    replica.env = {
        **os.environ,
        "LD_PRELOAD": str(LIBRARY),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
        "PYTHONPATH": str(clock.parent),
    }
    replica.start()


def lead(replica: Replica) -> timedelta:
    """How far the replica's wall clock was ahead of ours when it logged last."""
    *_, last = (line for line in replica.log.read_text().splitlines() if line.endswith("}"))
    written = datetime.fromtimestamp(replica.log.stat().st_mtime).astimezone()
    return datetime.fromisoformat(json.loads(last)["time"]) - written
