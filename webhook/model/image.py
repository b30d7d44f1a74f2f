"""Container images: references to images, and the image information of registries."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from webhook.model.shape import FormatError, spelled

_LONGEST_NAME = 255
"""Most characters of registry and repository together; Docker's limit."""
_HUB = "docker.io"
_HOST = re.compile(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?", re.ASCII)
_PATH = re.compile(r"[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*)*", re.ASCII)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ImageReference:
    """An image reference with all parts, also the parts that people may leave out.

    `registry` is a host with or without a port, `repository` the path in it. `tag` is empty where the reference has a
    digest only, `digest` where it has none.
    """

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.registry}/{self.repository}{tag}{'@' if self.digest else ''}{self.digest}"

    @property
    def familiar(self) -> str:
        """The repository as people write it: without Docker Hub, and without `library/` of official images."""
        if self.registry != _HUB:
            return f"{self.registry}/{self.repository}"
        return self.repository.removeprefix("library/")


@lru_cache(maxsize=4096)
def parse_reference(text: str) -> ImageReference:
    """Read an image reference as Docker does. Raises FormatError. Only references are kept, and they are short.

    >>> str(parse_reference("python")), str(parse_reference("registry.corp:5000/ml/app:3"))
    ('docker.io/library/python:latest', 'registry.corp:5000/ml/app:3')
    """
    rest, has_digest, digest = text.partition("@")
    if has_digest and _DIGEST.fullmatch(digest) is None:
        raise _fault(text, "what follows the @ is no digest")
    colon = rest.rfind(":")
    name, tag = (rest[:colon], rest[colon + 1 :]) if colon > rest.rfind("/") else (rest, None)
    if tag is None:
        tag = "" if has_digest else "latest"
    elif _TAG.fullmatch(tag) is None:
        raise _fault(text, "a tag has up to 128 letters, digits, underscores, dots and dashes")
    if len(name) > _LONGEST_NAME:
        raise _fault(text, f"the name has {len(name)} characters, and {_LONGEST_NAME} are allowed")
    registry, repository = _located(name)
    if _HOST.fullmatch(registry) is None:
        raise _fault(text, "what stands before the first slash is no host")
    if _PATH.fullmatch(repository) is None:
        raise _fault(text, "a repository has lower-case letters and digits, parted by single dots, dashes or slashes")
    return ImageReference(registry, repository, tag, digest)


def _located(name: str) -> tuple[str, str]:
    """Registry and repository. The first part is a host if it looks like one; Docker Hub is the default."""
    first, slash, rest = name.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost" or first != first.lower()):
        first, rest = _HUB, name
    registry = first.lower()
    if registry in (_HUB, "index.docker.io"):
        return _HUB, rest if "/" in rest else f"library/{rest}"
    return registry, rest


def _fault(text: str, reason: str) -> FormatError:
    return FormatError(f"{spelled(text)} is not an image reference: {reason}")


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """The configuration of an image in its registry, reduced to the parts that rules read.

    `digest` is the digest of the manifest or index that the reference leads to. `env` has the variables about CUDA and
    the driver, such as `{"CUDA_VERSION": "12.4.1"}`. `architectures` are the CPU architectures (amd64, arm64) of the
    image for Linux; empty where they are unknown.
    """

    digest: str
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    architectures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """What is known about an image at this moment.

    `is_pending`: a look-up waits or runs. `problem` says why the last look-up failed; empty where it did not fail.
    """

    config: ImageConfig | None = None
    is_pending: bool = False
    problem: str = ""


NOT_LOOKED_UP = ImageInfo()
"""The information about an image that is not looked up."""
