"""Queries registries about an image (OCI distribution 1.1, Docker Registry HTTP API V2), read-only.

Whatever a registry or an impostor answers, the result is a configuration or an ImageLookupError, within the limits of
time and size. Only hosts on the list are contacted. No request is tried twice.

A `RepositorySession` makes the requests of one look-up: it logs in if the registry demands that, and follows redirects.
"""

from dataclasses import dataclass
from urllib.parse import quote

from webhook.images.addresses import Resolve, resolve
from webhook.images.allowlist import AllowList
from webhook.images.credentials import Credentials, Login
from webhook.images.hosts import Url, parse_url
from webhook.images.http_request import HttpRequest, HttpResponse, exchange
from webhook.images.login import Authenticator, TokenCache, error_for_status, parse_challenges
from webhook.images.lookup_limits import Deadline, ImageLookupError, LookupLimits, naming_registry
from webhook.images.registries import Site
from webhook.images.registry_documents import (
    INDEXES,
    MANIFESTS,
    Index,
    Manifest,
    check_digest,
    digest_of,
    is_digest,
    read_config,
    read_manifest,
)
from webhook.model.image import ImageConfig, ImageReference

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Query:
    """What to request: its name in errors, its path on the registry, its largest size, the accepted media types."""

    what: str
    path: str
    most_bytes: int
    accept: tuple[str, ...] = ()
    method: str = "GET"


@dataclass(frozen=True, slots=True)
class RepositorySession:
    """One look-up of one repository, until the deadline."""

    site: Site
    repository: str
    login: Login | None
    limits: LookupLimits
    deadline: Deadline
    tokens: TokenCache
    resolver: Resolve

    def ask(self, query: Query) -> HttpResponse:
        """The response with status 200. Raises ImageLookupError."""
        answer = self._follow(query)
        if answer.status == 401 and self.site.is_own(answer.url):
            self.tokens.drop(self.site, self.repository)
            challenges = parse_challenges(answer.headers.get_all("www-authenticate") or ())
            authenticator = Authenticator(
                self.site, self.repository, self.login, self.limits.token_bytes, self._exchange
            )
            self.tokens.keep(self.site, self.repository, authenticator.token(challenges))
            answer = self._follow(query)
        if answer.status != 200:
            raise error_for_status(answer, query.what)
        return answer

    def _follow(self, query: Query) -> HttpResponse:
        url = self.site.url(query.path)
        for _ in range(self.limits.redirects + 1):
            answer = self._exchange(HttpRequest(url, query.most_bytes, query.method, self._headers(url, query)))
            if answer.status not in _REDIRECTS:
                return answer
            url = parse_url(answer.headers.get("location", ""), url)
            self.site.check_redirect(url)
        raise ImageLookupError(f"the registry redirects more than {self.limits.redirects} times")

    def _headers(self, url: Url, query: Query) -> dict[str, str]:
        """The headers of a request. Only the registry itself gets the header Authorization."""
        headers = {"Accept": ", ".join(query.accept)} if query.accept else {}
        authorization = self.tokens.get(self.site, self.repository) if self.site.is_own(url) else None
        return headers if authorization is None else {**headers, "Authorization": authorization}

    def _exchange(self, request: HttpRequest) -> HttpResponse:
        return exchange(request, self.site.registry, self.limits, self.deadline, self.resolver)


class RegistryClient:
    """Looks images up in the caller's thread, within `limits`. Threads may share a client."""

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
        self._tokens = TokenCache()

    def look_up(self, reference: ImageReference) -> ImageConfig:
        """The configuration of an image. Raises ImageLookupError."""
        with naming_registry(reference.registry):
            return _ImageQueries(self._session(reference), reference, self._limits).config()

    def digest_of(self, reference: ImageReference) -> str:
        """The digest of the image that the reference leads to now. Raises ImageLookupError."""
        with naming_registry(reference.registry):
            if reference.digest:
                return reference.digest
            return _ImageQueries(self._session(reference), reference, self._limits).digest()

    def _session(self, reference: ImageReference) -> RepositorySession:
        site = self._allowed.site(reference.registry)
        if site is None:
            raise ImageLookupError(
                "this registry is not in the list of registries that may be queried; add it to that list to have its "
                "images looked up"
            )
        login = self._credentials.of(reference.registry)
        deadline = Deadline(self._limits.seconds)
        return RepositorySession(
            site, reference.repository, login, self._limits, deadline, self._tokens, self._resolver
        )


class _ImageQueries:
    """The queries about one image."""

    def __init__(self, session: RepositorySession, reference: ImageReference, limits: LookupLimits) -> None:
        self._session = session
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
            raise ImageLookupError("the image index refers to another image index; it must refer to image manifests")
        config = read_config(self._blob(found))
        own = (config.architecture,) if config.architecture else ()
        return ImageConfig(digest, config.env, architectures or own)

    def digest(self) -> str:
        """The digest in the header of the response; if the registry leaves it out, the digest of the manifest."""
        answer = self._session.ask(self._query(self._reference.tag, "HEAD"))
        digest = answer.headers.get("docker-content-digest")
        return digest if digest is not None and is_digest(digest) else self._manifest(self._reference.tag)[0]

    def _manifest(self, name: str) -> tuple[str, Manifest | Index]:
        """The manifest or index under a tag or digest, with its digest."""
        if ":" in name and not is_digest(name):
            raise ImageLookupError(
                "the image's digest is not a sha256 digest, the only kind that can be verified; pin the image by its "
                "sha256 digest"
            )
        answer = self._session.ask(self._query(name))
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
        answer = self._session.ask(Query(what, path, self._limits.config_bytes))
        check_digest(answer.body, manifest.config, "the image configuration")
        return answer.body
