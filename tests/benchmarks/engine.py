"""What the engine alone costs per pod, against the number of policies and nodes.

    python -m tests.benchmarks.engine

Rounds are interleaved, so that a machine that changes its speed changes it for all; medians are printed.
"""

import json
import statistics
import tempfile
import time
import timeit
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks.cluster import nodes, write_policies
from tests.benchmarks.rule_pods import PRIORITY_CLASS, rule_pods
from webhook import engine
from webhook.cluster.inventory import load_inventory
from webhook.model.pod import pod_from_raw
from webhook.policy.loader import load
from webhook.policy.policy_set import Policy
from webhook.rules import RULES
from webhook.rules.rule import Facts, Rule, RuleSettings

REVIEW = Path(__file__).with_name("review-create-pod.json")
SIZES = [(1, 10), (100, 10), (1000, 10), (1, 1000), (1, 5000), (1000, 5000)]
"""Policy files besides the default, and nodes."""
ROUNDS, CALLS = 15, 300


def main() -> None:
    """Print one line for each size: microseconds of both phases."""
    raw = json.loads(REVIEW.read_text())["request"]["object"]
    with tempfile.TemporaryDirectory() as directory:
        cases = {size: _case(Path(directory), *size) for size in SIZES}
        samples = {size: ([], []) for size in SIZES}  # type: dict[tuple[int, int], tuple[list[float], list[float]]]
        for _ in range(ROUNDS):
            for size, (policy, facts) in cases.items():
                completed = engine.complete(raw, policy, facts).object
                samples[size][0].append(_microseconds(lambda p=policy, f=facts: engine.complete(raw, p, f)))
                samples[size][1].append(_microseconds(lambda c=completed, p=policy, f=facts: engine.judge(c, p, f)))
    print(f"{'policies':>8} {'nodes':>6} {'mutate us':>10} {'validate us':>12} {'ratio':>12}")
    first = [statistics.median(values) for values in samples[SIZES[0]]]
    for (policies, count), values in samples.items():
        mutate, validate = (statistics.median(phase) for phase in values)
        ratio = f"{mutate / first[0]:.2f} {validate / first[1]:.2f}"
        print(f"{policies:>8} {count:>6} {mutate:>10.1f} {validate:>12.1f} {ratio:>12}")
    for count in (10, 5000):
        _print_rules(raw, cases[1, count][1], count)


def _print_rules(raw: Mapping[str, Any], facts: Facts, count: int) -> None:
    """What each rule costs alone, on pods that it has something to say about and on one that it passes.

    Rules that judge workloads are asked about three pods alike.
    """
    print(f"\n{count} nodes, microseconds{'mutate':>28} {'validate':>24}")
    print(f"{'rule':<20} {'adds':>12} {'adds nothing':>14} {'objects':>12} {'passes':>12}")
    pods = rule_pods(raw)
    for rule in RULES:
        subject = pods[rule.key]
        kept = subject.kept(rule, facts)
        added = [_asked(rule.mutate, one, subject.completing(rule), facts) for one in (subject.lacks, kept)]
        judge = rule.validate or _of_replicas(rule)
        judged = [_asked(judge, one, subject.judging(rule), facts) for one in (subject.breaks, kept)]
        print(f"{rule.key:<20} {added[0]:>12} {added[1]:>14} {judged[0]:>12} {judged[1]:>12}")


def _asked(ask: Any, raw: Mapping[str, Any] | None, settings: RuleSettings, facts: Facts) -> str:
    """The median of what an answer costs; - where the rule is not asked that."""
    if ask is None or raw is None:
        return "-"
    pod = pod_from_raw(raw)
    return f"{statistics.median(_microseconds(lambda: list(ask(pod, settings, facts))) for _ in range(ROUNDS)):.1f}"


def _of_replicas(rule: Rule) -> Any:
    judge = rule.judge_replicas
    return judge and (lambda pod, settings, facts: judge(pod, 3, settings, facts))


def _case(directory: Path, policies: int, count: int) -> tuple[Policy, Facts]:
    folder = directory / f"{policies}-{count}"
    write_policies(folder, policies)
    inventory = folder / "inventory.json"
    inventory.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [PRIORITY_CLASS, *nodes(count)]}))
    return load(folder).for_namespace("bench"), load_inventory(inventory)


def _microseconds(call: Any) -> float:
    return timeit.timeit(call, timer=time.process_time, number=CALLS) / CALLS * 1e6


if __name__ == "__main__":
    main()
