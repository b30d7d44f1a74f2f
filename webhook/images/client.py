"""Asks registries what they know of an image (OCI distribution 1.1, Docker Registry HTTP API V2), reading only.

Whatever a registry, or whoever stands in for one, answers: the outcome is what it says, or a LookUpError, within the
limits of time and size. Nobody is contacted who is not on the list. Nothing is tried twice.
"""

from urllib.parse import quote

from webhook.images.addresses import Resolve, resolve
from webhook.images.allowlist import AllowList
from webhook.images.configs import read_config
from webhook.images.credentials import Credentials
from webhook.images.deadline import Deadline
from webhook.images.login import TokenCache
from webhook.images.lookup_errors import LookUpError, naming
from webhook.images.lookup_limits import LookupLimits
from webhook.images.registry_documents import (
    INDEXES,
    MANIFESTS,
    Index,
    Manifest,
    check_digest,
    digest_of,
    is_digest,
    read_manifest,
)
from webhook.images.session import Query, RepositorySession
from webhook.model.image import ImageConfig, ImageReference


class RegistryClient:
    """Threads may share it; each look-up takes the thread of its caller, and no more time than `limits` give."""

    def __init__(
        self,
        allowed: AllowList,
        credentials: Credentials | None = None,
        limits: LookupLimits | None = None,
        resolver: Resolve = resolve,
    ) -> None:
        self._allowed = allowed
        self._credentials = credentials or Credentials()
        self._limits = limits or LookupLimits()
        self._resolver = resolver
        self._passes = TokenCache()

    def look_up(self, reference: ImageReference) -> ImageConfig:
        """What the registry says about an image. Raises LookUpError."""
        with naming(reference.registry):
            return _Image(self._conversation(reference), reference, self._limits).config()

    def digest_of(self, reference: ImageReference) -> str:
        """What the tag stands for at the moment, from the head of an answer where that says it. Raises LookUpError."""
        with naming(reference.registry):
            if reference.digest:
                return reference.digest
            return _Image(self._conversation(reference), reference, self._limits).digest()

    def _conversation(self, reference: ImageReference) -> RepositorySession:
        site = self._allowed.site(reference.registry)
        if site is None:
            raise LookUpError(
                "this registry is not in the list of registries that may be queried; add it to that list to have its "
                "images looked up"
            )
        login = self._credentials.of(reference.registry)
        deadline = Deadline(self._limits.seconds)
        return RepositorySession(
            site, reference.repository, login, self._limits, deadline, self._passes, self._resolver
        )


class _Image:
    """One image, asked for."""

    def __init__(self, conversation: RepositorySession, reference: ImageReference, limits: LookupLimits) -> None:
        self._conversation = conversation
        self._reference = reference
        self._limits = limits

    def config(self) -> ImageConfig:
        """The configuration that the reference leads to."""
        digest, found = self._manifest(self._reference.digest or self._reference.tag)
        architectures: tuple[str, ...] = ()
        if isinstance(found, Index):
            architectures = found.architectures
            _, found = self._manifest(found.chosen)
        if isinstance(found, Index):
            raise LookUpError("the image index refers to another image index; it must refer to image manifests")
        config = read_config(self._blob(found))
        own = (config.architecture,) if config.architecture else ()
        return ImageConfig(digest, config.env, architectures or own)

    def digest(self) -> str:
        """The digest in the answer's head; of a registry that leaves it out, that of the manifest."""
        answer = self._conversation.ask(self._query(self._reference.tag, "HEAD"))
        digest = answer.headers.get("docker-content-digest")
        return digest if digest is not None and is_digest(digest) else self._manifest(self._reference.tag)[0]

    def _manifest(self, name: str) -> tuple[str, Manifest | Index]:
        """The manifest or index under a tag or digest, with its digest."""
        if ":" in name and not is_digest(name):
            raise LookUpError(
                "the image's digest is not a sha256 digest, the only kind that can be verified; pin the image by its "
                "sha256 digest"
            )
        answer = self._conversation.ask(self._query(name))
        digest = digest_of(answer.body)
        if ":" in name:
            check_digest(answer.body, name, "the manifest")
        return digest, read_manifest(answer.body, answer.headers.get("content-type", ""))

    def _query(self, name: str, method: str = "GET") -> Query:
        path = f"/v2/{quote(self._reference.repository)}/manifests/{quote(name, safe=':')}"
        return Query(str(self._reference), path, self._limits.manifest_bytes, (*INDEXES, *MANIFESTS), method)

    def _blob(self, manifest: Manifest) -> bytearray:
        path = f"/v2/{quote(self._reference.repository)}/blobs/{manifest.config}"
        what = f"the configuration of {self._reference}"
        answer = self._conversation.ask(Query(what, path, self._limits.config_bytes))
        check_digest(answer.body, manifest.config, "the image configuration")
        return answer.body
