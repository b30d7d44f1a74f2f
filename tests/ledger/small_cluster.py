"""A cluster that has pods only, as replicas see it: each with some delay, and with a store that fails."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

from webhook.kubernetes.api_errors import ConflictError
from webhook.ledger.entries import Entries
from webhook.ledger.ledger_store import GpuPod, LedgerError, MemoryStore, StoredLedger
from webhook.model.globs import matcher
from webhook.model.pod_reader import pod_from_raw


def raw_pod(gpus: int, resource: str = "nvidia.com/gpu", **spec: object) -> dict[str, object]:
    """A pod that asks for GPUs."""
    amount = {resource: str(gpus)}
    container = {"name": "main", "image": "x", "resources": {"limits": amount, "requests": amount}}
    return {"metadata": {"name": "p"}, "spec": {"containers": [container], **spec}}


def seen_pod(number: int, namespace: str, gpus: int) -> GpuPod:
    """A stored pod; its uid and name follow from its number."""
    return GpuPod(UUID(int=number).bytes, namespace, f"pod-{number}", pod_from_raw(raw_pod(gpus)))


class Truth:
    """What the API server has: live pods, all pods that were ever stored, and all events in their order."""

    def __init__(self) -> None:
        self.live: dict[bytes, GpuPod] = {}
        self.stored: set[bytes] = set()
        self.events: list[tuple[str, GpuPod]] = []
        self.no_namespaces: set[str] = set()
        """Names that no namespace has."""

    def store(self, pod: GpuPod) -> None:
        self.live[pod.uid] = pod
        self.stored.add(pod.uid)
        self.events.append(("ADDED", pod))

    def start(self, uid: bytes) -> None:
        """The last gate of a pod goes."""
        self.store(replace(self.live[uid], is_gated=False))

    def delete(self, uid: bytes) -> None:
        self.events.append(("DELETED", self.live.pop(uid)))


class LateView:
    """`webhook.ledger.ledger_store.Pods` of one replica, whose watch has come as far as `heard` in the events."""

    def __init__(self, truth: Truth, before_read: Callable[[], None] = lambda: None) -> None:
        self._truth = truth
        self._before_read = before_read
        self.heard = 0
        self._live: dict[bytes, GpuPod] = {}
        self._gone: set[bytes] = set()

    def catch_up(self, events: int = 10**9) -> None:
        """Receive up to so many further events."""
        until = min(len(self._truth.events), self.heard + events)
        for kind, pod in self._truth.events[self.heard : until]:
            if kind == "ADDED":
                self._live[pod.uid] = pod
            else:
                self._live.pop(pod.uid, None)
                self._gone.add(pod.uid)
        self.heard = until

    def list_anew(self) -> None:
        """List the pods: know which are there now, and nothing of earlier ones."""
        self._live, self._gone = dict(self._truth.live), set()
        self.heard = len(self._truth.events)

    def is_known(self) -> bool:
        return True

    def is_live(self, uid: bytes) -> bool:
        return uid in self._live

    def is_gone(self, uid: bytes) -> bool:
        return uid in self._gone

    def live_among(self, uids) -> set[bytes]:
        return uids & self._live.keys()

    def gone_among(self, uids) -> set[bytes]:
        return uids & self._gone

    def gated_among(self, uids) -> set[bytes]:
        return {uid for uid in uids & self._live.keys() if self._live[uid].is_gated}

    def seen(self, namespace: str | None = None) -> list[GpuPod]:
        return [pod for pod in self._live.values() if namespace in (None, pod.namespace)]

    def named(self, namespace: str, name: str) -> bytes | None:
        return next((one.uid for one in self._live.values() if (one.namespace, one.name) == (namespace, name)), None)

    def stored_now(self, namespace: str, name: str, seconds: float) -> bytes | None:  # noqa: ARG002  # takes no time
        self._before_read()
        live = self._truth.live.values()
        return next((one.uid for one in live if (one.namespace, one.name) == (namespace, name)), None)

    def has_namespace(self, namespace: str, seconds: float) -> bool:  # noqa: ARG002  # as above
        return namespace not in self._truth.no_namespaces

    def live_now(self, namespaces, seconds) -> frozenset[bytes]:  # noqa: ARG002  # takes no time
        self._before_read()
        return frozenset(uid for uid, pod in self._truth.live.items() if pod.namespace in namespaces)

    def list_now(self, patterns, seconds) -> list[GpuPod]:  # noqa: ARG002  # as above
        self._before_read()
        return [
            pod
            for pod in self._truth.live.values()
            if any(matcher(pattern).fullmatch(pod.namespace) for pattern in patterns)
        ]


class Disturbed:
    """A store whose calls may fail: `next_fault` says how.

    A call that is "late" is done when the next call comes, long after its caller has given up.
    """

    def __init__(self, inner: MemoryStore, next_fault: Callable[[], str]) -> None:
        self._inner = inner
        self._next_fault = next_fault
        self._late: Callable[[], object] | None = None

    def _call(self, call: Callable[[], object]) -> object:
        fault = self._next_fault()
        late, self._late = self._late, None
        if late is not None:
            with suppress(ConflictError):
                late()
        if fault == "late":
            self._late = call
            raise LedgerError("the connection is silent")
        if fault == "lost":
            raise LedgerError("the connection was refused")
        result = call()
        if fault == "answer lost":
            raise LedgerError("the connection broke off")
        return result

    def read(self, key: str, seconds: float) -> StoredLedger | None:
        return self._call(lambda: self._inner.read(key, seconds))

    def read_all(self, seconds: float) -> dict[str, StoredLedger]:
        return self._call(lambda: self._inner.read_all(seconds))

    def create(self, key: str, entries: Entries, seconds: float) -> StoredLedger:
        return self._call(lambda: self._inner.create(key, entries, seconds))

    def replace(self, key: str, entries: Entries, over: StoredLedger, seconds: float) -> StoredLedger:
        return self._call(lambda: self._inner.replace(key, entries, over, seconds))

    def remove(self, key: str, over: StoredLedger, seconds: float) -> None:
        self._call(lambda: self._inner.remove(key, over, seconds))
