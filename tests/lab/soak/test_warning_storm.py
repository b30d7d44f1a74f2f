"""Ten thousand warned pods of as many controllers: few Events are written, and answers take as long as before."""

import http.client
import json
import ssl
import statistics
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.build import review
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import Installation
from tests.e2e.objects import gpu_pod
from webhook.replica.warning_events import MOST_A_MINUTE, MOST_WAITING, REASON, RESULTS

PODS = 10_000
NAMESPACES = 25
STORED = 125
"""So many of the first and of the last pods are stored at the API server, so that some are told of whichever pods are
kept; all others are made up, as whoever reaches the port can."""
LONGEST_EVENT = 2048
_SECONDS = 75.0
"""Longer than the minute in which so many Events are allowed."""


class Storm:
    """A replica with Events, which is asked about pods without an API server in between."""

    def __init__(self, installation: Installation, plane: ControlPlane, namespaces: list[str]) -> None:
        self.installation, self.plane, self.namespaces = installation, plane, namespaces
        self.pods = [self._pod(number) for number in range(PODS)]

    def _pod(self, number: int) -> tuple[str, dict[str, Any]]:
        """Namespace and pod, which has a controller of its own."""
        namespace = self.namespaces[number % NAMESPACES]
        raw = gpu_pod(f"p-{number}")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"j-{number}", "uid": f"job-{number}"}
        raw["metadata"] |= {"ownerReferences": [{**owner, "controller": True}]}
        if not STORED <= number < PODS - STORED:
            status, raw = self.plane.raw("POST", f"/api/v1/namespaces/{namespace}/pods", raw)
            assert status == 201, raw
        else:
            raw["metadata"]["uid"] = f"made-up-{number}"
        return namespace, raw

    def ask(self, *options: str) -> list[float]:
        """Have a replica with these options judge all pods; returns the seconds that each answer took."""
        self.installation.stop()
        self.installation.start(*options)
        unverified = ssl._create_unverified_context()  # noqa: S323  # a server that the test started
        connection = http.client.HTTPSConnection("127.0.0.1", self.installation.port, timeout=60, context=unverified)
        taken: list[float] = []
        for namespace, raw in self.pods:
            name = raw["metadata"]["name"]
            body = json.dumps(review(raw, namespace=namespace, name=name, kind=("", "v1", "Pod"))).encode()
            began = time.perf_counter()
            connection.request("POST", "/validate?timeout=10s", body, {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())["response"]
            taken.append(time.perf_counter() - began)
            assert answer["allowed"]
            assert answer["warnings"]
        connection.close()
        return taken

    def events(self) -> list[dict[str, Any]]:
        """Every Event with a warning."""
        _, answer = self.plane.raw("GET", "/api/v1/events")
        return [
            one
            for one in answer["items"]
            if one["reason"] == REASON and one["metadata"]["namespace"] in self.namespaces
        ]

    def counted(self) -> dict[str, int]:
        """The metric of what became of warnings."""
        lines = self.installation.get("/metrics")[1].splitlines()
        return {
            result: int(float(line.rpartition(" ")[2]))
            for result in (*RESULTS, "waiting")
            for line in lines
            if line.startswith(
                (f'gpu_policy_warning_events_total{{result="{result}"}}', f"gpu_policy_warning_events_{result} ")
            )
        }

    def stored_bytes(self) -> int:
        """What etcd has in use."""
        url = f"http://127.0.0.1:{self.plane._etcd_port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as page:  # loopback only
            (line,) = [line for line in page if line.startswith(b"etcd_mvcc_db_total_size_in_use_in_bytes ")]
        return int(float(line.split()[1]))


@pytest.fixture
def storm(
    installation: Installation, control_plane: ControlPlane, make_namespace: Callable[[str], str]
) -> Iterator[Storm]:
    """A storm whose namespaces warn; nothing is registered, so that pods are stored as they are."""
    installation.unregister()
    yield Storm(installation, control_plane, [make_namespace("warned") for _ in range(NAMESPACES)])
    installation.stop()
    installation.start()


def test_a_storm_of_warned_pods_writes_a_bounded_number_of_events_of_a_bounded_size(storm: Storm) -> None:
    without = storm.ask()
    before, began = storm.stored_bytes(), time.monotonic()
    with_events = storm.ask("--warning-events")
    lasted = time.monotonic() - began
    eventually(lambda: len(storm.events()) >= MOST_A_MINUTE)
    time.sleep(max(0.0, _SECONDS - (time.monotonic() - began)))
    eventually(lambda: storm.counted()["written"] == len(storm.events()))
    events, counted, grown = storm.events(), storm.counted(), storm.stored_bytes() - before
    minutes = 1 + int((time.monotonic() - began) / 60)
    medians = [statistics.median(taken) * 1e3 for taken in (without, with_events)]
    late = [statistics.quantiles(taken, n=100)[98] * 1e3 for taken in (without, with_events)]
    print(  # for docs/performance.md
        f"\n{PODS} warned pods in {lasted:.0f} s: {len(events)} Events, etcd grew by {grown >> 10} KiB; {counted}\n"
        f"answers without and with Events: median {medians[0]:.2f} and {medians[1]:.2f} ms "
        f"(ratio {medians[1] / medians[0]:.3f}), 99 % {late[0]:.2f} and {late[1]:.2f} ms"
    )
    assert MOST_A_MINUTE <= len(events) <= MOST_A_MINUTE * minutes
    assert counted["written"] == len(events)
    assert counted["waiting"] <= MOST_WAITING
    assert counted["dropped"] >= PODS - MOST_WAITING - counted["unconfirmed"] - counted["written"]
    assert max(len(json.dumps(one)) for one in events) <= LONGEST_EVENT
    assert grown <= len(events) * 2 * LONGEST_EVENT + 2**20
    stored = {raw["metadata"]["uid"] for _, raw in storm.pods if not raw["metadata"]["uid"].startswith("made-up")}
    assert {one["related"]["uid"] for one in events} <= stored
