"""A pretended cluster for audits, and what is read of it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.audit.owned import made
from tests.facts.fake_api_server import FakeApiServer, fake_api_server
from tests.facts.served_kinds import Groups, aggregated
from webhook.audit.cluster_objects import ClusterObjects, NamespaceScope, Progress
from webhook.audit.documents import Document, DocumentError
from webhook.kubernetes.api_server import ApiServer

SERVED: Groups = {
    "": [("v1", {"Pod": "pods"})],
    "apps": [("v1", {"Deployment": "deployments", "ReplicaSet": "replicasets"})],
    "example.com": [("v1", {"Widget": "widgets", "Factory": "factories"})],
}
DEPLOYMENTS, REPLICA_SETS = "/apis/apps/v1/deployments", "/apis/apps/v1/replicasets"
WIDGETS, FACTORIES = "/apis/example.com/v1/widgets", "/apis/example.com/v1/factories"


class Cluster:
    """The pretended API server, and what is read of it."""

    def __init__(self, server: FakeApiServer, directory: Path) -> None:
        self.server = server
        self._api = ApiServer(server.kubeconfig(directory))
        self.told: list[Progress] = []
        server.instead["/api"] = server.instead["/apis"] = aggregated(SERVED)
        for path in (DEPLOYMENTS, REPLICA_SETS):
            server.objects[path] = []

    def objects(self, *namespaces: str, excluded: Sequence[str] = ()) -> ClusterObjects:
        return ClusterObjects(self._api, NamespaceScope(namespaces, tuple(excluded)), self.told.append)

    def lists(self, path: str) -> list[dict[str, str]]:
        return self.server.lists(path)


def widget(name: str, owner: dict[str, Any] | None = None, kind: str = "Widget") -> dict[str, Any]:
    """An object of a kind that is in no table."""
    return {**made(kind, name, owner), "apiVersion": "example.com/v1"}


def names(found: ClusterObjects | Sequence[Document | DocumentError]) -> list[str]:
    """Kind and name of each object, in the order in which they came."""
    documents = (one for one in found if isinstance(one, Document))
    return [f"{one.kind} {one.object['metadata']['name']}" for one in documents]


def errors(found: ClusterObjects | Sequence[Document | DocumentError]) -> list[str]:
    return [one.message for one in found if isinstance(one, DocumentError)]


def many(count: int, kind: str = "Pod") -> list[dict[str, Any]]:
    return [made(kind, f"p{number:05}") for number in range(count)]


@contextmanager
def pretended(directory: Path) -> Iterator[Cluster]:
    with fake_api_server() as server:
        yield Cluster(server, directory)
