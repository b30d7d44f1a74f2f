"""Where facts come from, and how far they can be trusted: one small interface for a file and for the live cluster."""

from dataclasses import dataclass
from typing import Protocol

from webhook.facts.facts import ClusterFacts
from webhook.model.wording import counted


@dataclass(frozen=True, slots=True)
class FactsStatus:
    """How far the facts can be trusted at one moment.

    `loaded`: every list has been read once. `stale`: the API server has been answering for longer than the bound while
    the facts were not followed, so the fault is on this side. `age_seconds`: for how long the oldest part of the facts
    has not been confirmed; a healthy watch is heard about once a minute. `server_reachable`: the API server answers
    HTTP, whatever it says. `detail` is for people.
    """

    loaded: bool
    stale: bool
    age_seconds: float
    server_reachable: bool
    detail: str

    @property
    def ready(self) -> bool:
        """Whether reviews may be answered: also on the last known facts while the API server itself is away."""
        return self.loaded and not self.stale


class FactsSource(Protocol):
    """Facts that may change. `start` is called once, after the process has forked; `close` ends all it began."""

    @property
    def facts(self) -> ClusterFacts | None:
        """What is known at this moment, None until the cluster has been read."""
        ...

    def status(self, now: float) -> FactsStatus:
        """How far the facts can be trusted at `now`, in seconds of time.monotonic()."""
        ...

    def start(self) -> None:
        """Begin to follow the cluster, in threads of its own."""
        ...

    def close(self) -> None:
        """Stop following, within 2 seconds; the facts stay."""
        ...


class StaticFacts:
    """Facts that never change, such as those of an inventory file."""

    def __init__(self, facts: ClusterFacts, origin: str = "inventory") -> None:
        self._facts = facts
        nodes, classes = len(facts.cluster.nodes), len(facts.cluster.runtime_classes)
        self._detail = f"{origin}: {counted(nodes, 'node')}, {counted(classes, 'runtime class', 'runtime classes')}"

    @property
    def facts(self) -> ClusterFacts:
        """The facts that were given."""
        return self._facts

    def status(self, now: float) -> FactsStatus:  # noqa: ARG002  # the age of a file's facts is 0 at any time
        """Always loaded and never stale: nobody promised that a file follows the cluster."""
        return FactsStatus(True, False, 0.0, True, self._detail)

    def start(self) -> None:
        """Nothing to begin."""

    def close(self) -> None:
        """Nothing to end."""
