"""The pods and resource claims of a file that count against quotas."""

import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from uuid import NAMESPACE_URL, uuid5

from webhook.facts.facts import ClusterFacts
from webhook.ledger.entries import reservation_key
from webhook.ledger.gpu_pods import NO_POD, StoredPod, counted_once, placed, stored_claim, stored_from_raw
from webhook.ledger.ledger_store import GpuPod
from webhook.ledger.pod_cache import PodCache, is_covered
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.claims import claims_of
from webhook.model.json_parts import mapped, part
from webhook.model.wording import cut, few
from webhook.quota.demand import looked_up

_MOST_NAMED = 20
"""Most faults of pods with a message each."""
_VALUE = re.compile(r"(?<=metadata\.uid) .*(?= is no UUID)", re.DOTALL)
"""The value of an unusable uid, which differs from pod to pod."""


class StaticPods(PodCache):
    """Implements `webhook.ledger.ledger_store.Pods` for the pods and resource claims of a file, which never change.

    Objects without a uid get one that follows from their namespace and name. A claim that Kubernetes would make for a
    pod, and that the file does not have, counts as its template in `known` says. `unreadable` is the number of pods
    that were left out because the API server would refuse them. `left_out` has a message for each of the first faults,
    and one about pods that do not count because another pod has their uid.
    """

    def __init__(
        self,
        raws: Iterable[object] = (),
        now: Callable[[], float] = time.time,
        *,
        accelerators: Accelerators = BUILT_IN,
        claims: Iterable[object] = (),
        known: ClusterFacts | None = None,
    ) -> None:
        super().__init__(now, time.monotonic)
        self.unreadable = 0
        names: dict[bytes, str] = {}
        faults: dict[str, tuple[str, list[str]]] = {}
        sharing: list[str] = []
        made: list[tuple[object, StoredPod]] = []
        for number, raw in enumerate(raws, 1):
            name = _name_of(raw) or f"number {number}"
            try:
                stored = stored_from_raw(_with_uid(raw, f"pods/{name}"), accelerators)
            except ValueError as error:
                self.unreadable += 1
                fault = _unnamed(error)
                faults.setdefault(_VALUE.sub("", fault), (fault, []))[1].append(name)
                continue
            self._members.put(stored)
            if stored.reserved:
                made.append((raw, stored))
            if stored.gpu_pod is not None:
                other = names.setdefault(stored.uid, name)
                if other != name:
                    sharing += [other, name]
                self._table.put(stored.gpu_pod, stored.ends)
        self.left_out = list(_left_out(faults.values(), list(dict.fromkeys(sharing))))
        if known is not None:
            self._put_known(_read(claims, accelerators), known)
            for raw, stored in made:
                self._put_reserved(raw, stored, known)

    def _put_known(self, claims: Iterable[GpuPod], known: ClusterFacts) -> None:
        pods = list(placed(self._table.seen(None, -math.inf), known))
        for pod in pods:
            found = self._table.get(pod.uid)
            if pod.kind is not None and found is not None:
                self._table.put(pod, found[1])
        for claim in counted_once(pods, claims, known):
            if claim.uid not in self._table:
                self._table.put(claim, math.inf)

    def _put_reserved(self, raw: object, stored: StoredPod, known: ClusterFacts) -> None:
        metadata = mapped(raw, "metadata")
        namespace, name = str(metadata.get("namespace") or "default"), str(metadata.get("name") or "")
        for named in claims_of(part(raw, "spec", "resourceClaims")):
            key = reservation_key(namespace, stored.uid, named.name)
            requests = known.claim(named, namespace) if key in stored.reserved else None
            if requests and not self._table.taken_over({key}):
                claimed = GpuPod(key, namespace, f"{name}-{named.name}", NO_POD, looked_up(requests, known))
                self._table.put(claimed, stored.ends)

    def know(self, cluster: Callable[[], object]) -> None:
        pass

    def start(self) -> None:
        pass

    def close(self) -> None:
        pass

    def is_known(self) -> bool:
        return True

    def named(self, namespace: str, name: str) -> bytes | None:  # noqa: ARG002  # a file is judged again and again
        return None

    def stored_now(self, namespace: str, name: str, seconds: float) -> bytes | None:  # noqa: ARG002  # as above
        return None

    def has_namespace(self, namespace: str, seconds: float) -> bool:  # noqa: ARG002  # a file need not say them all
        return True

    def live_now(self, namespaces: Collection[str], seconds: float) -> frozenset[bytes]:  # noqa: ARG002  # takes no time
        return frozenset(pod.uid for namespace in namespaces for pod in self.seen(namespace))

    def list_now(self, patterns: Collection[str], seconds: float) -> Iterable[GpuPod]:  # noqa: ARG002  # takes no time
        return [pod for pod in self.seen() if is_covered(pod.namespace, patterns)]


def _name_of(raw: object) -> str:
    """Namespace and name of a pod; empty where it has no name."""
    metadata = mapped(raw, "metadata")
    if not metadata.get("name"):
        return ""
    return f"{cut(str(metadata.get('namespace') or 'default'))}/{cut(str(metadata['name']))}"


def fault_of(raw: object) -> str:
    """Why the API server would refuse a pod of a file as it is stored; empty for a good pod."""
    try:
        stored_from_raw(_with_uid(raw, f"pods/{_name_of(raw)}"))
    except ValueError as error:
        return _unnamed(error)
    return ""


def _unnamed(error: ValueError) -> str:
    """What is wrong with a pod that is named elsewhere."""
    return re.sub(r"^pod \S*: ", "", str(error))


def _with_uid(raw: object, name: str) -> object:
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(metadata, dict) or metadata.get("uid"):
        return raw
    return {**raw, "metadata": {**metadata, "uid": str(uuid5(NAMESPACE_URL, name))}}


def _read(claims: Iterable[object], accelerators: Accelerators) -> Iterator[GpuPod]:
    for raw in claims:
        name = _name_of(raw)
        try:
            claim = stored_claim(_with_uid(raw, f"claims/{name}"), accelerators).gpu_pod
        except ValueError:
            continue
        if name and claim is not None:
            yield claim


def _left_out(faults: Collection[tuple[str, Sequence[str]]], sharing: Sequence[str]) -> Iterator[str]:
    """Messages about pods that do not count: one for each fault, and one about the pods that are `sharing` a uid."""
    for fault, names in islice(faults, _MOST_NAMED):
        single, several = f"pod {names[0]} does", f"{len(names)} pods ({few(names)}) do"
        example = " in the first of them" if len(names) > 1 and _VALUE.search(fault) else ""
        yield f"{single if len(names) == 1 else several} not count against quotas: {fault}{example}"
    if more := sum(len(names) for _, names in islice(faults, _MOST_NAMED, None)):
        yield f"{more} more pods do not count against quotas"
    if sharing:
        yield f"{len(sharing)} pods ({few(sharing)}) share a metadata.uid, so only the last one with each uid counts"
