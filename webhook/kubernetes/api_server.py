"""Requests to the API server. The Kubernetes client finds the server and logs in. Answers stay plain JSON, because the
client's models would take several times the memory.
"""

import re
import socket
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

import orjson

from webhook.kubernetes.api_errors import AnswerError, ClusterConfigError, RefusedError, UnreachableError
from webhook.model.json_parts import text as text_at

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
"""Brackets, and texts, because brackets in texts do not count."""
_DEEPEST = 500
"""Most levels of nesting that are kept: about ten times as many as objects of Kubernetes usually have."""


def from_json(text: bytes) -> Any:
    """Parse JSON, with null in the place of values that are nested too deep.

    The API server stores values with thousands of levels, such as the parameters of a resource claim, and the parser
    reads 1,024 levels. One such object must not make the other objects of its list unreadable.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        shallow = _without_depths(text)
        if len(shallow) == len(text):
            raise
        return orjson.loads(shallow)


def _without_depths(text: bytes) -> bytes:
    """The text without values that are nested too deep; unchanged where there are none."""
    kept: list[bytes] = []
    begun = depth = 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in b"[{":
            depth += 1
            if depth == _DEEPEST + 1:
                kept += (text[begun : token.start()], b"null")
        elif first in b"]}":
            depth -= 1
            if depth == _DEEPEST:
                begun = token.end()
    if depth:
        return text  # it is no JSON
    return b"".join((*kept, text[begun:]))


def time_of(response: Any) -> float | None:
    """The Date of an answer in seconds since 1970; None where it is missing or cannot be read."""
    try:
        return parsedate_to_datetime(str(response.headers.get("date", ""))).timestamp()
    except (ValueError, OverflowError):
        return None


def refusal_of(response: Any) -> RefusedError:
    """The error for a response with an error status, with at most 300 characters of its message."""
    body = response.read(65536)
    response.close()
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    text = text_at(found, "message") or body.decode("utf-8", "replace")
    after = str(response.headers.get("retry-after", ""))
    return RefusedError(
        response.status,
        " ".join(text.split())[:300] or "nothing",
        float(after) if after.isdecimal() and len(after) < 6 else 0.0,
        text_at(found, "details", "name"),
        rest=text_at(found, "metadata", "continue"),
    )


def reason(error: BaseException) -> str:
    """The innermost reason of a failed request, in one line."""
    while isinstance(cause := getattr(error, "reason", None) or error.__cause__, BaseException) and cause is not error:
        error = cause
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


CONNECT_SECONDS = 5.0
"""Longest time for a connection to the API server."""
PROBE_SECONDS = 3.0
"""Longest time for an answer to a probe; the API server answers probes without reading its storage."""

MOST_BYTES = 16 * 2**20
"""Most bytes of an answer. A parsed answer takes about five times as much memory; one object has at most 3 MiB."""

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
"""Values of Accept: whole objects, or the metadata of an object or of the objects of a list."""

_HALF_A_SECOND = 0.5
"""A Date has whole seconds, and is half a second behind on average."""
_NOTHING: Mapping[str, str] = MappingProxyType({})

_CONNECTIONS = 32
"""Most open connections: one for each thread that may send requests, because a new connection needs a handshake."""

_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000))
"""A peer that has vanished is noticed after a minute, long before a silent watch ends; times are in seconds and ms."""


class ApiServer:
    """One API server, found in the pod's environment or through a kubeconfig file. Threads may share it.

    Raises ClusterConfigError where neither says how to reach one.
    """

    def __init__(self, kubeconfig: Path | str | None = None, context: str | None = None) -> None:
        self._kubeconfig = None if kubeconfig is None else str(kubeconfig)
        self._context = context
        self._configuration, self._pool = self._log_in()
        self.clock_skew = 0.0
        """Seconds that this machine's clock was ahead of the API server's at its last answer, to about a second."""
        self._started = time.time() - time.monotonic()
        """When the monotonic clock was 0, by the API server's clock in seconds since 1970."""

    def now(self) -> float:
        """The API server's clock in seconds since 1970, to about a second, also if this machine's clock changes.

        Before the first answer it goes by this machine's clock.
        """
        return self._started + time.monotonic()

    def get(self, path: str, query: Mapping[str, str], seconds: float, accept: str = JSON) -> dict[str, Any]:
        """The JSON object at `path`; no pause in the answer may be longer than `seconds`.

        Raises ApiServerError: RefusedError, UnreachableError, and AnswerError for what is no JSON object or too long.
        """
        return self._object(self._request(path, query, seconds, accept))

    def send(  # noqa: PLR0913  # all that a request is made of
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | list[dict[str, Any]],
        seconds: float,
        query: Mapping[str, str] = _NOTHING,
        *,
        accept: str = JSON,
    ) -> dict[str, Any]:
        """Send a JSON object by POST, PUT, PATCH or DELETE; returns the object of the answer. Raises what `get` raises.

        With PATCH the body is a JSON merge patch (RFC 7386), or a list: a JSON Patch (RFC 6902).
        With DELETE the object is a DeleteOptions, whose preconditions name what may be deleted. After UnreachableError
        it is unknown whether the API server has carried out the request.
        """
        return self._object(self._request(path, query, seconds, accept, method=method, body=body))

    def _object(self, response: Any) -> dict[str, Any]:
        from urllib3.exceptions import HTTPError  # noqa: PLC0415  # loaded with the client only, as below

        try:
            answer = response.read(MOST_BYTES + 1)
            if len(answer) > MOST_BYTES:
                response.close()  # rather than reading the rest
                raise AnswerError(f"the answer is longer than {MOST_BYTES >> 20} MiB", is_too_long=True)
        except (HTTPError, OSError) as error:
            raise UnreachableError(reason(error)) from error
        finally:
            response.release_conn()
        try:
            found = from_json(answer)
        except orjson.JSONDecodeError as error:
            raise AnswerError(str(error)) from error
        if not isinstance(found, dict):
            raise AnswerError("the answer is no JSON object")
        return found

    def stream(self, path: str, query: Mapping[str, str], seconds: float) -> "Stream":
        """The lines of a long answer, such as a watch; no pause in it may be longer than `seconds`.

        Raises RefusedError and UnreachableError.
        """
        return Stream(self._request(path, query, seconds), seconds)

    def is_reachable(self) -> bool:
        """Whether the API server answers HTTP, with whatever status."""
        try:
            self._request("/version", {}, PROBE_SECONDS).close()
        except RefusedError:
            return True
        except UnreachableError:
            return False
        return True

    def _request(  # noqa: PLR0913  # all that a request is made of
        self,
        path: str,
        query: Mapping[str, str],
        seconds: float,
        accept: str = JSON,
        *,
        method: str = "GET",
        body: Mapping[str, Any] | list[dict[str, Any]] | None = None,
    ) -> Any:
        """The open response. Tokens replaced on disk are read again, at most once a minute."""
        from urllib3 import Timeout  # noqa: PLC0415  # loaded with the client only, as below
        from urllib3.exceptions import HTTPError, SSLError  # noqa: PLC0415  # loaded with the client only, as below

        logins = (one for one in self._configuration.auth_settings().values() if one["in"] == "header" and one["value"])
        headers = {"accept": accept, "user-agent": "gpu-policy-webhook", **{one["key"]: one["value"] for one in logins}}
        if body is not None:
            patch = JSON_PATCH if isinstance(body, list) else MERGE_PATCH
            headers["content-type"] = patch if method == "PATCH" else JSON
        url = f"{self._configuration.host.rstrip('/')}{path}" + (f"?{urlencode(query)}" if query else "")
        timeout = Timeout(connect=min(CONNECT_SECONDS, seconds), read=seconds)
        try:
            response = self._pool.request(
                method,
                url,
                body=None if body is None else orjson.dumps(body),
                headers=headers,
                timeout=timeout,
                retries=False,
                redirect=False,
                preload_content=False,
            )
            if response.status in (200, 201, 202):
                if (date := time_of(response)) is not None:  # the clock of a proxy that refuses is not the API server's
                    self.clock_skew = time.time() - date
                    self._started = date + _HALF_A_SECOND - time.monotonic()
                return response
            refusal = refusal_of(response)
        except (HTTPError, OSError) as error:
            if isinstance(error, SSLError):
                self._log_in_again()
            raise UnreachableError(reason(error)) from error
        if refusal.status == 401:
            self._log_in_again()
        raise refusal

    def _log_in(self) -> tuple[Any, Any]:
        """The client's configuration and connection pool; reads tokens and certificates again."""
        from kubernetes import client, config  # noqa: PLC0415  # 9 MiB that a process with an inventory does not need
        from urllib3.connection import HTTPConnection  # noqa: PLC0415  # comes with the client
        from yaml import YAMLError  # noqa: PLC0415  # only raised here

        configuration = client.Configuration()
        configuration.connection_pool_maxsize = _CONNECTIONS
        configuration.socket_options = [
            *HTTPConnection.default_socket_options,
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            *(
                (socket.IPPROTO_TCP, getattr(socket, name), value)
                for name, value in _KEEPALIVE
                if hasattr(socket, name)
            ),
        ]
        try:
            load: Any = config  # its functions have no types
            if self._kubeconfig is None:
                load.load_incluster_config(client_configuration=configuration)
            else:
                load.load_kube_config(
                    self._kubeconfig, self._context, client_configuration=configuration, persist_config=False
                )
            return configuration, client.ApiClient(configuration).rest_client.pool_manager
        except (config.ConfigException, OSError, YAMLError, ValueError, TypeError, KeyError, AttributeError) as error:
            place = "not in a cluster" if self._kubeconfig is None else f"kubeconfig {self._kubeconfig}"
            remedy = "name a kubeconfig file" if self._kubeconfig is None else "name one that kubectl accepts"
            fault = " ".join(str(error).split()).rstrip(".")
            raise ClusterConfigError(f"{place}: {fault}; {remedy}") from error

    def _log_in_again(self) -> None:
        try:
            self._configuration, self._pool = self._log_in()
        except ClusterConfigError:
            return  # the old login is kept: files are replaced one after the other, and the next attempt is near


class Stream:
    """The lines of an open answer. The iterating thread closes it; any thread may interrupt it."""

    def __init__(self, response: Any, seconds: float) -> None:
        self._response = response
        self._seconds = seconds

    def __iter__(self) -> Iterator[bytes]:
        from urllib3.exceptions import HTTPError, ReadTimeoutError  # noqa: PLC0415  # comes with the client

        rest = b""
        try:
            for chunk in self._response.stream(65536):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from lines
        except ReadTimeoutError as error:
            raise UnreachableError(f"nothing arrived for {self._seconds:.0f} s", was_silent=True) from error
        except (HTTPError, OSError) as error:
            raise UnreachableError(reason(error)) from error

    def interrupt(self) -> None:
        """Wake the thread that waits for a line: it gets UnreachableError, or no more lines."""
        try:
            self._response.shutdown()
        except (OSError, RuntimeError, ValueError):
            return  # it has ended already

    def close(self) -> None:
        self._response.close()
