"""Warned pods that wait: each warning once an hour, a bounded number, and no namespace that keeps others waiting."""

import time
from dataclasses import dataclass, field

import pytest

from tests.replica.quota_cluster import Clock
from webhook.admission.warned_pods import RuleWarning, WarnedPod
from webhook.replica.warning_queue import SETTLE_SECONDS, Allowance, WarningQueue


@dataclass
class Hour:
    """The number of an hour that moves when told to."""

    number: int = 0

    def __call__(self) -> int:
        return self.number


@dataclass
class Heard:
    """A decision about a pod; counts how often its texts were made."""

    namespace: str = "team"
    controller: str = "a"
    rules: tuple[str, ...] = ("gpuLimits",)
    may_lack: bool = False
    made: list[str] = field(default_factory=list)

    def pod(self) -> WarnedPod:
        """The pod with its warnings."""
        self.made.append(self.controller)
        warnings = {rule: RuleWarning("text") for rule in self.rules}
        return WarnedPod(self.namespace, "pod", "uid", self.controller, "team", warnings, self.may_lack)


class Waiting:
    """A queue with its clocks."""

    def __init__(self, most: int = 4) -> None:
        self.clock, self.hour = Clock(), Hour()
        self.queue = WarningQueue(self.hour, self.clock, most)

    def add(self, *heard: Heard) -> int:
        """Add all of them; returns how many pods were dropped."""
        return sum(self.queue.add(one) for one in heard)  # type: ignore[arg-type,misc]  # all that the queue asks

    def all(self) -> list[tuple[str, str]]:
        """Namespace and controller of each pod, as they come out after the time to settle."""
        self.clock.now += SETTLE_SECONDS
        return [(pod.namespace, pod.controller) for pod in iter(self.queue.take, None)]


def test_a_pod_waits_until_the_api_server_has_stored_it() -> None:
    waiting = Waiting()
    waiting.add(Heard())
    assert waiting.queue.take() is None
    assert waiting.all() == [("team", "a")]


def test_ten_thousand_pods_of_one_controller_are_one_and_their_texts_are_made_once() -> None:
    waiting, heard = Waiting(), Heard()
    assert waiting.add(*[heard] * 10_000) == 0
    assert (len(waiting.queue), len(heard.made)) == (1, 1)
    assert waiting.all() == [("team", "a")]


@pytest.mark.parametrize(
    ("other", "waits"),
    [
        pytest.param(Heard(), False, id="the same"),
        pytest.param(Heard(controller="b"), True, id="another controller"),
        pytest.param(Heard(namespace="other"), True, id="another namespace with the same uid"),
        pytest.param(Heard(rules=("gpuLimits", "sharedMemory")), True, id="another rule"),
        pytest.param(Heard(may_lack=True), True, id="one whose injections nobody asked for"),
    ],
)
def test_what_was_told_in_this_hour_does_not_wait_again(other: Heard, *, waits: bool) -> None:
    waiting = Waiting()
    waiting.add(Heard())
    waiting.all()
    waiting.add(other)
    assert len(waiting.queue) == waits


@pytest.mark.parametrize("hours", [pytest.param(1, id="later"), pytest.param(-5, id="after the clock was set back")])
def test_in_another_hour_it_waits_again(hours: int) -> None:
    waiting = Waiting()
    waiting.add(Heard())
    waiting.all()
    waiting.hour.number += hours
    waiting.add(Heard())
    assert len(waiting.queue) == 1


def test_what_is_forgotten_waits_again() -> None:
    waiting = Waiting()
    waiting.add(Heard(may_lack=True))
    waiting.clock.now += SETTLE_SECONDS
    pod = waiting.queue.take()
    assert pod is not None
    waiting.queue.forget(pod)
    waiting.add(Heard(may_lack=True))
    assert len(waiting.queue) == 1


def test_a_warning_of_an_injection_is_claimed_once() -> None:
    waiting = Waiting()
    pod = Heard(rules=(), may_lack=True).pod()
    assert [waiting.queue.claim(pod, "sharedMemory") for _ in range(2)] == [True, False]
    waiting.queue.forget(pod, ["sharedMemory"])
    assert waiting.queue.claim(pod, "sharedMemory")


def test_A59_a_storm_in_one_namespace_costs_no_other_namespace_its_turn() -> None:
    """The storm loses its own pods: to others, and what comes after the queue is full."""
    waiting = Waiting(most=4)
    storm = [Heard("storm", str(number)) for number in range(1000)]
    assert waiting.add(*storm) == 996
    assert waiting.add(Heard("quiet", "q"), Heard("calm", "c")) == 2
    assert waiting.all() == [("storm", "0"), ("quiet", "q"), ("calm", "c"), ("storm", "1")]
    assert waiting.add(storm[3]) == 0, "what was dropped is not told, so it may wait again"
    assert waiting.all() == [("storm", "3")]


def test_the_texts_of_what_is_dropped_are_not_made() -> None:
    waiting, late = Waiting(most=2), Heard("storm", "late")
    waiting.add(Heard("storm", "0"), Heard("storm", "1"), late)
    assert late.made == []


def test_namespaces_take_turns() -> None:
    waiting = Waiting(most=9)
    waiting.add(*[Heard(namespace, str(number)) for namespace in ("a", "b") for number in range(2)])
    assert waiting.all() == [("a", "0"), ("b", "0"), ("a", "1"), ("b", "1")]


def test_an_act_is_allowed_so_often_in_any_minute() -> None:
    clock = Clock()
    allowance = Allowance(20, 60.0, clock)
    acts: list[float] = []
    for _ in range(4000):
        clock.now += 0.1
        if allowance.take():
            acts.append(clock.now)
    assert len(acts) == 20 * 7
    assert all(later - earlier >= 60 for earlier, later in zip(acts, acts[20:], strict=False))


def test_a_queue_counts_what_it_holds() -> None:
    waiting = WarningQueue(Hour(), time.monotonic)
    assert (len(waiting), waiting.take()) == (0, None)
