"""Objects with resourceVersions in memory, on which replicas can be made to meet in every order."""

import copy
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from cryptography.x509 import Certificate

from certs.cluster import ChangedError, ClusterError, Json, SecretPlace
from certs.keeper import trusted_by

SECRET = SecretPlace("gpu-policy", "gpu-policy-tls")
CONFIGURATIONS = ("/apis/mutating/gpu-policy", "/apis/validating/gpu-policy")


class MemoryCluster:
    """Implements `certs.cluster.Cluster`. `before_call` gets each call; paths in `refused` cannot be written."""

    def __init__(self, now: datetime) -> None:
        self.objects: dict[str, Json] = {}
        self.time = now
        self.refused: set[str] = set()
        self.unreachable = False
        self.writes: list[str] = []
        self.before_call: Callable[[], None] = lambda: None
        self._version = 0
        self.put(SECRET.path, {"metadata": {"name": SECRET.name, "labels": {"app": "gpu-policy"}}})
        for path in CONFIGURATIONS:
            self.put(path, {"metadata": {"name": "gpu-policy"}, "webhooks": [{"name": "a", "clientConfig": {}}]})

    def put(self, path: str, body: Mapping[str, Any]) -> None:
        """Store an object as another writer would, whatever is stored there."""
        self._version += 1
        stored = copy.deepcopy(dict(body))
        stored["metadata"]["resourceVersion"] = str(self._version)
        self.objects[path] = stored

    def get(self, path: str) -> Json | None:
        self._begin()
        return copy.deepcopy(self.objects.get(path))

    def create(self, path: str, body: Mapping[str, Any]) -> None:
        self._begin(path)
        place = f"{path}/{body['metadata']['name']}"
        if place in self.objects:
            raise ChangedError
        self.writes.append(place)
        self.put(place, body)

    def replace(self, path: str, body: Mapping[str, Any]) -> None:
        self._begin(path)
        stored = self.objects.get(path)
        if stored is None or stored["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise ChangedError
        self.writes.append(path)
        self.put(path, body)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def pass_time(self, step: timedelta) -> None:
        self.time += step

    def annotate(self, value: str) -> None:
        """Ask for a rotation."""
        secret = copy.deepcopy(self.objects[SECRET.path])
        secret["metadata"].setdefault("annotations", {})["gpupolicy.dev/rotate"] = value
        self.put(SECRET.path, secret)

    def bundles(self) -> list[tuple[Certificate, ...]]:
        """What every entry of every configuration trusts."""
        return [trusted_by(entry) for path in CONFIGURATIONS for entry in self.objects[path]["webhooks"]]

    def _begin(self, written: str = "") -> None:
        self.before_call()
        if self.unreachable:
            raise ClusterError("no answer")
        if written in self.refused:
            raise ClusterError(f"PUT {written}: forbidden")
