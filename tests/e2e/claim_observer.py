"""What pods and claims reserved at every instant, by the API server's own history of them and by nothing of ours."""

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.claimed import API
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually

Raw = Mapping[str, Any]
EXTENDED = "resource.kubernetes.io/extended-resource-claim"


def by_pod(raw: Raw) -> int:
    """GPUs that a pod requests by number, until it has ended."""
    metadata = raw["metadata"]
    if "deletionTimestamp" in metadata and metadata.get("deletionGracePeriodSeconds") == 0:
        return 0
    (container,) = raw["spec"]["containers"]
    limits = container["resources"].get("limits", {})
    return sum(int(amount) for name, amount in limits.items() if "gpu" in name)


def key_of(raw: Raw) -> str:
    """The uid; of a claim that the scheduler made for what a pod requests by number, that of the pod."""
    metadata = raw["metadata"]
    if metadata.get("annotations", {}).get(EXTENDED) != "true":
        return str(metadata["uid"])
    (owner,) = metadata["ownerReferences"]
    return str(owner["uid"])


def by_claim(raw: Raw) -> int:
    """GPUs that a claim requests."""
    return sum(int(one["exactly"]["count"]) for one in raw["spec"]["devices"]["requests"])


class ClaimObserver:
    """Follows the pods and claims of one namespace in a `with` block."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._lock = threading.Lock()
        self._changes: list[tuple[int, str, str, int]] = []
        self._connections: list[http.client.HTTPSConnection] = []
        self._threads: list[threading.Thread] = []
        self._ended = False
        self._paths = {
            f"/api/v1/namespaces/{namespace}/pods": by_pod,
            f"{API}/namespaces/{namespace}/resourceclaims": by_claim,
        }

    def __enter__(self) -> "ClaimObserver":
        for path, amount in self._paths.items():
            listed = self._plane.raw("GET", path)[1]
            assert listed["items"] == []
            version = listed["metadata"]["resourceVersion"]
            thread = threading.Thread(target=self._follow, args=(path, version, amount), daemon=True)
            thread.start()
            self._threads.append(thread)
        eventually(lambda: len(self._connections) == len(self._paths))
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        for connection in self._connections:
            with suppress(OSError):
                if connection.sock is not None:
                    connection.sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        for connection in self._connections:
            connection.close()

    def counting(self) -> dict[str, int]:
        """Uid -> GPUs of what counts now, read from the API server; a claim for a pod stands for the pod."""
        found: dict[str, tuple[str, int]] = {}
        for path, amount in self._paths.items():
            for raw in self._plane.raw("GET", path)[1]["items"]:
                found[key_of(raw)] = raw["metadata"]["uid"], amount(raw)
        return {uid: number for uid, number in found.values() if number}

    def history(self, uid: str) -> list[tuple[int, str, int]]:
        """What the watch said of an object: resourceVersion, key and GPUs."""
        with self._lock:
            return sorted((version, key, amount) for version, key, one, amount in self._changes if one == uid)

    def peak(self) -> tuple[int, int]:
        """The most that was reserved at any instant, and the resourceVersion at which it was that much first."""
        assert all(thread.is_alive() for thread in self._threads), "the history breaks off"
        held: dict[str, dict[str, int]] = {}
        now, peak, peak_at = 0, 0, 0
        with self._lock:
            changes = sorted(self._changes)
        for version, key, uid, amount in changes:
            amounts = held.setdefault(key, {})
            before = max(amounts.values(), default=0)
            amounts[uid] = amount
            now += max(amounts.values()) - before
            if now > peak:
                peak, peak_at = now, version
        return peak, peak_at

    def _follow(self, path: str, version: str, amount: Callable[[Raw], int]) -> None:
        tls = ssl.create_default_context(cafile=str(self._plane.ca_file))
        connection = http.client.HTTPSConnection(urlsplit(self._plane.url).netloc, context=tls)
        query = f"watch=1&timeoutSeconds=3600&resourceVersion={version}"
        connection.request("GET", f"{path}?{query}", headers={"Authorization": f"Bearer {self._plane.token}"})
        self._connections.append(connection)
        with suppress(OSError, ValueError):
            answer = connection.getresponse()
            while line := answer.readline():
                event = json.loads(line)
                raw = event["object"]
                number = 0 if event["type"] == "DELETED" else amount(raw)
                metadata = raw["metadata"]
                with self._lock:
                    self._changes.append((int(metadata["resourceVersion"]), key_of(raw), metadata["uid"], number))
