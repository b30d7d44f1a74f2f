"""The credentials for registries: a docker configuration file of the webhook's own, never a tenant's pull secret.

The file has a user name with a password, or an identity token, for each host. Credential helpers (credsStore,
credHelpers) are not run. The file is read again when it changes, because tokens of clouds live for hours.
"""

import base64
import binascii
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from webhook.images.hosts import HTTP, HTTPS, split_host
from webhook.model.shape import FormatError
from webhook.yaml_files.file_errors import FileErrors

_log = logging.getLogger("gpu_policy.images")

_HUB = "docker.io"
_NAMES_OF_HUB = frozenset({"index.docker.io", "registry-1.docker.io", _HUB})
_API_PATHS = ("", "v1", "v2")


@dataclass(frozen=True, slots=True)
class Login:
    """A user with a password, or an identity token for a token server."""

    user: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


class Credentials:
    """Logins by registry. Without a file there are none, and every registry is queried anonymously."""

    def __init__(self, path: Path | None = None) -> None:
        """Read the file at `path`. Raises FileErrors, whose text has no secret."""
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._logins: Mapping[str, Login] = {}
        self._ignored: tuple[str, ...] = ()
        self._problem = ""
        self._logged: tuple[str, ...] = ()
        if path is not None:
            self._read(path)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The entries of the file that are ignored and why; also why a changed file cannot be read."""
        return (*self._ignored, self._problem) if self._problem else self._ignored

    def of(self, registry: str) -> Login | None:
        """The login for the registry with this name in image references. A broken file keeps its last content.

        Each warning is logged once.
        """
        try:
            if self._path is not None:
                self._read(self._path)
            self._problem = ""
        except FileErrors as error:
            self._problem = str(error)
        logged, self._logged = self._logged, self.warnings
        for warning in self._logged:
            if warning not in logged:
                _log.warning("%s", warning)
        try:
            return self._logins.get(_canonical(registry))
        except FormatError:
            return None

    def _read(self, path: Path) -> None:
        """Read the file if it has changed. Raises FileErrors."""
        try:
            status = path.stat()
            stamp = status.st_mtime_ns, status.st_size, status.st_ino
            if stamp == self._stamp:
                return
            found = orjson.loads(path.read_bytes())
        except OSError as error:
            raise FileErrors.of(str(path), f"the file cannot be read ({error.strerror})") from error
        except ValueError:
            found = None
        auths = found.get("auths", {}) if isinstance(found, dict) else None
        if not isinstance(auths, dict):
            expected = 'the JSON that `docker login` writes: {"auths": {HOST: {"auth": ...}}}'
            raise FileErrors.of(str(path), f"not a docker configuration; expected {expected}")
        logins: dict[str, Login] = {}
        ignored = [
            f"{path}: {key} is ignored, because credential helpers are not run; write the credentials themselves under "
            "auths"
            for key in ("credsStore", "credHelpers")
            if found.get(key)
        ]
        for key, entry in auths.items():
            try:
                if (login := _login(entry)) is not None:
                    logins[_canonical(_host(key))] = login
            except ValueError as error:
                ignored.append(f"{path}: auths[{key}] is ignored: {error}")
        self._stamp, self._logins, self._ignored = stamp, logins, tuple(ignored)


def _host(key: str) -> str:
    """The host in a key of `auths`, which may be a URL, as docker writes it."""
    host, _, path = key.removeprefix("https://").removeprefix("http://").partition("/")
    if path.rstrip("/") not in _API_PATHS:
        raise FormatError("credentials for a path within a registry are not supported; write the host alone")
    return host


def _canonical(registry: str) -> str:
    name, port = split_host(registry)
    if name in _NAMES_OF_HUB:
        return _HUB
    return name if port in (None, HTTPS, HTTP) else f"{name}:{port}"


def _login(entry: object) -> Login | None:
    """The login of an entry; None for an empty entry, which docker writes if a credential helper has the login."""
    if not isinstance(entry, dict):
        raise ValueError("the entry is not a map")  # noqa: TRY004  # a value from outside
    texts = {key: entry.get(key) or "" for key in ("username", "password", "auth", "identitytoken")}
    if not all(isinstance(text, str) for text in texts.values()):
        raise ValueError("username, password, auth and identitytoken must be strings")
    if texts["identitytoken"]:
        return Login(identity_token=texts["identitytoken"])
    if texts["username"]:
        return Login(texts["username"], texts["password"])
    if not texts["auth"]:
        return None
    try:
        user, colon, password = base64.b64decode(texts["auth"], validate=True).decode().rstrip("\0").partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError("auth is not valid base64; write the base64 of user:password") from error
    if not colon or not user:
        raise ValueError("auth is not the base64 of user:password")
    return Login(user, password)
