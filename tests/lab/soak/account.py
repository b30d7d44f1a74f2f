"""What became of a minute of creates, in one row of figures and in the sentences of those that failed."""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.e2e.steady_load import RATE, Create, SteadyLoad


def lacking(create: Create) -> list[str]:
    """What a pod of a namespace `enforced-*` (tests/e2e/objects.py) should have been given and has not."""
    spec = create.pod["spec"]
    (container,) = spec["containers"]
    required = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    present = {
        "tolerations": any(entry.get("key") == "nvidia.com/gpu" for entry in spec["tolerations"]),
        "nodeAffinity": "example.com/pool" in str(required),
        "sharedMemory": any(mount["mountPath"] == "/dev/shm" for mount in container.get("volumeMounts", ())),
        "ncclEnv": any(variable["name"] == "NCCL_SOCKET_IFNAME" for variable in container.get("env", ())),
    }
    return [rule for rule, is_there in present.items() if not is_there]


@dataclass(slots=True)
class Account:
    """One event's creates; `lacks` names the injections that a stored pod should have and has not.

    `remark` explains the figures.
    """

    event: str
    load: SteadyLoad
    lacks: Callable[[Create], list[str]]
    remark: str = ""

    @property
    def creates(self) -> list[Create]:
        """All that have been answered by now."""
        return list(self.load.creates)

    @property
    def lost(self) -> list[str]:
        """What the API server said of allowed and of forbidden pods where our webhook was at fault."""
        return self._said(create for create in self.creates if create.is_lost_by_us)

    @property
    def lost_otherwise(self) -> list[str]:
        """The same where no webhook is named: the API server itself was away or overwhelmed."""
        return self._said(c for c in self.creates if not (c.pod or c.is_as_it_should_be or c.is_lost_by_us))

    @property
    def unjudged(self) -> list[str]:
        """Forbidden pods that were stored."""
        return [create.pod["metadata"]["name"] for create in self.creates if create.is_forbidden and create.pod]

    @property
    def incomplete(self) -> list[str]:
        """What pods that were stored lack."""
        stored = (create for create in self.creates if create.pod)
        return [f"{create.due - self.load.began:.2f}: {lack}" for create in stored for lack in self.lacks(create)]

    def demand_no_gap(self, *, api_server_away: bool = False, replicas_killed: bool = False) -> None:
        """AssertionError unless pods came at the promised rate and ended as they should, with every injection.

        Creates that were lost are allowed with `api_server_away` if no webhook is named, else with `replicas_killed`.
        """
        assert len(self.creates) >= 0.95 * RATE * (max(c.due for c in self.creates) - self.load.began)
        ours = [] if replicas_killed else self.lost
        others = [] if api_server_away else self.lost_otherwise
        found = {"lost by us": ours, "unjudged": self.unjudged, "lost": others, "incomplete": self.incomplete}
        gaps = [f"{len(what)} {kind}, such as {list(what)[:5]}" for kind, what in found.items() if what]
        assert not gaps, "\n".join(gaps)

    @property
    def row(self) -> str:
        """The figures, as a row of the table in docs/performance.md."""
        seconds = [create.seconds for create in self.creates if create.is_as_it_should_be]
        *_, p99 = cuts = statistics.quantiles(seconds, n=100)
        times = " / ".join(f"{1000 * value:.0f}" for value in (cuts[49], p99, max(seconds)))
        cells = (self.event + self.remark, len(self.creates), len(self.lost), len(self.lost_otherwise), times)
        return "| " + " | ".join(map(str, (*cells, len(self.incomplete) + len(self.unjudged)))) + " |"

    def _said(self, creates: Iterable[Create]) -> list[str]:
        """The messages of creates, each with the second of the load in which it was due."""
        return [f"{create.due - self.load.began:.2f}: {create.status} {create.said}" for create in creates]


HEAD = """\
| Event | creates | lost by us | API server away | p50 / p99 / max, ms | admitted incomplete |
|---|---|---|---|---|---|"""
