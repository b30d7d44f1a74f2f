"""Reads and writes single objects in the API server: certificates, webhook configurations, shared ConfigMaps."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from certs.cluster import ChangedError, ClusterError
from webhook.kubernetes.api_errors import ApiServerError
from webhook.kubernetes.api_server import ApiServer

_ANSWER_SECONDS = 5.0
_MOST_SKEW_SECONDS = 3600.0


class KubernetesCluster:
    """`certs.cluster.Cluster` on a connection to the API server."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def get(self, path: str) -> dict[str, Any] | None:
        try:
            found = self._server.get(path, {}, _ANSWER_SECONDS)
        except ApiServerError as error:
            if error.status == 404:
                return None
            raise ClusterError(error.sentence("GET", path)) from error
        if not isinstance(found.get("metadata"), dict):
            raise ClusterError(
                f"GET {path}: the answer is not a Kubernetes object; check whether a proxy answers for the API server"
            )
        return found

    def create(self, path: str, body: Mapping[str, Any]) -> None:
        self._send("POST", path, body)

    def replace(self, path: str, body: Mapping[str, Any]) -> None:
        self._send("PUT", path, body)

    def now(self) -> datetime:
        """The API server's clock, to about a second.

        Raises ClusterError where the clocks differ by more than an hour: one of them is wrong, and would lead to
        certificates that the other side does not trust.
        """
        skew = self._server.clock_skew
        if abs(skew) > _MOST_SKEW_SECONDS:
            ahead = "ahead of" if skew > 0 else "behind"
            raise ClusterError(f"this machine's clock is {abs(skew):.0f} s {ahead} the API server's; set the wrong one")
        return datetime.now(UTC) - timedelta(seconds=skew)

    def _send(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        try:
            self._server.send(method, path, body, _ANSWER_SECONDS)
        except ApiServerError as error:
            if error.status == 409 or (error.status == 404 and method == "PUT"):
                raise ChangedError from error
            raise ClusterError(error.sentence(method, path)) from error
