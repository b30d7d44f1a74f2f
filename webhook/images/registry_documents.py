"""The documents of registries: indexes, manifests and configurations of images, read without trust.

All functions are pure functions of bytes. A malformed document is an error; nothing is guessed, and parts that are not
needed are not read.

The configuration of an image is reduced to the variables about CUDA and the driver.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from sys import getsizeof
from types import MappingProxyType
from typing import Any

import orjson

from webhook.images.http_request import ImageLookupError

DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
MANIFESTS = (OCI_MANIFEST, DOCKER_MANIFEST)
INDEXES = (OCI_INDEX, DOCKER_INDEX)
CONFIGS = ("application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json")
_SCHEMA_1 = "application/vnd.docker.distribution.manifest.v1+"

MOST_VALUES = 100_000
"""Most values in one document; as objects they take about 10 MiB."""
MOST_ARCHITECTURES = 32
"""Most architectures of one image."""

_PREFERRED = "amd64"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_ARCHITECTURE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Index:
    """The Linux images of an index: the digest of the image to read, and the architectures of all."""

    chosen: str
    architectures: tuple[str, ...]


def digest_of(body: bytes) -> str:
    """The sha256 digest, as registries spell it."""
    return "sha256:" + hashlib.sha256(body).hexdigest()


def is_digest(text: object) -> bool:
    """Whether the text is a sha256 digest, the only kind that can be verified."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def check_digest(body: bytes, digest: str, what: str) -> None:
    """Raise ImageLookupError unless the body has this digest."""
    if digest_of(body) != digest:
        raise ImageLookupError(f"{what} does not match its digest")


def read_json(body: bytes, what: str) -> dict[str, Any]:
    """The JSON object in a body. Raises ImageLookupError."""
    if sum(map(body.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise ImageLookupError(f"{what} has more than {MOST_VALUES} values")
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ImageLookupError(f"{what} is not JSON") from error
    if not isinstance(found, dict):
        raise ImageLookupError(f"{what} is not a JSON object")
    return found


def read_manifest(body: bytes, content_type: str) -> str | Index:
    """Read an index, or the manifest of one image: the digest of its configuration. Raises ImageLookupError."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind.startswith(_SCHEMA_1):
        raise ImageLookupError(
            "the image has a manifest of Docker's schema 1, which is obsolete and not supported; build and push the "
            "image again"
        )
    if kind not in (*MANIFESTS, *INDEXES):
        raise ImageLookupError(
            "the manifest has an unsupported media type; supported are image manifests and image indexes of OCI and "
            "of Docker's schema 2"
        )
    found = read_json(body, "the manifest")
    # CVE-2021-41190: some documents look like an index and like a manifest
    looks_like = "manifests" in found, "config" in found or "layers" in found
    if found.get("mediaType", kind) != kind or looks_like != (kind in INDEXES, kind in MANIFESTS):
        raise ImageLookupError("the manifest's content contradicts its media type")
    if kind in INDEXES:
        return _index(found)
    config = _object(found.get("config"), "the manifest's config")
    if config.get("mediaType") not in CONFIGS:
        raise ImageLookupError("the reference leads to an artifact that is not a container image, such as a Helm chart")
    return _digest(config, "the manifest's config")


def _index(found: Mapping[str, Any]) -> Index:
    entries = found["manifests"]
    if not isinstance(entries, list):
        raise ImageLookupError("the image index must have a list of manifests")
    images: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        architecture = _linux(_object(entry, "an entry of the image index"))
        if architecture is not None:
            images.setdefault(architecture, entry)
    if not images:
        raise ImageLookupError("the image index has no entry for Linux")
    unsaid = images.pop("", None)
    if len(images) > MOST_ARCHITECTURES:
        raise ImageLookupError(f"the image index has entries for more than {MOST_ARCHITECTURES} architectures")
    chosen = images.get(_PREFERRED) or next(iter(images.values()), None) or unsaid or {}
    if chosen.get("mediaType") not in MANIFESTS:
        raise ImageLookupError(
            "the image index refers to something that is not an image manifest, such as another image index"
        )
    return Index(_digest(chosen, "an entry of the image index"), tuple(images))


def _linux(entry: Mapping[str, Any]) -> str | None:
    """The architecture of an entry for Linux, empty if the entry has no platform.

    None for other entries: attestations (unknown/unknown) and images for Windows.
    """
    if entry.get("platform") is None:
        return ""
    platform = _object(entry["platform"], "a platform in the image index")
    return (architecture_in(platform.get("architecture")) or None) if platform.get("os") == "linux" else None


def architecture_in(value: object) -> str:
    """The value, if it is a CPU architecture as Go names it; else empty."""
    return value if isinstance(value, str) and _ARCHITECTURE.fullmatch(value) else ""


def _digest(descriptor: Mapping[str, Any], what: str) -> str:
    digest = descriptor.get("digest")
    if not isinstance(digest, str) or not is_digest(digest):
        raise ImageLookupError(f"{what} has no sha256 digest")
    return digest


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ImageLookupError(f"{what} is not a JSON object")
    return value


NAMES = frozenset(
    {
        "CUDA_VERSION",
        "LD_LIBRARY_PATH",
        "NVARCH",
        "NVIDIA_DISABLE_REQUIRE",
        "NVIDIA_DRIVER_CAPABILITIES",
        "NVIDIA_PYTORCH_VERSION",
        "NVIDIA_TENSORFLOW_VERSION",
        "NVIDIA_TRITON_SERVER_VERSION",
        "NV_CUDA_COMPAT_PACKAGE",
        "NV_CUDA_CUDART_VERSION",
        "TRITON_SERVER_VERSION",
        "_CUDA_COMPAT_PATH",
    }
)
PREFIX = "NVIDIA_REQUIRE_"
"""Every variable with this prefix is a requirement of its own."""

MOST_ENV_BYTES = 8 * 1024
"""Most bytes of memory for names and values together; NVIDIA_REQUIRE_CUDA has up to 3,000 characters."""


def read_config(body: bytes) -> tuple[Mapping[str, str], str]:
    """The variables about CUDA and the driver in a configuration, the last value of each, and its CPU architecture.

    The architecture is empty if the configuration has none. Raises ImageLookupError.
    """
    found = read_json(body, "the image configuration")
    if found.get("os", "linux") != "linux":
        raise ImageLookupError("the image is not for Linux")
    inner = _object(found.get("config") or {}, "config in the image configuration")
    return MappingProxyType(_env(inner.get("Env") or [])), architecture_in(found.get("architecture"))


def _env(entries: object) -> dict[str, str]:
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise ImageLookupError("config.Env in the image configuration is not a list of strings")
    env: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if equals and (name in NAMES or name.startswith(PREFIX)):
            env[name] = value
    if sum(getsizeof(name) + getsizeof(value) for name, value in env.items()) > MOST_ENV_BYTES:
        raise ImageLookupError(
            f"the image configuration has more than {MOST_ENV_BYTES} bytes in its variables about CUDA and NVIDIA"
        )
    return env
