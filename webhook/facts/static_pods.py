"""The GPU pods of an inventory, which never change."""

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from uuid import NAMESPACE_URL, uuid5

from webhook.facts.gpu_pods import stored_from_raw
from webhook.facts.pod_cache import PodTable, is_covered
from webhook.ledger.ledger_store import GpuPod
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.wording import cut
from webhook.model.workloads.parts import mapped

_MOST_TOLD = 20
"""Pods that are named one by one."""


class StaticPods:
    """Implements `webhook.ledger.ledger_store.Pods` for pods as a file describes them.

    Those that somebody wrote down without a uid get one that follows from their namespace and name. `unreadable` counts
    those that were left out because the API server would refuse them. `left_out` names the first of them and says why;
    also those of which one does not count, because they have the same uid.
    """

    def __init__(
        self,
        raws: Iterable[object] = (),
        now: Callable[[], float] = time.time,
        *,
        accelerators: Accelerators = BUILT_IN,
    ) -> None:
        self._table = PodTable()
        self._now = now
        self.unreadable = 0
        self.left_out: list[str] = []
        names: dict[bytes, str] = {}
        for number, raw in enumerate(raws, 1):
            name = _name_of(raw) or f"number {number}"
            try:
                stored = stored_from_raw(_with_uid(raw, name), accelerators)
            except ValueError as error:
                self.unreadable += 1
                reason = re.sub(r"^pod \S*: ", "", str(error))  # it is named before
                self._tell(f"pod {name} does not count against quotas: {reason}")
                continue
            if stored.seen is not None:
                other = names.setdefault(stored.uid, name)
                if other != name:
                    self._tell(f"pods {other} and {name} have one metadata.uid, so only the last one counts")
                self._table.put(stored.seen, stored.ends)

    def _tell(self, what: str) -> None:
        if len(self.left_out) < _MOST_TOLD:
            self.left_out.append(what)

    def listen(self, gone: Callable[[], None]) -> None:
        """Nobody hears of anything: pods in a file do not go."""

    def start(self) -> None:
        """Nothing to begin."""

    def close(self) -> None:
        """Nothing to end."""

    def is_known(self) -> bool:
        """Always."""
        return True

    def live_among(self, uids: Set[bytes]) -> Set[bytes]:
        """Those of the pods that the file has and that count."""
        return self._table.counting(uids, self._now())

    def gone_among(self, uids: Set[bytes]) -> Set[bytes]:
        """Those that the file has, and that do not count."""
        return self._table.ended(uids, self._now())

    def has_any_in(self, namespace: str) -> bool:
        """Whether the file has a pod in a namespace."""
        return self._table.has_any_in(namespace)

    def seen(self, namespace: str | None = None) -> Iterable[GpuPod]:
        """The pods that count."""
        return self._table.seen(namespace, self._now())

    def named(self, namespace: str, name: str) -> bytes | None:  # noqa: ARG002  # a file is judged again and again
        """None: the pods of a file stand in nobody's way."""
        return None

    def stored_now(self, namespace: str, name: str, seconds: float) -> bytes | None:  # noqa: ARG002  # as above
        """None, as above."""
        return None

    def full_quota(self, namespace: str, gpus: Mapping[str, int], seconds: float) -> str:  # noqa: ARG002  # as above
        """None, as above."""
        return ""

    def has_namespace(self, namespace: str, seconds: float) -> bool:  # noqa: ARG002  # a file need not say them all
        """Always."""
        return True

    def live_now(self, namespaces: Collection[str], seconds: float) -> frozenset[bytes]:  # noqa: ARG002  # takes no time
        """The uids of the GPU pods that count in these namespaces."""
        return frozenset(pod.uid for namespace in namespaces for pod in self.seen(namespace))

    def list_now(self, patterns: Collection[str], seconds: float) -> Iterable[GpuPod]:  # noqa: ARG002  # takes no time
        """The GPU pods that count in these namespaces."""
        return [pod for pod in self.seen() if is_covered(pod.namespace, patterns)]


def _name_of(raw: object) -> str:
    """Namespace and name of a pod; empty of one without a name."""
    metadata = mapped(raw, "metadata")
    if not metadata.get("name"):
        return ""
    return f"{cut(str(metadata.get('namespace') or 'default'))}/{cut(str(metadata['name']))}"


def _with_uid(raw: object, name: str) -> object:
    """The pod with a uid that follows from this name, where it has none."""
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(metadata, dict) or metadata.get("uid"):
        return raw
    return {**raw, "metadata": {**metadata, "uid": str(uuid5(NAMESPACE_URL, f"pods/{name}"))}}
