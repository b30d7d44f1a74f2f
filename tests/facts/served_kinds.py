"""Answers to questions for what an API server serves, in both of the forms that there are."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.facts.fake_api_server import Answer, Request

Kinds = Mapping[str, str]
"""Kind -> the name of its resource. A kind that begins with `Cluster` is in no namespace."""
Groups = Mapping[str, Sequence[tuple[str, Kinds | None]]]
"""Group -> its versions, the preferred one first. What a version serves is None where its own API server is down."""

READING = ["get", "list", "watch"]


def aggregated(groups: Groups) -> Answer:
    """All groups in one answer, for clients that accept it."""

    def answer(request: Request, path: str, _query: dict[str, str]) -> None:
        asked_for = "as=APIGroupDiscoveryList" in request.headers["accept"]
        assert asked_for, f"GET {path} does not accept what Kubernetes 1.27 and newer answer"
        items = [_group(name, versions) for name, versions in groups.items() if (path == "/api") == (not name)]
        request.send(200, {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items})

    return answer


def _group(name: str, versions: Sequence[tuple[str, Kinds | None]]) -> dict[str, Any]:
    return {
        "metadata": {"name": name} if name else {},
        "versions": [
            {
                "version": version,
                "freshness": "Stale" if kinds is None else "Current",
                "resources": [
                    {
                        "resource": resource,
                        "responseKind": {"group": name, "version": version, "kind": kind},
                        "scope": "Cluster" if kind.startswith("Cluster") else "Namespaced",
                        "verbs": READING,
                        "subresources": [{"subresource": "status", "verbs": ["get"]}],
                    }
                    for kind, resource in (kinds or {}).items()
                ],
            }
            for version, kinds in versions
        ],
    }


def one_by_one(groups: Groups) -> dict[str, Answer]:
    """Path -> answer, as every Kubernetes has it. The preferred version of a group is not its first in the list."""
    apis = [
        {
            "name": name,
            "versions": [{"groupVersion": f"{name}/{v}", "version": v} for v, _ in reversed(versions)],
            "preferredVersion": {"groupVersion": f"{name}/{versions[0][0]}", "version": versions[0][0]},
        }
        for name, versions in groups.items()
        if name
    ]
    core = [version for version, _ in groups.get("", ())]
    answers = {
        "/api": _always({"kind": "APIVersions", "versions": core}),
        "/apis": _always({"kind": "APIGroupList", "apiVersion": "v1", "groups": apis}),
    }
    for name, versions in groups.items():
        for version, kinds in versions:
            answers[f"/apis/{name}/{version}" if name else f"/api/{version}"] = _resources(kinds)
    return answers


def _resources(kinds: Kinds | None) -> Answer:
    if kinds is None:
        return lambda request, _path, _query: request.send(503, b"service unavailable\n")
    resources = [
        entry
        for kind, name in kinds.items()
        for entry in (
            {"name": f"{name}/status", "kind": kind, "namespaced": True, "verbs": ["get", "list"]},
            {"name": name, "kind": kind, "namespaced": not kind.startswith("Cluster"), "verbs": READING},
        )
    ]
    return _always({"kind": "APIResourceList", "resources": resources})


def _always(body: Any) -> Answer:
    return lambda request, _path, _query: request.send(200, body)
