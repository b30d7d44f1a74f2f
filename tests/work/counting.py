"""The work that the engine does for a dozen objects, counted: calls of functions, and bytes of memory at the most.

Counts are the same on a slow machine and on a busy one. They depend on the version of Python and on the order of sets,
so they are taken by a process of its own with PYTHONHASHSEED=0. Each object is judged twice before its work is counted:
what is done once for all objects is left out.
"""

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tests import quick_yaml
from tests.audit.audits import audited
from tests.corpus import facts_of
from webhook import engine
from webhook.facts.facts import ClusterFacts
from webhook.model.workloads import is_pod
from webhook.policy.loader import load
from webhook.policy.policy_set import Policy
from webhook.rules import RULES

SUBJECTS = Path(__file__).with_name("subjects.yaml")
COUNTS = Path(__file__).with_name("counts.json")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
MOST_GROWTH = 1.03
"""What a count may be, against the one that is written down."""
_CALLS = ("call", "c_call")
_PHASES = ("mutate", "validate", "workloads")


class Work(NamedTuple):
    """What one call costs: calls of functions in Python and in C below it, and its memory at the most, in bytes."""

    calls: int
    bytes: int


class Task(NamedTuple):
    """One thing that is asked of the engine: the phase, what it is asked about, and the question."""

    phase: str
    subject: str
    ask: Callable[[Policy], object]


def measured() -> dict[str, Any]:
    """All counts: those of each phase and object, and those that each rule adds to a phase, over all objects."""
    policies = load(Path(__file__).parents[2] / "policies")
    policy, facts = policies.for_namespace("team-b"), facts_of("mixed")
    tasks = list(_tasks(policy, facts))
    objects = quick_yaml.load_all(SUBJECTS.read_text())
    whole = {f"{task.phase} {task.subject}": _work(lambda t=task: t.ask(policy)) for task in tasks}
    whole["audit all"] = _work(lambda: audited(*objects, using=policies, facts=facts))
    return {
        "python": PYTHON,
        "objects": {name: work._asdict() for name, work in whole.items()},
        "rules": {phase: _of_rules([task for task in tasks if task.phase == phase], policy) for phase in _PHASES},
    }


def grown(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """A line for each count that has grown by more than 3 %, or that is counted for the first time, rules first."""
    return [
        f"{name}: {old} -> {new}" if old is not None else f"{name}: {new}, not counted so far"
        for name, new in _named(after).items()
        if (old := _named(before).get(name)) is None or new > old * MOST_GROWTH
    ]


def _named(counts: Mapping[str, Any]) -> dict[str, int]:
    rules = {
        f"calls of the rule {rule} in {phase}": calls
        for phase, of_rules in counts["rules"].items()
        for rule, calls in of_rules.items()
    }
    return rules | {f"{unit} of {name}": n for name, work in counts["objects"].items() for unit, n in work.items()}


def _tasks(policy: Policy, facts: ClusterFacts) -> Iterator[Task]:
    for raw in quick_yaml.load_all(SUBJECTS.read_text()):
        name = raw["metadata"]["name"]
        if is_pod(raw["apiVersion"], raw["kind"]):
            completed = engine.mutate(raw, policy, facts).object
            yield Task("mutate", name, lambda p, it=raw: engine.mutate(it, p, facts))
            yield Task("validate", name, lambda p, it=completed: engine.validate(it, p, facts))
        else:
            yield Task("workloads", name, lambda p, it=raw: engine.validate_workload(it, "team-b", p, facts))


def _of_rules(tasks: list[Task], policy: Policy) -> dict[str, int]:
    """Calls that each rule adds to what a policy without rules makes of these tasks."""
    none = _calls_of(tasks, replace(policy, rules=()))
    bound = {one.rule.key: one for one in policy.rules}
    alone = {rule.key: replace(policy, rules=(bound[rule.key],)) for rule in RULES if rule.key in bound}
    return {key: _calls_of(tasks, one) - none for key, one in alone.items()}


def _calls_of(tasks: list[Task], policy: Policy) -> int:
    return sum(_counted(lambda t=task: t.ask(policy)) for task in tasks)


def _work(ask: Callable[[], object]) -> Work:
    return Work(_counted(ask), _peak(ask))


def _counted(ask: Callable[[], object]) -> int:
    calls = 0
    for _ in range(2):
        ask()

    def seen(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in _CALLS

    gc.disable()
    sys.setprofile(seen)
    try:
        ask()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


def _peak(ask: Callable[[], object]) -> int:
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        ask()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()
