"""Where ledgers are kept, and what else the cluster is asked about pods: two small interfaces.

Books and pods are many, but what pods request is often the same: demands are compared once for all that are equal.

`MemoryStore` keeps the ledgers of one process, for inventories.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from webhook.kubernetes.api_errors import ConflictError
from webhook.ledger.book import MOST_RESOURCES, Book
from webhook.model.pod import Pod
from webhook.quota.claimed_gpus import demand_of
from webhook.quota.quotas import Counting, Demand


class LedgerError(Exception):
    """A ledger cannot be read or written at the moment; the text says why. Nobody knows whether a write was done.

    `told` is what the author of a pod hears of it: not the text where that has paths and commands of the platform.
    """

    def __init__(self, text: str, told: str = "") -> None:
        super().__init__(text)
        self.told = told or text


@dataclass(frozen=True, slots=True)
class StoredLedger:
    """A ledger as it was read or written last. `version` is the store's, and says nothing but same or different."""

    version: str
    book: Book


class LedgerStore(Protocol):
    """Keeps one book for each quota. Reads are consistent; a write succeeds only over what was read last.

    `seconds` bound each call. All raise LedgerError.
    """

    def read(self, key: str, seconds: float) -> StoredLedger | None:
        """The book as it is now; None where there is none."""
        ...

    def read_all(self, seconds: float) -> Mapping[str, StoredLedger]:
        """Every book by its key, as they are now. Books that are broken are left out, and said in the log."""
        ...

    def create(self, key: str, book: Book, seconds: float) -> StoredLedger:
        """Begin a book; ConflictError where there is one already."""
        ...

    def replace(self, key: str, book: Book, over: StoredLedger, seconds: float) -> StoredLedger:
        """Write a book over what was read; ConflictError where that is no longer what is there."""
        ...

    def remove(self, key: str, over: StoredLedger, seconds: float) -> None:
        """Remove a book; ConflictError where it is no longer what was read."""
        ...


@dataclass(frozen=True, slots=True)
class GpuPod:
    """A pod that asks for GPUs, as the API server told it. `uid` are the 16 bytes of metadata.uid.

    `pod` holds what decides on its demand: GPUs, node selector, required node affinity.
    """

    uid: bytes
    namespace: str
    name: str
    pod: Pod


class Pods(Protocol):
    """What is known of the pods of the cluster that count: neither Succeeded nor Failed nor past their deletion.

    Those with `seconds` are consistent reads; all others answer at once, from what was heard last, which may be old.
    """

    def is_known(self) -> bool:
        """Whether pods were listed once, and are followed."""
        ...

    def live_among(self, uids: Set[bytes]) -> Set[bytes]:
        """Those of the pods that were last heard of as some that count."""
        ...

    def gone_among(self, uids: Set[bytes]) -> Set[bytes]:
        """Those that are known to have been stored once and not to count any more, which is for good."""
        ...

    def seen(self, namespace: str | None = None) -> Iterable[GpuPod]:
        """The pods last heard of that count, of one namespace or of all."""
        ...

    def named(self, namespace: str, name: str) -> bytes | None:
        """The uid of the GPU pod of this name that was last heard of as one that counts, None for none."""
        ...

    def stored_now(self, namespace: str, name: str, seconds: float) -> bytes | None:
        """The uid of the pod of this name, finished or not, with or without GPUs; None where there is none.

        It is read after the call began. Raises LedgerError.
        """
        ...

    def full_quota(self, namespace: str, gpus: Mapping[str, int], seconds: float) -> str:
        """Which ResourceQuota leaves too little for one more pod with these GPUs, and what it leaves; empty for none.

        It is read after the call began. Whoever may not read them gets an empty answer. Raises LedgerError.
        """
        ...

    def has_namespace(self, namespace: str, seconds: float) -> bool:
        """Whether there is a namespace of this name, read after the call began. Raises LedgerError."""
        ...

    def live_now(self, namespaces: Collection[str], seconds: float) -> frozenset[bytes]:
        """The uids of all pods of these namespaces that count, with or without GPUs, read after the call began.

        Raises LedgerError.
        """
        ...

    def list_now(self, patterns: Collection[str], seconds: float) -> Iterable[GpuPod]:
        """The GPU pods that count, of the namespaces with these names and globs, read after the call began.

        Raises LedgerError, also while they are being read.
        """
        ...


def demands_of(pods: Sequence[GpuPod], counting: Counting) -> dict[bytes, Demand]:
    """What each pod that has GPUs asks for, by its uid."""
    known: dict[tuple[str, int], Demand | None] = {}
    found: dict[bytes, Demand] = {}
    for seen in pods:
        kind = seen.namespace, id(seen.pod)
        if kind not in known:
            known[kind] = entered_demand(seen, counting)
        demand = known[kind]
        if demand is not None:
            found[seen.uid] = demand
    return found


def entered_demand(seen: GpuPod, counting: Counting) -> Demand | None:
    """What a pod is entered with; None where it asks for no GPU, or for more kinds of them than any node has."""
    return demand_of(seen.pod, seen.namespace, counting) if len(seen.pod.gpus) <= MOST_RESOURCES else None


def counted_otherwise(book: Book, demands: Mapping[bytes, Demand]) -> dict[bytes, Demand]:
    """The demands of those that are entered with another one."""
    differs: dict[tuple[int, int], bool] = {}
    found: dict[bytes, Demand] = {}
    for uid, demand in demands.items():
        entered = book.entries.get(uid, demand)
        pair = id(entered), id(demand)
        if pair not in differs:
            differs[pair] = entered != demand
        if differs[pair]:
            found[uid] = demand
    return found


def by_namespace(pods: Sequence[GpuPod]) -> dict[str, list[GpuPod]]:
    """The pods of each namespace."""
    found: dict[str, list[GpuPod]] = {}
    for pod in pods:
        found.setdefault(pod.namespace, []).append(pod)
    return found


class MemoryStore:
    """`webhook.ledger.ledger_store.LedgerStore` in memory. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._books: dict[str, StoredLedger] = {}
        self._writes = 0

    def read(self, key: str, seconds: float) -> StoredLedger | None:  # noqa: ARG002  # nothing takes time here
        """The book as it is now."""
        return self._books.get(key)

    def read_all(self, seconds: float) -> dict[str, StoredLedger]:  # noqa: ARG002  # as above
        """Every book."""
        return dict(self._books)

    def create(self, key: str, book: Book, seconds: float) -> StoredLedger:  # noqa: ARG002  # as above
        """Begin a book."""
        with self._lock:
            if key in self._books:
                raise ConflictError
            return self._keep(key, book)

    def replace(self, key: str, book: Book, over: StoredLedger, seconds: float) -> StoredLedger:  # noqa: ARG002  # as above
        """Write a book over what was read."""
        with self._lock:
            self._check(key, over)
            return self._keep(key, book)

    def remove(self, key: str, over: StoredLedger, seconds: float) -> None:  # noqa: ARG002  # as above
        """Remove a book."""
        with self._lock:
            self._check(key, over)
            del self._books[key]

    def _check(self, key: str, over: StoredLedger) -> None:
        held = self._books.get(key)
        if held is None or held.version != over.version:
            raise ConflictError

    def _keep(self, key: str, book: Book) -> StoredLedger:
        self._writes += 1
        held = self._books[key] = StoredLedger(str(self._writes), book)
        return held
