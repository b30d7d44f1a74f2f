"""The requests to a Kubernetes cluster that certificates need. The owner of the connection implements them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

Json = dict[str, Any]


class ClusterError(Exception):
    """The API server did not answer, or refused the request; the text says which request, and why."""


class ChangedError(Exception):
    """Another writer was faster; read the object again."""


class Cluster(Protocol):
    """The API server, as the keeper needs it. Every method may raise ClusterError."""

    def get(self, path: str) -> Json | None:
        """The object at `path` as it is now (a consistent read); None where there is none."""
        ...

    def create(self, path: str, body: Mapping[str, Any]) -> None:
        """Create an object in the collection at `path`. Raises ChangedError where the object exists already."""
        ...

    def replace(self, path: str, body: Mapping[str, Any]) -> None:
        """Replace an object. Raises ChangedError unless it still has the resourceVersion in the body."""
        ...

    def now(self) -> datetime:
        """The API server's clock, with a time zone. The API server verifies the certificates, so its clock counts."""
        ...


@dataclass(frozen=True, slots=True)
class SecretPlace:
    """The namespace and the name of a Secret."""

    namespace: str
    name: str

    @property
    def collection(self) -> str:
        return f"/api/v1/namespaces/{quote(self.namespace, safe='')}/secrets"

    @property
    def path(self) -> str:
        return f"{self.collection}/{quote(self.name, safe='')}"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Kept:
    """What replicas keep together: one Secret, the files made of it, and the caBundles of webhook configurations."""

    secret: SecretPlace
    directory: Path
    """Where each replica writes the certificate that it serves: tls.crt and tls.key."""
    names: tuple[str, ...]
    """DNS names and IP addresses under which the API server calls."""
    settle_seconds: float = 60.0
    """Seconds for which a new authority is in every caBundle before it issues. API servers read it within seconds."""
    configurations: tuple[str, ...] = ()
