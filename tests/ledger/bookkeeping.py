"""Ledgers whose clock, store, pods and observer are controlled by tests."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from uuid import UUID

from tests.clock import Clock
from tests.ledger.small_cluster import LateView, Truth
from webhook.ledger.context import LedgerContext, LedgerTiming
from webhook.ledger.entries import Entries
from webhook.ledger.group_reader import GroupReader
from webhook.ledger.ledger_store import GpuPod, LedgerError, MemoryStore, StoredLedger
from webhook.ledger.ledgers import Ledgers
from webhook.ledger.verdicts import Exceeded, PendingEntry, QuotaRequest, Verdict
from webhook.quota.quotas import Demand, Excess, Limit, Measure, Quota, QuotaScope

IN_FLIGHT = 90.0
SECONDS = 5.0
"""Seconds that a pending entry may take, unless a test says otherwise."""
PATIENCE = 60.0
"""Seconds after which a test gives up; nothing that works takes so long."""


def gpus(hard: int) -> Limit:
    """A limit of this many GPUs of every kind."""
    return Limit(Measure.GPUS, "", Fraction(hard))


def of_namespace(hard: int, namespace: str = "vision") -> Quota:
    """The quota of one namespace."""
    return Quota(QuotaScope.NAMESPACE, namespace, (namespace,), (gpus(hard),))


def shared_quota(hard: int, *patterns: str, name: str = "shared") -> Quota:
    """A quota that these namespaces share."""
    return Quota(QuotaScope.SHARED, name, patterns, (gpus(hard),))


def uid(number: int) -> bytes:
    """The uid of a pod, as `small_cluster.seen_pod` gives it."""
    return UUID(int=number).bytes


def demand(count: int = 1, namespace: str = "vision", resource: str = "nvidia.com/gpu") -> Demand:
    """The demand of a pod for this many GPUs, or parts of GPUs."""
    return Demand(namespace, ((resource, count),))


def exceeded(asks: int, used: int, hard: int = 4) -> Exceeded:
    """The verdict that a quota of `hard` GPUs is exceeded."""
    return Exceeded((Excess(gpus(hard), Fraction(asks), Fraction(used)),))


def eventually(holds: Callable[[], bool]) -> None:
    """Return as soon as `holds` is true; AssertionError where that never happens."""
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.001)


def at_once(*works: Callable[[], object]) -> list[threading.Thread]:
    """A started thread for each of the works."""
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    return threads


def joined(threads: Iterable[threading.Thread]) -> None:
    """Return when all have ended."""
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


class Told:
    """`webhook.ledger.context.Observer` that counts what it is told."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def reserved(self, key: str, seconds: float) -> None:  # noqa: ARG002  # the protocol
        self.counts[f"reserved {key}"] += 1

    def looked_up(self, seconds: float) -> None:  # noqa: ARG002  # as above
        self.counts["looked up"] += 1

    def conflicted(self, key: str) -> None:
        self.counts[f"conflicted {key}"] += 1

    def repaired(self) -> None:
        self.counts["repaired"] += 1

    def failed(self, key: str) -> None:
        self.counts[f"failed {key}"] += 1

    def refused(self, key: str) -> None:
        self.counts[f"refused {key}"] += 1


class Watched(MemoryStore):
    """A store that records its calls. `before` is called first; then each LedgerError in `faults` ends one call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.faults: list[LedgerError] = []
        self.before: Callable[[str], None] = lambda _: None

    def _called(self, call: str) -> None:
        self.calls.append(call)
        self.before(call)
        if self.faults:
            raise self.faults.pop(0)

    def read(self, key: str, seconds: float) -> StoredLedger | None:
        self._called(f"read {key}")
        return super().read(key, seconds)

    def read_all(self, seconds: float) -> dict[str, StoredLedger]:
        self._called("read all")
        return super().read_all(seconds)

    def create(self, key: str, entries: Entries, seconds: float) -> StoredLedger:
        self._called(f"create {key}")
        return super().create(key, entries, seconds)

    def replace(self, key: str, entries: Entries, over: StoredLedger, seconds: float) -> StoredLedger:
        self._called(f"replace {key}")
        return super().replace(key, entries, over, seconds)

    def remove(self, key: str, over: StoredLedger, seconds: float) -> None:
        self._called(f"remove {key}")
        super().remove(key, over, seconds)

    def break_down(self, key: str) -> None:
        """Have a ledger stored that cannot be decoded, as a store reads it."""
        with self._lock:
            before = self._ledgers[key].entries
            self._ledgers[key] = replace(self._keep(key, Entries(before.by_uid)), damage="it is broken")


class View(LateView):
    """The pods as a replica knows them. Lists are recorded; `before_list` is called before each, `fault` ends each."""

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self.lists: list[str] = []
        self.seconds: list[float] = []
        """Seconds that each list of uids might take."""
        self.fault: LedgerError | None = None
        self.before_list: Callable[[], None] = lambda: None
        self.known = True

    def is_known(self) -> bool:
        return self.known

    def live_now(self, namespaces: Collection[str], seconds: float) -> frozenset[bytes]:
        self.seconds.append(seconds)
        self._listed("live", namespaces)
        return super().live_now(namespaces, seconds)

    def list_now(self, patterns: Collection[str], seconds: float) -> list[GpuPod]:
        self._listed("all", patterns)
        return super().list_now(patterns, seconds)

    def _listed(self, what: str, names: Iterable[str]) -> None:
        self.lists.append(f"{what} {','.join(sorted(names))}")
        self.before_list()
        if self.fault is not None:
            raise self.fault


@dataclass
class Replica:
    """The ledgers of one replica. Several of them share what is stored, and the clock."""

    truth: Truth = field(default_factory=Truth)
    store: Watched = field(default_factory=Watched)
    clock: Clock = field(default_factory=Clock)
    timing: LedgerTiming = field(default_factory=lambda: LedgerTiming(in_flight=IN_FLIGHT, longest_pause=0.0))
    is_bounded: bool = False
    groups: GroupReader | None = None

    def __post_init__(self) -> None:
        self.view = View(self.truth)
        self.told = Told()
        context = LedgerContext(
            self.store,
            self.view,
            self.timing,
            self.told,
            self.clock,
            is_bounded=self.is_bounded,
            groups=self.groups,
            wall=self.clock,
        )
        self.ledgers = Ledgers(context)

    def another(self) -> "Replica":
        """One more replica of the same cluster."""
        return Replica(self.truth, self.store, self.clock, self.timing, self.is_bounded)

    def ask(self, pod: int, *claims: QuotaRequest, is_dry_run: bool = False) -> tuple[Verdict, ...]:
        """Have a pod entered."""
        return self.ledgers.reserve(uid(pod), claims, self.clock() + SECONDS, is_dry_run=is_dry_run)

    def enter(self, pod: int, quota: Quota, count: int = 1, *, enforced: bool = True) -> Verdict:
        """Have a pod of the first namespace of a quota entered there."""
        return self.ask(pod, QuotaRequest(quota, demand(count, quota.patterns[0]), enforced))[0]

    def pending(self, pod: int, quota: Quota, count: int = 1) -> PendingEntry:
        """A pending entry for a pod of the first namespace of a quota, not asked yet."""
        return PendingEntry(uid(pod), QuotaRequest(quota, demand(count, quota.patterns[0])), self.clock() + SECONDS)

    def entered(self, quota: Quota) -> set[int]:
        """The pods in the stored ledger of a quota."""
        held = MemoryStore.read(self.store, quota.key, SECONDS)
        return set() if held is None else {UUID(bytes=one).int for one in held.entries.by_uid}
