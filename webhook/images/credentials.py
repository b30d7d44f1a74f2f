"""The credentials for registries: a docker configuration file of the webhook's own, never a tenant's pull secret.

The file has a user name with a password, or an identity token, for each host. Credential helpers (credsStore,
credHelpers) are not run. The file is read again when it changes, because tokens of clouds live for hours.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from webhook.images.hosts import HTTP, HTTPS, split_host
from webhook.model.shape import FormatError
from webhook.yaml_files.file_errors import FileErrors

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
        """The value of the header Authorization for user and password."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


@dataclass(frozen=True, slots=True)
class _Read:
    stamp: tuple[int, int, int]
    logins: Mapping[str, Login]
    warnings: tuple[str, ...]


class Credentials:
    """Logins by registry. Without a file there are none, and every registry is queried anonymously."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._read = _read(path) if path is not None else _Read((0, 0, 0), {}, ())
        self._problem = ""

    @classmethod
    def load(cls, path: Path | str) -> "Credentials":
        """Read the logins in the file at `path`. Raises FileErrors, whose text has no secret."""
        return cls(Path(path))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The entries of the file that are ignored and why; also why a changed file cannot be read."""
        return (*self._read.warnings, self._problem) if self._problem else self._read.warnings

    def of(self, registry: str) -> Login | None:
        """The login for the registry with this name in image references. A broken file keeps its last content."""
        self._refresh()
        try:
            return self._read.logins.get(_canonical(registry))
        except FormatError:
            return None

    def _refresh(self) -> None:
        if self._path is None:
            return
        try:
            if _stamp(self._path) != self._read.stamp:
                self._read = _read(self._path)
            self._problem = ""
        except FileErrors as error:
            self._problem = str(error)


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise FileErrors.of(str(path), f"the file cannot be read ({error.strerror})") from error
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read(path: Path) -> _Read:
    stamp = _stamp(path)
    try:
        found = orjson.loads(path.read_bytes())
    except OSError as error:
        raise FileErrors.of(str(path), f"the file cannot be read ({error.strerror})") from error
    except ValueError:
        found = None
    auths = found.get("auths", {}) if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(auths, dict):
        expected = 'the JSON that `docker login` writes: {"auths": {HOST: {"auth": ...}}}'
        raise FileErrors.of(str(path), f"not a docker configuration; expected {expected}")
    return _Read(stamp, *_logins(path, found, auths))


def _logins(path: Path, found: Mapping[str, Any], auths: Mapping[str, Any]) -> tuple[dict[str, Login], tuple[str, ...]]:
    logins: dict[str, Login] = {}
    warnings = [
        f"{path}: {key} is ignored, because credential helpers are not run; write the credentials themselves under "
        "auths"
        for key in ("credsStore", "credHelpers")
        if found.get(key)
    ]
    for key, entry in auths.items():
        try:
            login = _login(entry)
            if login is not None:
                logins[_canonical(_host(key))] = login
        except ValueError as error:
            warnings.append(f"{path}: auths[{key}] is ignored: {error}")
    return logins, tuple(warnings)


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
