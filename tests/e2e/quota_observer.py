"""What pods used at every instant, told by the API server's own history of them and by nothing of ours."""

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually

PodAmount = Callable[[Mapping[str, Any]], Fraction]
"""How much a pod counts against a limit, as a sum done by hand."""


@dataclass(slots=True)
class Gauge:
    """The sum over all pods that have not ended: now, and the most it ever was.

    `peak_at` is the resourceVersion at which it was that much first.
    """

    amount: PodAmount
    now: Fraction = Fraction(0)
    peak: Fraction = Fraction(0)
    peak_at: int = 0


class Observer:
    """Follows every pod of the API server in a `with` block; `gauges` are kept after every single event."""

    def __init__(self, plane: ControlPlane, amounts: Mapping[str, PodAmount]) -> None:
        self.gauges = {name: Gauge(amount) for name, amount in amounts.items()}
        self.events = 0
        self.history: list[str] = []
        """The events in words, for whoever has to find out why an assertion failed."""
        self._plane = plane
        self._counting: dict[str, dict[str, Fraction]] = {}  # uid -> what it counts now
        self._versions: dict[str, int] = {}  # uid -> resourceVersion of the pod as it was heard of last
        self._newest = 0
        self._broken = ""
        self._connection: http.client.HTTPSConnection | None = None
        self._thread = threading.Thread(target=self._follow, name="observer", daemon=True)

    def __enter__(self) -> "Observer":
        listed = self._plane.raw("GET", "/api/v1/pods")[1]
        for pod in listed["items"]:
            self._heard("ADDED", pod)
        self._newest = int(listed["metadata"]["resourceVersion"])
        self._connection = http.client.HTTPSConnection(
            urlsplit(self._plane.url).netloc, context=ssl.create_default_context(cafile=str(self._plane.ca_file))
        )
        path = f"/api/v1/pods?watch=1&timeoutSeconds=3600&resourceVersion={self._newest}"
        self._connection.request("GET", path, headers={"Authorization": f"Bearer {self._plane.token}"})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._connection is not None
        with suppress(OSError):
            if self._connection.sock is not None:
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._connection.close()

    def catch_up(self) -> None:
        """Return when everything is heard that happened before; call it while nothing goes on."""
        path = "/api/v1/pods"
        eventually(lambda: self._listed(self._plane.raw("GET", path)[1]["items"]) == dict(self._versions))
        assert self._thread.is_alive(), f"the history breaks off: {self._broken}"

    def uids(self, gauge: str) -> set[str]:
        """The pods that count against it now."""
        return {uid for uid, amounts in list(self._counting.items()) if amounts[gauge]}

    @staticmethod
    def _listed(pods: list[dict[str, Any]]) -> dict[str, int]:
        return {pod["metadata"]["uid"]: int(pod["metadata"]["resourceVersion"]) for pod in pods}

    def _follow(self) -> None:
        assert self._connection is not None
        try:
            answer = self._connection.getresponse()
            assert answer.status == 200, answer.read()
            while line := answer.readline():
                event = json.loads(line)
                pod = event["object"]
                version = int(pod["metadata"]["resourceVersion"])
                assert version > self._newest, f"{version} comes after {self._newest}"
                self._newest = version
                self._heard(event["type"], pod)
        except Exception as error:  # noqa: BLE001  # told by `catch_up`, in the test's own thread
            self._broken = repr(error)

    def _heard(self, kind: str, pod: Mapping[str, Any]) -> None:
        metadata = pod["metadata"]
        uid, version = metadata["uid"], int(metadata["resourceVersion"])
        counts = kind != "DELETED" and not _has_ended(pod)
        before = self._counting.pop(uid, None)
        if counts:
            self._counting[uid] = {name: gauge.amount(pod) for name, gauge in self.gauges.items()}
        if kind == "DELETED":
            self._versions.pop(uid, None)
        else:
            self._versions[uid] = version
        self._add(before or {}, -1, version)
        self._add(self._counting.get(uid, {}), 1, version)
        self.events += 1
        ends = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
        self.history.append(f"{version} {kind} {metadata['namespace']}/{metadata['name']} {uid} {ends}")

    def _add(self, amounts: Mapping[str, Fraction], sign: int, version: int) -> None:
        for name, amount in amounts.items():
            gauge = self.gauges[name]
            gauge.now += sign * amount
            if gauge.now > gauge.peak:
                gauge.peak, gauge.peak_at = gauge.now, version


def _has_ended(pod: Mapping[str, Any]) -> bool:
    """Whether a pod counts no more: it is Succeeded, Failed, or its deletion was due at once.

    The API server deletes such a pod in two steps, and between them its deadline is over, by the rule of the in-tree
    quota. Deletions with a grace period count to their end here, which is longer than they have to.
    """
    is_due = "deletionTimestamp" in pod["metadata"] and pod["metadata"].get("deletionGracePeriodSeconds") == 0
    return is_due or pod["status"].get("phase") in {"Succeeded", "Failed"}
