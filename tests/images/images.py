"""Small images: their documents in a registry, and the digests."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = b"what a layer holds is nobody's business here"


@dataclass(frozen=True)
class Document:
    """Bytes of a type."""

    media_type: str
    body: bytes

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.body).hexdigest()}"

    @property
    def descriptor(self) -> dict[str, Any]:
        """The descriptor with which other documents refer to this one."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.body)}


def document(media_type: str, content: Any) -> Document:
    """A document with this JSON."""
    return Document(media_type, json.dumps(content).encode())


def config(env: Mapping[str, str] | None = None, architecture: str = "amd64", **changes: Any) -> Document:
    """The configuration of an image for Linux."""
    inner = {"Env": [f"{name}={value}" for name, value in (env or {}).items()], "Labels": {"a": "b"}}
    rootfs = {"type": "layers", "diff_ids": [Document("", LAYER).digest]}
    return document(
        OCI_CONFIG, {"architecture": architecture, "os": "linux", "config": inner, "rootfs": rootfs, **changes}
    )


def manifest(of: Document, media_type: str = OCI_MANIFEST, **changes: Any) -> Document:
    """The manifest of the image with this configuration."""
    layer = {
        "mediaType": "application/vnd.oci.image.layer.v1.tar",
        "digest": Document("", LAYER).digest,
        "size": len(LAYER),
    }
    content = {"schemaVersion": 2, "mediaType": media_type, "config": of.descriptor, "layers": [layer], **changes}
    return document(media_type, content)


def entry(of: Document, architecture: str = "amd64", os: str = "linux", **changes: Any) -> dict[str, Any]:
    """An entry of an index."""
    return {**of.descriptor, "platform": {"architecture": architecture, "os": os}, **changes}


def index(*entries: Mapping[str, Any], media_type: str = OCI_INDEX, **changes: Any) -> Document:
    """An index with these entries."""
    return document(media_type, {"schemaVersion": 2, "mediaType": media_type, "manifests": list(entries), **changes})


def digests(documents: Sequence[Document]) -> list[str]:
    """The digests of documents."""
    return [each.digest for each in documents]
