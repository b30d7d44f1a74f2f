"""Pods as they are now: consistent lists, which the API server answers from its storage however old its caches are."""

import logging
from collections.abc import Callable, Collection, Iterator
from typing import Any
from urllib.parse import quote

from webhook.cluster.api_server import METADATA_LIST, ApiServer, RefusedError, UnreachableError
from webhook.cluster.pages import Deadline, Listed, PagedList
from webhook.cluster.pod_table import is_covered
from webhook.cluster.seen import COUNTING, counting_uid, stored_from_raw
from webhook.ledger.store import LedgerError, SeenPod
from webhook.model.globs import is_glob

PODS = "/api/v1/pods"
PAGE = 250
"""Whole pods in one answer: one or two MiB. Parsing takes twice the time where a page has twice as many."""
_METADATA_PAGE = 1000
_EXPIRED = 410
"""What the API server says when the rest of a list, which it keeps for some minutes, is no longer to be had."""
_ATTEMPTS = 3

_log = logging.getLogger("gpu_policy.quota")


class PodLists:
    """Consistent lists of the pods that count. Threads may share it. `now` is the API server's clock."""

    def __init__(self, server: ApiServer, now: Callable[[], float]) -> None:
        self._server = server
        self._now = now

    def live(self, namespaces: Collection[str], seconds: float) -> frozenset[bytes]:
        """The uids of the pods that count in these namespaces, within `seconds` in all. Raises LedgerError."""
        deadline = Deadline(seconds)
        uids: set[bytes] = set()
        for namespace in sorted(namespaces):
            for raw in self._listed(Listed(_path(namespace), _METADATA_PAGE, COUNTING, METADATA_LIST), deadline):
                uid = counting_uid(raw, self._now())
                if uid is not None:
                    uids.add(uid)
        return frozenset(uids)

    def gpu_pods(self, patterns: Collection[str], seconds: float) -> Iterator[SeenPod]:
        """The GPU pods that count in the namespaces with these names and globs, while they are being read.

        Where the list begins anew half-way, pods come twice. Raises LedgerError, then or later.
        """
        deadline = Deadline(seconds)
        for path in [PODS] if any(map(is_glob, patterns)) else map(_path, sorted(set(patterns))):
            for raw in self._listed(Listed(path, PAGE, COUNTING), deadline):
                seen = self._counting(raw)
                if seen is not None and is_covered(seen.namespace, patterns):
                    yield seen

    def _counting(self, raw: object) -> SeenPod | None:
        try:
            stored = stored_from_raw(raw)
        except ValueError as error:
            _log.debug("passed over: %s", error)
            return None
        return stored.seen if self._now() <= stored.ends else None

    def _listed(self, listed: Listed, deadline: Deadline) -> Iterator[Any]:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                yield from PagedList(self._server, listed, deadline.left)
            except RefusedError as refusal:
                if refusal.status != _EXPIRED or attempt == _ATTEMPTS:
                    raise _explained(listed.path, refusal) from refusal
            except (UnreachableError, ValueError) as error:
                raise _explained(listed.path, error) from error
            else:
                return


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"


def _explained(path: str, error: Exception) -> LedgerError:
    status = error.status if isinstance(error, RefusedError) else 0
    remedy = "; install the RBAC objects of the chart again" if status == 403 else ""
    return LedgerError(f"pods cannot be listed: GET {path}: {error}{remedy}")
