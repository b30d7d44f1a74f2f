"""Where ledgers are stored, and what ledgers ask the cluster about pods: two small interfaces.

`MemoryStore` keeps the ledgers of one process, for inventories.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from threading import Lock
from typing import Protocol

from webhook.gpus.gpu_shares import share_of
from webhook.kubernetes.api_errors import ConflictError
from webhook.ledger.entries import Entries
from webhook.model.claims import Requests
from webhook.model.node import NodeClass
from webhook.model.pod import Pod
from webhook.model.subject import Member
from webhook.quota.amounts import parts_on, without_part
from webhook.quota.demand import claim_demand, demand_of
from webhook.quota.quotas import Counting, Demand, Gated, Nodes


class LedgerError(Exception):
    """A ledger cannot be read or written now; the text says why. A write may have been done or not.

    `for_authors` is the text for authors of pods: it has no paths and commands of the platform. `code` is the HTTP
    status to answer with: 503 where trying again may help, else 500.
    """

    def __init__(self, text: str, for_authors: str = "", code: int = 503) -> None:
        super().__init__(text)
        self.for_authors = for_authors or text
        self.code = code


@dataclass(frozen=True, slots=True)
class StoredLedger:
    """A ledger as it was last read or written. Versions come from the store, and have no order.

    `damage` says why what is stored cannot be used as it is; the next write replaces it. Where entries cannot be
    decoded, `entries` are the last known ones, and cover no namespace: so all pods are listed anew.
    """

    version: str
    entries: Entries
    damage: str = ""


class LedgerStore(Protocol):
    """Stores one ledger for each quota. Reads are consistent; a write succeeds only over what was read last.

    Each call ends within `seconds`. All raise LedgerError.
    """

    def read(self, key: str, seconds: float) -> StoredLedger | None:
        """The ledger as it is now; None where there is none."""
        ...

    def read_all(self, seconds: float) -> Mapping[str, StoredLedger]:
        """Key -> ledger as it is now."""
        ...

    def create(self, key: str, entries: Entries, seconds: float) -> StoredLedger:
        """Create a ledger. Raises ConflictError where there is one already."""
        ...

    def replace(self, key: str, entries: Entries, over: StoredLedger, seconds: float) -> StoredLedger:
        """Write entries over the ledger that was read. Raises ConflictError where it has changed since."""
        ...

    def remove(self, key: str, over: StoredLedger, seconds: float) -> None:
        """Remove the ledger that was read. Raises ConflictError where it has changed since."""
        ...


@dataclass(frozen=True, slots=True)
class GpuPod:
    """A pod or a resource claim that requests GPUs, as the API server has it. `uid` has the 16 bytes of metadata.uid.

    `pod` has the parts of a pod that decide on its demand: GPUs, node selector, required node affinity. `requests` are
    the device requests of a claim, with the extended resources of their DeviceClasses; empty for a pod.

    `takes_over` is the key of the reservation that a claim takes over. `extends` is the uid of the pod for which the
    scheduler made the claim, for its extended resources. Both are empty for others.

    `node` is the name of the node that a pod is on; empty for none. `kind` is the class of that node, if it is known.
    `is_gated` says that the pod has scheduling gates.
    `makers` are kind and name of what made a pod: of its controller, and of what made that.
    """

    uid: bytes
    namespace: str
    name: str
    pod: Pod
    requests: Requests = ()
    takes_over: bytes = b""
    extends: bytes = b""
    node: str = ""
    kind: NodeClass | None = None
    is_gated: bool = False
    makers: tuple[Member, ...] = ()

    @property
    def called(self) -> str:
        """The name for people, which tells claims from pods."""
        return f"claim {self.name}" if self.requests or self.extends else self.name


class Pods(Protocol):
    """The pods and resource claims that count: no pod that is Succeeded, Failed or past its deletion.

    Keys of reservations (`webhook.ledger.entries.reservation_key`) are uids as well: they count as long as their pod
    does, and are gone once their claim is stored.

    Methods with `seconds` are consistent reads. All others answer at once from what was last seen, which may be old.
    """

    def is_known(self) -> bool:
        """Whether all pods were listed once, and are watched."""
        ...

    def live_among(self, uids: Set[bytes]) -> Set[bytes]:
        """The uids of pods that counted when they were last seen."""
        ...

    def gone_among(self, uids: Set[bytes]) -> Set[bytes]:
        """The uids of pods that were stored once and no longer count. They never count again."""
        ...

    def gated_among(self, uids: Set[bytes]) -> Set[bytes]:
        """The uids of pods that had scheduling gates when they were last seen."""
        ...

    def seen(self, namespace: str | None = None) -> Iterable[GpuPod]:
        """The pods of one namespace, or of all, that counted when they were last seen."""
        ...

    def named(self, namespace: str, name: str) -> bytes | None:
        """The uid of the GPU pod of this name that counted when it was last seen; None where there is none."""
        ...

    def stored_now(self, namespace: str, name: str, seconds: float) -> bytes | None:
        """The uid of the pod of this name, finished or not, with or without GPUs; None where there is none.

        It is read after the call began. Raises LedgerError.
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
        """The GPU pods that count in namespaces with these names and globs, read after the call began.

        Raises LedgerError, also while the pods are being read.
        """
        ...


def demands_of(pods: Sequence[GpuPod], counting: Counting) -> dict[bytes, Demand]:
    """Uid -> demand of each pod that gets an entry. The demand of equal pods is made once."""
    known: dict[tuple[str, int, int, int, bool], Demand | None] = {}
    found: dict[bytes, Demand] = {}
    for seen in pods:
        kind = seen.namespace, id(seen.pod), id(seen.requests), id(seen.kind), seen.is_gated
        if kind not in known:
            known[kind] = entered_demand(seen, counting)
        demand = known[kind]
        if demand is not None:
            found[seen.uid] = demand
    return found


def entered_demand(seen: GpuPod, counting: Counting) -> Demand | None:
    """The demand of the entry for a pod or claim.

    None where it requests no GPU, would take too much room, or is gated and counts later.
    """
    return None if seen.is_gated and counting.gated is Gated.LATER else demand_of_stored(seen, counting)


def demand_of_stored(seen: GpuPod, counting: Counting) -> Demand | None:
    """As `entered_demand`, also of a pod that is gated."""
    if seen.requests:
        demand = claim_demand(seen.requests, seen.namespace, counting)
    elif seen.kind is None:
        demand = demand_of(seen.pod, seen.namespace, counting)
    else:
        labels = [seen.kind.labels]
        parts = parts_on(labels, counting.catalogue.table)
        demand = demand_of(seen.pod, seen.namespace, counting, parts, Nodes(labels, is_bound=True))
    return None if demand is None or demand.is_too_large else demand


def gated_demands(pods: Iterable[GpuPod], counting: Counting) -> Mapping[Demand, int]:
    """What gated pods will request once they start: demand -> how many pods. Empty where gated pods count at once."""
    if counting.gated is Gated.NOW:
        return {}
    demands = (demand_of_stored(pod, counting) for pod in pods if pod.is_gated)
    return Counter(demand for demand in demands if demand is not None)


def recounted(
    entries: Entries, pods: Sequence[GpuPod], demands: Mapping[bytes, Demand], counting: Counting
) -> dict[bytes, Demand]:
    """Uid -> demand of the entries that count otherwise by now. Pods alike are compared once; `demands` are theirs now.

    A pod counts what was known when it was created until it is on a node whose labels say what its GPUs are; from then
    on it counts these. Parts of GPUs that it asked for itself stay, because annotations can change. A claim goes on to
    count what it counted. Names of resources and models that today's policies no longer use are replaced.
    """
    known: dict[tuple[int, int], Demand | None] = {}
    changes: dict[bytes, Demand] = {}
    for pod in pods:
        entered, now = entries.by_uid.get(pod.uid), demands.get(pod.uid)
        if entered is None or now is None:
            continue
        pair = id(entered), id(now)
        if pair not in known:
            now = replace(now, gpus=entered.gpus) if pod.pod.fractions else now
            labels = None if pod.kind is None else pod.kind.labels
            says_its_gpus = labels is not None and (
                counting.catalogue.models_at(labels) or share_of(labels, counting.catalogue.table).is_known
            )
            is_due = says_its_gpus or _is_outdated(entered, now, counting)
            known[pair] = now if is_due and now != entered else None
        if (change := known[pair]) is not None:
            changes[pod.uid] = change
    return changes


def _is_outdated(entered: Demand, now: Demand, counting: Counting) -> bool:
    """Whether an entry has names that an earlier policy gave to resources or models."""
    if bool(entered.requests) != bool(now.requests):
        return False  # a claim that stands for a pod
    models = entered.models or ()
    return not _resources(now) <= _resources(entered) or not counting.catalogue.every_model.issuperset(models)


def _resources(demand: Demand) -> set[str]:
    """The names of its resources, whatever part of a GPU their units are."""
    names = [name for name, _ in demand.gpus] + [one.resource for request in demand.requests for one in request]
    return {without_part(name)[0] for name in names}


def by_namespace(pods: Iterable[GpuPod]) -> dict[str, list[GpuPod]]:
    """The pods of each namespace."""
    found: dict[str, list[GpuPod]] = {}
    for pod in pods:
        found.setdefault(pod.namespace, []).append(pod)
    return found


class MemoryStore:
    """`LedgerStore` in memory. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ledgers: dict[str, StoredLedger] = {}
        self._writes = 0

    def read(self, key: str, seconds: float) -> StoredLedger | None:  # noqa: ARG002  # nothing takes time here
        return self._ledgers.get(key)

    def read_all(self, seconds: float) -> dict[str, StoredLedger]:  # noqa: ARG002  # as above
        return dict(self._ledgers)

    def create(self, key: str, entries: Entries, seconds: float) -> StoredLedger:  # noqa: ARG002  # as above
        with self._lock:
            if key in self._ledgers:
                raise ConflictError
            return self._keep(key, entries)

    def replace(self, key: str, entries: Entries, over: StoredLedger, seconds: float) -> StoredLedger:  # noqa: ARG002  # as above
        with self._lock:
            self._check(key, over)
            return self._keep(key, entries)

    def remove(self, key: str, over: StoredLedger, seconds: float) -> None:  # noqa: ARG002  # as above
        with self._lock:
            self._check(key, over)
            del self._ledgers[key]

    def _check(self, key: str, over: StoredLedger) -> None:
        held = self._ledgers.get(key)
        if held is None or held.version != over.version:
            raise ConflictError

    def _keep(self, key: str, entries: Entries) -> StoredLedger:
        self._writes += 1
        held = self._ledgers[key] = StoredLedger(str(self._writes), entries)
        return held
