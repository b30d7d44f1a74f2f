"""What the memory of decisions saves for pods that are alike, and costs for those that are not.

    python -m tests.benchmarks.alike

The phases decide about parsed reviews, by themselves and through the memory, in turns, one review after the other: CPU
time of each decision. No other benchmark is answered from memory: its pods have no controller.
"""

import copy
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.cluster import PRIORITY_CLASS, nodes, write_policies
from tests.benchmarks.runs import demand, head, row, sized
from webhook import engine
from webhook.admission import phases
from webhook.admission.admission_review import AdmissionRequest, parse, render
from webhook.admission.decision_cache import DecisionCache
from webhook.admission.phases import Decision
from webhook.facts.facts import ClusterFacts
from webhook.facts.inventory import load_inventory
from webhook.policy.loader import load
from webhook.policy.policy_set import PolicySet

REVIEW = Path(__file__).with_name("review-create-pod.json")
PODS, ROUNDS = sized((3000, 3), (50, 1))
PHASES = {"mutate": phases.mutate, "validate": phases.validate}


class Counted:
    """A phase that counts its decisions."""

    def __init__(self, decide: Callable[..., Decision]) -> None:
        self._decide = decide
        self.times = 0

    def __call__(self, *asked: Any) -> Decision:
        """Decide."""
        self.times += 1
        return self._decide(*asked)


def main() -> None:
    """Print a line for each phase and kind of pods: microseconds without and with the memory."""
    review = json.loads(REVIEW.read_text())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_policies(folder, 1)
        inventory = folder / "inventory.json"
        inventory.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [PRIORITY_CLASS, *nodes(100)]}))
        policies, snapshot = load(folder), load_inventory(inventory)
    head("Pods", "phase", "without, microseconds", "with, microseconds", "ratio", "ratio of the least tenth")
    for kind, made in MADE.items():
        for phase in PHASES:
            _compare(kind, phase, [made(review, number) for number in range(PODS)], policies, snapshot)


def _alike(review: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """Pods of one Job."""
    return _named(review, number)


def _alone(review: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """Pods that no controller made."""
    made = _named(review, number)
    del made["request"]["object"]["metadata"]["ownerReferences"]
    return made


def _first(review: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """The first pods of as many Jobs."""
    made = _named(review, number)
    made["request"]["object"]["metadata"]["ownerReferences"][0]["uid"] = f"uid-{number}"
    return made


def _told_apart(review: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """Pods of one Job, each of which says something else."""
    made = _named(review, number)
    made["request"]["object"]["metadata"]["annotations"]["example.com/number"] = str(number)
    return made


def _by_threes(review: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """Three pods of each Job, all of which say something else: what costs the most."""
    made = _told_apart(review, number)
    made["request"]["object"]["metadata"]["ownerReferences"][0]["uid"] = f"uid-{number // 3}"
    return made


MADE = {
    "alike, of one controller": _alike,
    "without a controller": _alone,
    "the first of its controller": _first,
    "of one controller, none like another": _told_apart,
    "three of each controller, none like another": _by_threes,
}
"""How the pods are made, by what the table calls them."""


def _named(review: Mapping[str, Any], number: int) -> dict[str, Any]:
    made = copy.deepcopy(dict(review))
    made["request"]["uid"] = f"uid-{number}"
    made["request"]["object"]["metadata"]["name"] = f"train-{number}"
    return made


def _compare(
    kind: str, phase: str, reviews: Sequence[Mapping[str, Any]], policies: PolicySet, snapshot: ClusterFacts
) -> None:
    requests = [_parsed(phase, review, policies, snapshot) for review in reviews]
    without: list[float] = []
    within: list[float] = []
    for _ in range(ROUNDS):
        decide = Counted(PHASES[phase])
        memory = DecisionCache(decide)
        for number, request in enumerate(requests):
            turns = [
                (without, lambda r=request: PHASES[phase](r, policies, snapshot, [])),
                (within, lambda r=request, m=memory: m.decision(r, (policies,), snapshot)),
            ]
            answers = [_timed(*turn) for turn in (turns if number % 2 else reversed(turns))]
            demand(answers[0] == answers[1], f"{kind}: {answers[0]!r} and {answers[1]!r} are told of one pod")
        expected = 2 if kind.startswith("alike") else len(requests)
        demand(decide.times == expected, f"{kind}: decided {decide.times} times; expected are {expected}")
    ratio = statistics.median(within) / statistics.median(without)
    least = _least(within) / _least(without)
    row(
        kind,
        phase,
        f"{statistics.median(without) * 1e6:.1f}",
        f"{statistics.median(within) * 1e6:.1f}",
        f"{ratio:.2f}",
        f"{least:.2f}",
    )


def _parsed(phase: str, review: Mapping[str, Any], policies: PolicySet, snapshot: ClusterFacts) -> AdmissionRequest:
    if phase == "validate":
        request = dict(review["request"])
        policy = policies.for_namespace(request["namespace"])
        request["object"] = engine.mutate(request["object"], policy, snapshot).object
        review = {**review, "request": request}
    return parse(json.dumps(review).encode())


def _timed(samples: list[float], decide: Callable[[], Decision]) -> bytes:
    begun = time.process_time_ns()
    decision = decide()
    samples.append((time.process_time_ns() - begun) / 1e9)
    return render("uid", decision.answer)


def _least(samples: Sequence[float]) -> float:
    """The tenth part of them that took the least, whose slowest is hardly disturbed by others."""
    return sorted(samples)[len(samples) // 10]


if __name__ == "__main__":
    main()
