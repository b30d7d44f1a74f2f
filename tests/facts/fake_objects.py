"""Objects of one kind in one namespace of the pretended API server, with resourceVersions that are compared."""

from threading import Lock
from typing import Any

import jsonpatch

from tests.facts.fake_api_server import Request

Found = dict[str, Any]
_VERSIONS = 8
"""How many earlier versions are remembered."""


class FakeObjects:
    """An Answer for a collection and for what is in it; `path` is that of the collection."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.objects: dict[str, Found] = {}
        self._lock = Lock()
        self._version = 1000
        self._past: dict[int, dict[str, Found]] = {}

    def __call__(self, request: Request, path: str, query: dict[str, str]) -> None:
        """Answer one request."""
        name = path.removeprefix(self.path).lstrip("/")
        with self._lock:
            if request.command == "POST":
                answer = self._create(request.body)
            elif name:
                answer = self._answer(request, name)
            else:
                exact = query.get("resourceVersionMatch") == "Exact"
                objects = self._past.get(int(query["resourceVersion"])) if exact else self.objects
                items = [objects[key] for key in sorted(objects or {})]
                found = {"kind": "List", "metadata": {"resourceVersion": str(self._version)}, "items": items}
                answer = (410, {"kind": "Status", "message": "expired"}) if objects is None else (200, found)
        request.send(*answer)

    def _create(self, found: Found) -> tuple[int, Found]:
        name = found["metadata"]["name"]
        return _conflict(name) if name in self.objects else (201, self.store(name, found))

    def _answer(self, request: Request, name: str) -> tuple[int, Found]:
        present = self.objects.get(name)
        if present is None:
            return 404, {"kind": "Status", "message": f"{name} not found", "details": {"name": name}}
        version = present["metadata"]["resourceVersion"]
        match request.command:
            case "PUT" if not present.get("immutable") and request.body["metadata"]["resourceVersion"] == version:
                return 200, self.store(name, request.body)
            case "DELETE" if request.body["preconditions"]["resourceVersion"] == version:
                return 200, self.objects.pop(name)
            case "PATCH":
                return self._patch(name, present, request.body)
            case "GET":
                return 200, present
        return _conflict(name)

    def _patch(self, name: str, present: Found, patch: Any) -> tuple[int, Found]:
        if isinstance(patch, list):
            try:
                return 200, self.store(name, jsonpatch.apply_patch(present, patch))
            except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
                return 422, {"kind": "Status", "message": str(error), "details": {"name": name}}
        data = {**present.get("data", {}), **patch["data"]}
        return 200, self.store(name, {**present, "data": {key: one for key, one in data.items() if one is not None}})

    def store(self, name: str, found: Found) -> Found:
        """Write an object, whatever is there; returns it with its new version."""
        self._past = {**dict(list(self._past.items())[-_VERSIONS:]), self._version: dict(self.objects)}
        self._version += 1
        metadata = {**found["metadata"], "resourceVersion": str(self._version)}
        self.objects[name] = {**found, "metadata": metadata}
        return self.objects[name]


def _conflict(name: str) -> tuple[int, Found]:
    return 409, {"kind": "Status", "message": f"{name} is another by now", "details": {"name": name}}
