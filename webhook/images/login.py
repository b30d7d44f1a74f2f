"""Logging in: a registry's challenge and the webhook's credentials become a header Authorization.

A registry sends a challenge with status 401 (RFC 9110, 11.6.1). Credentials go to the registry itself and to its token
hosts, nowhere else. A token goes to the registry only. Other statuses become errors that say what they mean.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from urllib.parse import parse_qsl, urlencode
from urllib.request import parse_http_list

from webhook.images.allowlist import Site
from webhook.images.credentials import Login
from webhook.images.http_request import HttpAnswer, HttpRequest, ImageLookupError, Url, parse_url
from webhook.images.registry_documents import read_json

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


_LONGEST_WAIT = 3600.0
"""Most seconds that are read from the header Retry-After."""


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
    """The seconds in the header Retry-After, or until the date in it: an hour at most, 0 without the header."""
    text = str(answer.headers.get("retry-after", ""))
    try:
        wait = float(text[:9]) if text.isdecimal() else parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0
    return min(max(wait, 0.0), _LONGEST_WAIT)


_CLIENT = "gpu-policy-webhook"
_SENDABLE = re.compile(r"[!-~]{1,16384}", re.ASCII)
_LEAST_SECONDS = 60.0
"""The least seconds for which a token counts as valid, whatever its server says (OCI token authentication)."""
_MOST_SECONDS = 3600.0
_MARGIN = 10.0
"""Seconds before the end of its validity in which a token is no longer used."""
_BASIC_SECONDS = 300.0
"""Seconds for which a user and a password are sent before the registry has to demand them again."""


@dataclass(frozen=True, slots=True)
class Token:
    """A header Authorization for a repository. `end` is when it expires, in seconds of time.monotonic()."""

    authorization: str = field(repr=False)
    end: float


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Obtains tokens for one repository. `ask` sends a request."""

    site: Site
    repository: str
    login: Login | None
    most_bytes: int
    """Most bytes of the response of a token server."""
    ask: Callable[[HttpRequest], HttpAnswer]

    def token(self, challenges: Mapping[str, Mapping[str, str]]) -> Token:
        """A token from the server that a challenge names, else the user and password. Raises ImageLookupError."""
        if "bearer" in challenges:
            return self._from_server(challenges["bearer"])
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
        return Token(self.login.basic, time.monotonic() + _BASIC_SECONDS)

    def _from_server(self, parameters: Mapping[str, str]) -> Token:
        if not parameters.get("realm"):
            raise ImageLookupError(
                "the registry demands a token but does not name a token server (realm in WWW-Authenticate)"
            )
        realm = parse_url(parameters["realm"])
        self.site.check_realm(realm)
        asked_at = time.monotonic()
        answer = self.ask(self._request(realm, parameters))
        if answer.status in (401, 403):
            refused = f"rejects the configured credentials ({answer.status}); correct them"
            if self.login is None:
                refused = (
                    f"gives no token to anonymous clients ({answer.status}); configure credentials for the registry"
                )
            raise ImageLookupError(f"{realm.host} {refused}")
        if answer.status != 200:
            raise error_for_status(answer, f"a token for {self.repository}")
        found = read_json(answer.body, "the answer of the token server")
        token = found.get("token") or found.get("access_token")
        if not isinstance(token, str) or _SENDABLE.fullmatch(token) is None:
            raise ImageLookupError(f"{realm.host} answers without a usable token")
        seconds = found.get("expires_in")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
            seconds = _LEAST_SECONDS
        return Token(f"Bearer {token}", asked_at + min(max(seconds, _LEAST_SECONDS), _MOST_SECONDS) - _MARGIN)

    def _request(self, realm: Url, parameters: Mapping[str, str]) -> HttpRequest:
        path, _, query = realm.target.partition("?")
        own = dict(parse_qsl(query))
        scope = parameters.get("scope") or own.get("scope", "")
        if not scope or any(demanded.startswith("repository") for demanded in scope.split()):
            scope = f"repository:{self.repository}:pull"  # instead of any repository scope that was demanded
        asked = {**own, "service": parameters.get("service") or own.get("service", ""), "scope": scope}
        asked = {name: value for name, value in asked.items() if value}
        if self.login is not None and self.login.identity_token:
            form = {**asked, "grant_type": "refresh_token", "client_id": _CLIENT}
            body = urlencode({**form, "refresh_token": self.login.identity_token}).encode()
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            return HttpRequest(replace(realm, target=path), self.most_bytes, "POST", headers, body)
        headers = {"Authorization": self.login.basic} if self.login is not None else {}
        return HttpRequest(replace(realm, target=f"{path}?{urlencode(asked)}"), self.most_bytes, headers=headers)
