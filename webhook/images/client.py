"""Queries registries about an image (OCI distribution 1.1, Docker Registry HTTP API V2), read-only.

Whatever a registry or an impostor answers, the result is a configuration or an ImageLookupError, within the limits of
time and size. Only hosts on the list are contacted. No request is tried twice.
"""

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from webhook.images.allowlist import AllowList, Site
from webhook.images.credentials import Credentials, Login
from webhook.images.http_request import (
    Deadline,
    HttpAnswer,
    HttpRequest,
    ImageLookupError,
    LookupLimits,
    exchange,
    parse_url,
)
from webhook.images.login import Authenticator, Token, error_for_status, parse_challenges
from webhook.images.registry_documents import (
    INDEXES,
    MANIFESTS,
    Index,
    check_digest,
    digest_of,
    is_digest,
    read_config,
    read_manifest,
)
from webhook.model.image import ImageConfig, ImageReference

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_TOKENS = 256


class RegistryClient:
    """Looks images up in the caller's thread, within `limits`. Threads may share a client."""

    def __init__(
        self, allowed: AllowList, credentials: Credentials | None = None, limits: LookupLimits | None = None
    ) -> None:
        self._allowed = allowed
        self._credentials = credentials or Credentials()
        self._limits = limits or LookupLimits()
        self._tokens: OrderedDict[tuple[Site, str], Token] = OrderedDict()

    def look_up(self, reference: ImageReference, before: ImageConfig | None = None) -> ImageConfig:
        """The configuration of an image. Raises ImageLookupError, whose text begins with the name of the registry.

        `before` is what the reference led to earlier: one cheap request tells mostly that it still does.
        """
        try:
            look_up = self._begin(reference)
            if before is not None and look_up.digest() == before.digest:
                return before
            return look_up.config()
        except ImageLookupError as error:
            if str(error).startswith(reference.registry):
                raise
            text = f"{reference.registry}: {error}"
            raise ImageLookupError(text, is_lasting=error.is_lasting, retry_after=error.retry_after) from error

    def _begin(self, reference: ImageReference) -> "_LookUp":
        site = self._allowed.site(reference.registry)
        if site is None:
            raise ImageLookupError(
                "this registry is not in the list of registries that may be queried; add it to that list to have its "
                "images looked up"
            )
        login = self._credentials.of(reference.registry)
        return _LookUp(reference, site, login, self._limits, Deadline(self._limits.seconds), self._tokens)


@dataclass(frozen=True, slots=True)
class _LookUp:
    """The requests about one image: it logs in if the registry demands that, and follows redirects."""

    reference: ImageReference
    site: Site
    login: Login | None
    limits: LookupLimits
    deadline: Deadline
    tokens: OrderedDict[tuple[Site, str], Token]
    """By registry and repository. Threads share it."""

    def config(self) -> ImageConfig:
        """The configuration that the reference leads to."""
        digest, manifest = self._manifest(self.reference.digest or self.reference.tag)
        architectures: tuple[str, ...] = ()
        if isinstance(manifest, Index):
            architectures = manifest.architectures
            _, manifest = self._manifest(manifest.chosen)
        if isinstance(manifest, Index):
            raise ImageLookupError("the image index refers to another image index; it must refer to image manifests")
        what = f"the configuration of {self.reference}"
        body = self._ask(what, f"blobs/{manifest}", self.limits.config_bytes).body
        check_digest(body, manifest, "the image configuration")
        env, architecture = read_config(body)
        return ImageConfig(digest, env, architectures or ((architecture,) if architecture else ()))

    def digest(self) -> str:
        """The digest in the header of the response; if the registry leaves it out, the digest of the manifest."""
        if self.reference.digest:
            return self.reference.digest
        answer = self._ask_for_manifest(self.reference.tag, "HEAD")
        digest = answer.headers.get("docker-content-digest")
        return digest if digest is not None and is_digest(digest) else self._manifest(self.reference.tag)[0]

    def _manifest(self, name: str) -> tuple[str, str | Index]:
        """The digest of what is under a tag or digest, and the digest of its configuration or an index."""
        if ":" in name and not is_digest(name):
            raise ImageLookupError(
                "the image's digest is not a sha256 digest, the only kind that can be verified; pin the image by its "
                "sha256 digest"
            )
        answer = self._ask_for_manifest(name)
        if ":" in name:
            check_digest(answer.body, name, "the manifest")
        return digest_of(answer.body), read_manifest(answer.body, answer.headers.get("content-type", ""))

    def _ask_for_manifest(self, name: str, method: str = "GET") -> HttpAnswer:
        path = f"manifests/{quote(name, safe=':')}"
        return self._ask(str(self.reference), path, self.limits.manifest_bytes, (*INDEXES, *MANIFESTS), method)

    def _ask(
        self, what: str, path: str, most_bytes: int, accept: Sequence[str] = (), method: str = "GET"
    ) -> HttpAnswer:
        """The response with status 200. `what` is requested, in words for errors. Raises ImageLookupError."""
        url = self.site.url(f"/v2/{quote(self.reference.repository)}/{path}")
        request = HttpRequest(url, most_bytes, method, {"Accept": ", ".join(accept)} if accept else {})
        answer = self._follow(request)
        if answer.status == 401 and self.site.is_own(answer.url):
            key = self.site, self.reference.repository
            self.tokens.pop(key, None)
            challenges = parse_challenges(answer.headers.get_all("www-authenticate") or ())
            authenticator = Authenticator(*key, self.login, self.limits.token_bytes, self._exchange)
            self.tokens[key] = authenticator.token(challenges)
            if len(self.tokens) > _MOST_TOKENS:
                self.tokens.popitem(last=False)
            answer = self._follow(request)
        if answer.status != 200:
            raise error_for_status(answer, what)
        return answer

    def _follow(self, request: HttpRequest) -> HttpAnswer:
        for _ in range(self.limits.redirects + 1):
            answer = self._exchange(self._authorized(request))
            if answer.status not in _REDIRECTS:
                return answer
            url = parse_url(answer.headers.get("location", ""), request.url)
            self.site.check_redirect(url)
            request = replace(request, url=url)
        raise ImageLookupError(f"the registry redirects more than {self.limits.redirects} times")

    def _authorized(self, request: HttpRequest) -> HttpRequest:
        """The request with the header Authorization, which only the registry itself gets."""
        token = self.tokens.get((self.site, self.reference.repository))
        if token is None or time.monotonic() >= token.end or not self.site.is_own(request.url):
            return request
        return replace(request, headers={**request.headers, "Authorization": token.authorization})

    def _exchange(self, request: HttpRequest) -> HttpAnswer:
        return exchange(request, self.site.registry.authorities, self.deadline)
