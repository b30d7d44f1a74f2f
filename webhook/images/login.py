"""Logging in: from a registry's challenge and the webhook's credentials to a header Authorization.

Credentials go to the registry itself and to its token hosts, nowhere else; a token goes to the registry only.

A challenge is what a registry demands with status 401 (RFC 9110, 11.6.1).

Every other status is translated into an error that says what it means.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from threading import Lock
from urllib.parse import parse_qsl, urlencode

from webhook.images.credentials import Login
from webhook.images.hosts import Url, parse_url
from webhook.images.http_request import HttpRequest, HttpResponse
from webhook.images.lookup_limits import LookUpError
from webhook.images.registries import Site
from webhook.images.registry_documents import read_json

_LONGEST = 8 * 1024
"""Characters of one header that are read."""

_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"  # noqa: S105  # no secret: what RFC 9110 calls a token
_SCHEME = re.compile(rf"[\s,]*({_TOKEN})(?=[\s,]|$)(?!\s*=)", re.ASCII)
_PARAMETER = re.compile(rf'[\s,]*({_TOKEN})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))', re.ASCII)
_ESCAPE = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Challenge:
    """A scheme in lower case, such as bearer or basic, with its parameters, their names in lower case."""

    scheme: str
    parameters: Mapping[str, str]


def parse_challenges(headers: Iterable[str]) -> list[Challenge]:
    """The challenges in WWW-Authenticate headers, in their order; reading a header ends at what is malformed."""
    found: list[Challenge] = []
    for header in headers:
        if len(header) > _LONGEST:
            continue
        position = 0
        while scheme := _SCHEME.match(header, position):
            parameters: dict[str, str] = {}
            position = scheme.end()
            while parameter := _PARAMETER.match(header, position):
                name, quoted, plain = parameter.groups()
                parameters[name.lower()] = plain if quoted is None else _ESCAPE.sub(r"\1", quoted)
                position = parameter.end()
            found.append(Challenge(scheme.group(1).lower(), parameters))
    return found


_LONGEST_WAIT = 3600.0
"""Seconds for which a registry can ask to be left alone."""


def refusal(answer: HttpResponse, what: str) -> LookUpError:
    """The error for an answer that is not `what` was asked for."""
    host, status = answer.url.host, answer.status
    if status == 404:
        return LookUpError(f"{host} does not have {what} (404)")
    if status in (401, 403):
        return LookUpError(
            f"{host} denies access to {what} ({status}); check that it exists and that the configured credentials may "
            "pull it"
        )
    if status == 429:
        return LookUpError(
            f"{host} rejects requests for now, because there were too many (429)",
            is_lasting=False,
            retry_after=retry_after(answer),
        )
    if status == 408 or status >= 500:
        return LookUpError(
            f"{host} cannot answer the request at the moment ({status})",
            is_lasting=False,
            retry_after=retry_after(answer),
        )
    return LookUpError(f"{host} answers with status {status} instead of {what}")


def retry_after(answer: HttpResponse) -> float:
    """The seconds in the header Retry-After, or until the date in it; 0 where it says nothing, an hour at most."""
    text = str(answer.headers.get("retry-after", ""))
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), _LONGEST_WAIT)
    try:
        wait = parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0
    return min(max(wait, 0.0), _LONGEST_WAIT)


_CLIENT = "gpu-policy-webhook"
_SENDABLE = re.compile(r"[!-~]{1,16384}", re.ASCII)
_LEAST_SECONDS = 60.0
"""How long a token is valid where its server does not say, or says less (OCI token authentication)."""
_MOST_SECONDS = 3600.0
_MARGIN = 10.0
"""Seconds before its end in which a token is not used any more."""
_BASIC_SECONDS = 300.0
"""How long a user and a password are sent without being asked for anew."""
_MOST_LOGINS = 256


@dataclass(frozen=True, slots=True)
class Token:
    """What opens a repository, and until when by the monotonic clock."""

    authorization: str
    end: float

    def __repr__(self) -> str:
        return f"Token(end={self.end})"


class TokenCache:
    """The passes of the last repositories asked for. Threads may share it."""

    def __init__(self) -> None:
        self._passes: dict[tuple[Site, str], Token] = {}
        self._lock = Lock()

    def get(self, site: Site, repository: str) -> str | None:
        """The header Authorization for a repository; None where there is none that is still valid."""
        with self._lock:
            found = self._passes.get((site, repository))
        return found.authorization if found is not None and time.monotonic() < found.end else None

    def keep(self, site: Site, repository: str, found: Token) -> None:
        """Remember a pass, in place of the oldest one where there are too many."""
        with self._lock:
            self._passes.pop((site, repository), None)
            self._passes[site, repository] = found
            if len(self._passes) > _MOST_LOGINS:
                del self._passes[next(iter(self._passes))]

    def drop(self, site: Site, repository: str) -> None:
        """Forget a pass that was not accepted."""
        with self._lock:
            self._passes.pop((site, repository), None)


@dataclass(frozen=True, slots=True)
class LoginChallenge:
    """A repository that demands a login."""

    site: Site
    repository: str
    login: Login | None
    most_bytes: int
    """In the answer of a token server."""
    ask: Callable[[HttpRequest], HttpResponse]

    def open(self, challenges: list[Challenge]) -> Token:
        """What the challenge wants: a token from its server, else user and password. Raises LookUpError."""
        by_scheme = {challenge.scheme: challenge for challenge in reversed(challenges)}
        if "bearer" in by_scheme:
            return self._token(by_scheme["bearer"].parameters)
        if "basic" not in by_scheme:
            raise LookUpError(
                "the registry demands a login, but offers neither Bearer nor Basic, the supported authentication "
                "schemes"
            )
        if self.login is None or not self.login.user:
            raise LookUpError(
                "the registry demands a user name and a password, but none are configured; add them to the registry "
                "credentials"
            )
        return Token(self.login.basic, time.monotonic() + _BASIC_SECONDS)

    def _token(self, parameters: Mapping[str, str]) -> Token:
        if not parameters.get("realm"):
            raise LookUpError(
                "the registry demands a token but does not name a token server (realm in WWW-Authenticate)"
            )
        realm = parse_url(parameters["realm"])
        self.site.check_realm(realm)
        asked_at = time.monotonic()
        answer = self.ask(self._request(realm, parameters))
        if answer.status in (401, 403):
            if self.login is None:
                refused = (
                    f"gives no token to anonymous clients ({answer.status}); configure credentials for the registry"
                )
            else:
                refused = f"rejects the configured credentials ({answer.status}); correct them"
            raise LookUpError(f"{realm.host} {refused}")
        if answer.status != 200:
            raise refusal(answer, f"a token for {self.repository}")
        found = read_json(answer.body, "the answer of the token server")
        token = found.get("token") or found.get("access_token")
        if not isinstance(token, str) or _SENDABLE.fullmatch(token) is None:
            raise LookUpError(f"{realm.host} answers without a usable token")
        return Token(f"Bearer {token}", asked_at + _seconds(found.get("expires_in")) - _MARGIN)

    def _request(self, realm: Url, parameters: Mapping[str, str]) -> HttpRequest:
        path, _, query = realm.target.partition("?")
        own = dict(parse_qsl(query))
        asked = {
            **own,
            "service": parameters.get("service") or own.get("service", ""),
            "scope": self._scope(parameters.get("scope") or own.get("scope", "")),
        }
        asked = {name: value for name, value in asked.items() if value}
        if self.login is not None and self.login.identity_token:
            form = {**asked, "grant_type": "refresh_token", "client_id": _CLIENT}
            body = urlencode({**form, "refresh_token": self.login.identity_token}).encode()
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            return HttpRequest(Url(realm.scheme, realm.host, path), self.most_bytes, "POST", headers, body)
        headers = {"Authorization": self.login.basic} if self.login is not None else {}
        return HttpRequest(
            Url(realm.scheme, realm.host, f"{path}?{urlencode(asked)}"), self.most_bytes, headers=headers
        )

    def _scope(self, demanded: str) -> str:
        """To pull from this repository, whatever was demanded of that kind; other kinds of scope are the registry's."""
        if not demanded or any(scope.startswith("repository") for scope in demanded.split()):
            return f"repository:{self.repository}:pull"
        return demanded


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return _LEAST_SECONDS
    return min(max(float(value), _LEAST_SECONDS), _MOST_SECONDS)
