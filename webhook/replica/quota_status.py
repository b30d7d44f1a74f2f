"""Writes objects of kind GPUQuota, which show people what is in use."""

import logging
import time
from collections.abc import Callable, Iterable

from webhook.engine.quota_usage import QuotaUsage, statuses
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.watch import WatchTiming
from webhook.replica.shown_kind import ShownKind, Status
from webhook.replica.status_objects import StatusObjects, StatusTiming

_LONGEST_VERSION = 20


def _is_newer(one: Status, other: Status) -> bool:
    """Whether the status is of a newer ledger. Resource versions are compared as numbers."""
    theirs, mine = (str(status.get("ledger", ""))[:_LONGEST_VERSION] for status in (one, other))
    return theirs.isdecimal() and mine.isdecimal() and int(theirs) > int(mine)


def _compared(status: Status) -> object:
    return {key: value for key, value in status.items() if key not in ("ledger", "updated")}


QUOTAS = ShownKind("GPUQuota", "gpuquotas", _compared, _is_newer)


class QuotaStatus:
    """Writes GPUQuota objects for the installation whose ledgers are in the namespace `installation`."""

    def __init__(
        self,
        server: ApiServer,
        installation: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        timing: StatusTiming | None = None,
        watch_timing: WatchTiming | None = None,
    ) -> None:
        log = logging.getLogger("gpu_policy.quota")
        self._objects = StatusObjects(
            server, installation, QUOTAS, log, clock=clock, timing=timing, watch_timing=watch_timing
        )
        self.start = self._objects.start
        self.close = self._objects.close
        self.write_some = self._objects.write_some

    @property
    def known(self) -> int | None:
        """How many GPUQuota objects the cluster has, also of others; None while they are not watched."""
        return self._objects.known

    def show(self, usages: Iterable[QuotaUsage]) -> None:
        """Publish the usage of all quotas, in the background."""
        wanted = statuses(usages)
        self._objects.want(lambda: wanted)
