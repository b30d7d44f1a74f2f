"""The calls that certificates need of a cluster, on the webhook's connection to the API server."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from certs.cluster import ChangedError, ClusterError
from webhook.cluster.api_server import ApiServer, RefusedError, UnreachableError

_ANSWER_SECONDS = 5.0


class KubernetesCluster:
    """`certs.cluster.Cluster` on a connection to the API server."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def get(self, path: str) -> dict[str, Any] | None:
        """The object as it is now, None where there is none."""
        try:
            return self._server.get(path, {}, _ANSWER_SECONDS)
        except RefusedError as error:
            if error.status == 404:
                return None
            raise _explained("GET", path, error) from error
        except (UnreachableError, ValueError) as error:
            raise _explained("GET", path, error) from error

    def create(self, path: str, body: Mapping[str, Any]) -> None:
        """Create an object; ChangedError where it exists already."""
        self._send("POST", path, body)

    def replace(self, path: str, body: Mapping[str, Any]) -> None:
        """Replace an object; ChangedError where it has changed or gone since it was read."""
        self._send("PUT", path, body)

    def now(self) -> datetime:
        """The API server's clock, to about a second."""
        return datetime.now(UTC) - timedelta(seconds=self._server.clock_skew)

    def _send(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        try:
            self._server.send(method, path, body, _ANSWER_SECONDS)
        except RefusedError as error:
            if error.status == 409 or (error.status == 404 and method == "PUT"):
                raise ChangedError from error
            raise _explained(method, path, error) from error
        except (UnreachableError, ValueError) as error:
            raise _explained(method, path, error) from error


def _explained(method: str, path: str, error: Exception) -> ClusterError:
    remedy = "; install the RBAC objects of the chart again" if getattr(error, "status", 0) == 403 else ""
    return ClusterError(f"{method} {path}: {error}{remedy}")
