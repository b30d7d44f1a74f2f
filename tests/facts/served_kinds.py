"""Answers to questions for what an API server serves."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.facts.fake_api_server import Answer, Request

Kinds = Mapping[str, str]
"""Kind -> the name of its resource. A kind that begins with `Cluster` is in no namespace."""
Groups = Mapping[str, Sequence[tuple[str, Kinds | None]]]
"""Group -> its versions, the preferred one first. What a version serves is None where its own API server is down."""

READING = ["get", "list", "watch"]
_SHORT_NAMES = {"Deployment": ["deploy"], "CronJob": ["cj"], "Pod": ["po"]}


def aggregated(groups: Groups) -> Answer:
    """All groups in one answer, for clients that accept it."""

    def answer(request: Request, path: str, _query: dict[str, str]) -> None:
        asked_for = "as=APIGroupDiscoveryList" in request.headers["accept"]
        assert asked_for, f"GET {path} does not accept an answer with all groups"
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
                        "shortNames": _SHORT_NAMES.get(kind, []),
                        "subresources": [{"subresource": "status", "verbs": ["get"]}],
                    }
                    for kind, resource in (kinds or {}).items()
                ],
            }
            for version, kinds in versions
        ],
    }
