"""Queries registries about an image (OCI distribution 1.1, Docker Registry HTTP API V2), read-only.

Whatever a registry or an impostor answers, the result is a configuration or an ImageLookupError, within the limits of
time and size. Only hosts on the list are contacted. No request is tried twice.

A registry that demands a login sends a challenge with status 401 (RFC 9110, 11.6.1). Credentials go to the registry
itself and to its token hosts, nowhere else. A token goes to the registry only.
"""

import re
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from urllib.parse import parse_qsl, quote, urlencode
from urllib.request import parse_http_list

from webhook.images.allowlist import AllowList, Site
from webhook.images.credentials import Credentials, Login
from webhook.images.http_request import (
    Deadline,
    HttpAnswer,
    HttpRequest,
    ImageLookupError,
    LookupLimits,
    Url,
    exchange,
    parse_url,
)
from webhook.images.registry_documents import (
    INDEXES,
    MANIFESTS,
    Index,
    check_digest,
    digest_of,
    is_digest,
    read_config,
    read_json,
    read_manifest,
)
from webhook.model.image import ImageConfig, ImageReference

_LONGEST = 8 * 1024
"""Characters of one header that are read."""

_SCHEME = re.compile(r"(?:^|,)\s*(bearer|basic)\b\s*", re.IGNORECASE)


def parse_challenges(headers: Iterable[str]) -> dict[str, dict[str, str]]:
    """Bearer and basic -> the parameters of the first challenge of this kind, by their names in lower case.

    `headers` are those called WWW-Authenticate. Other authentication schemes are left out.
    """
    challenges: dict[str, dict[str, str]] = {}
    for header in headers:
        _, *parts = _SCHEME.split(header if len(header) <= _LONGEST else "")
        for scheme, text in zip(parts[::2], parts[1::2], strict=True):
            pairs = (item.partition("=") for item in parse_http_list(text))
            parameters = {name.strip().lower(): value.strip().strip('"') for name, equals, value in pairs if equals}
            challenges.setdefault(scheme.lower(), parameters)
    return challenges


def error_for_status(answer: HttpAnswer, what: str) -> ImageLookupError:
    """The error for a response whose status is not 200. `what` names what was requested."""
    host, status = answer.url.host, answer.status
    if status == 404:
        return ImageLookupError(f"{host} does not have {what} (404)")
    if status in (401, 403):
        return ImageLookupError(
            f"{host} denies access to {what} ({status}); check that it exists and that the configured credentials may "
            "pull it"
        )
    if status in (408, 429) or status >= 500:
        cannot = "cannot answer the request at the moment"
        reason = "rejects requests for now, because there were too many" if status == 429 else cannot
        return ImageLookupError(f"{host} {reason} ({status})", is_lasting=False, retry_after=_retry_after(answer))
    return ImageLookupError(f"{host} answers with status {status} instead of {what}")


def _retry_after(answer: HttpAnswer) -> float:
    """The seconds in the header Retry-After, or until the date in it; 0 without the header."""
    text = str(answer.headers.get("retry-after", ""))
    try:
        wait = float(text[:9]) if text.isdecimal() else parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0
    return max(wait, 0.0)


_CLIENT = "gpu-policy-webhook"
_SENDABLE = re.compile(r"[!-~]{1,16384}", re.ASCII)
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
        self._tokens: OrderedDict[tuple[Site, str], str] = OrderedDict()

    def look_up(self, reference: ImageReference, before: ImageConfig | None = None) -> ImageConfig:
        """The configuration of an image. Raises ImageLookupError, whose text begins with the name of the registry.

        `before` is what the reference led to earlier: mostly, one cheap request shows that it still does.
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
    tokens: OrderedDict[tuple[Site, str], str] = field(repr=False)
    """By registry and repository, until the registry accepts one no longer; empty where it wants the user and the
    password. Threads share it."""

    def config(self) -> ImageConfig:
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
        key, is_refused = (self.site, self.reference.repository), answer.status in {401, 403}
        if is_refused and self.site.is_own(answer.url):
            self.tokens.pop(key, None)
        if answer.status == 401 and self.site.is_own(answer.url):
            challenges = parse_challenges(answer.headers.get_all("www-authenticate") or ())
            self.tokens[key] = self._token(challenges)
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
            self.site.check(url, self.site.registry.blob_hosts, f"redirects to {url.host}", "blobHosts")
            request = replace(request, url=url)
        raise ImageLookupError(f"the registry redirects more than {self.limits.redirects} times")

    def _authorized(self, request: HttpRequest) -> HttpRequest:
        """The request with the header Authorization, which only the registry itself gets."""
        token = self.tokens.get((self.site, self.reference.repository))
        if token is None or not (token or self.login) or not self.site.is_own(request.url):
            return request
        authorization = f"Bearer {token}" if token or self.login is None else self.login.basic
        return replace(request, headers={**request.headers, "Authorization": authorization})

    def _exchange(self, request: HttpRequest) -> HttpAnswer:
        return exchange(request, self.site.registry.authorities, self.deadline)

    def _token(self, challenges: Mapping[str, Mapping[str, str]]) -> str:
        """A token from the server that a challenge names, empty for user and password. Raises ImageLookupError."""
        if "bearer" in challenges:
            return self._token_of_server(challenges["bearer"])
        if "basic" not in challenges:
            raise ImageLookupError(
                "the registry demands a login, but offers neither Bearer nor Basic, the supported authentication "
                "schemes"
            )
        if self.login is None or not self.login.user:
            raise ImageLookupError(
                "the registry demands a user name and a password, but none are configured; add them to the registry "
                "credentials"
            )
        return ""

    def _token_of_server(self, parameters: Mapping[str, str]) -> str:
        if not parameters.get("realm"):
            raise ImageLookupError(
                "the registry demands a token but does not name a token server (realm in WWW-Authenticate)"
            )
        realm = parse_url(parameters["realm"])
        does = f"names {realm.host} as its token server"
        self.site.check(realm, self.site.registry.token_hosts, does, "tokenHosts")
        answer = self._exchange(self._token_request(realm, parameters))
        if answer.status in (401, 403):
            refused = f"rejects the configured credentials ({answer.status}); correct them"
            if self.login is None:
                refused = (
                    f"gives no token to anonymous clients ({answer.status}); configure credentials for the registry"
                )
            raise ImageLookupError(f"{realm.host} {refused}")
        if answer.status != 200:
            raise error_for_status(answer, f"a token for {self.reference.repository}")
        found = read_json(answer.body, "the answer of the token server")
        token = found.get("token") or found.get("access_token")
        if not isinstance(token, str) or _SENDABLE.fullmatch(token) is None:
            raise ImageLookupError(f"{realm.host} answers without a usable token")
        return token

    def _token_request(self, realm: Url, parameters: Mapping[str, str]) -> HttpRequest:
        path, _, query = realm.target.partition("?")
        own = dict(parse_qsl(query))
        scope = parameters.get("scope") or own.get("scope", "")
        if not scope or any(demanded.startswith("repository") for demanded in scope.split()):
            scope = f"repository:{self.reference.repository}:pull"  # instead of any repository scope that was demanded
        asked = {**own, "service": parameters.get("service") or own.get("service", ""), "scope": scope}
        asked = {name: value for name, value in asked.items() if value}
        if self.login is not None and self.login.identity_token:
            form = {**asked, "grant_type": "refresh_token", "client_id": _CLIENT}
            body = urlencode({**form, "refresh_token": self.login.identity_token}).encode()
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            return HttpRequest(replace(realm, target=path), self.limits.token_bytes, "POST", headers, body)
        headers = {"Authorization": self.login.basic} if self.login is not None else {}
        url = replace(realm, target=f"{path}?{urlencode(asked)}")
        return HttpRequest(url, self.limits.token_bytes, headers=headers)
