"""What the engine alone costs per pod, against the number of policies and nodes.

    python -m tests.lab.benchmarks.engine

Rounds are interleaved, so that a machine that changes its speed changes it for all; medians are printed. In every round
the pod has to get all injections and is then judged without a finding, and what a rule says alone is what its column
says.
"""

import json
import statistics
import tempfile
import time
import timeit
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.lab.benchmarks.cluster import PRIORITY_CLASS, nodes, write_policies
from tests.lab.benchmarks.runs import demand, head, row, sized
from tests.rules.every_rule import CASES, COMPLETING_ENFORCED
from tests.rules.samples import mutations
from webhook import engine
from webhook.ledger.inventory import load_inventory
from webhook.model.pod_reader import pod_from_raw
from webhook.policy.loader import load
from webhook.policy.policy_set import Policy
from webhook.rules import RULES
from webhook.rules.rule import Advice, Facts, Rule
from webhook.rules.rule_settings import RuleSettings

REVIEW = Path(__file__).with_name("review-create-pod.json")
SIZES = sized([(1, 10), (100, 10), (1000, 10), (1, 1000), (1, 5000), (1000, 5000)], [(1, 10), (10, 50)])
"""Policy files besides the default, and nodes."""
ALONE = sized([(1, 10), (1, 5000)], [(1, 10)])
"""Of these, where each rule is measured alone."""
ROUNDS, CALLS = sized((15, 300), (2, 10))


def main() -> None:
    """Print one line for each size: microseconds of both phases."""
    raw = json.loads(REVIEW.read_text())["request"]["object"]
    with tempfile.TemporaryDirectory() as directory:
        cases = {size: _case(Path(directory), *size) for size in SIZES}
        samples = {size: ([], []) for size in SIZES}  # type: dict[tuple[int, int], tuple[list[float], list[float]]]
        for _ in range(ROUNDS):
            for size, (policy, facts) in cases.items():
                completed = _completed(raw, policy, facts)
                samples[size][0].append(_microseconds(lambda p=policy, f=facts: engine.mutate(raw, p, f)))
                samples[size][1].append(_microseconds(lambda c=completed, p=policy, f=facts: engine.validate(c, p, f)))
    head("Policies", "Nodes", "mutate, microseconds", "validate, microseconds", "ratio to the first row")
    first = [statistics.median(values) for values in samples[SIZES[0]]]
    for (policies, count), values in samples.items():
        mutate, validate = (statistics.median(phase) for phase in values)
        ratio = f"{mutate / first[0]:.2f}, {validate / first[1]:.2f}"
        row(f"{policies:,}", f"{count:,}", f"{mutate:.1f}", f"{validate:.1f}", ratio)
    for size in ALONE:
        _print_rules(raw, cases[size][1], size[1])


def _completed(raw: Mapping[str, Any], policy: Policy, facts: Facts) -> Mapping[str, Any]:
    """The pod with all injections, about which there is then nothing to say."""
    completed = engine.mutate(raw, policy, facts)
    injected, found = completed.injected, completed.findings
    expected = COMPLETING_ENFORCED
    demand(injected == expected and not found, f"completed by {injected} with {found}; expected is {expected} alone")
    found = engine.validate(completed.object, policy, facts).findings
    demand(not found, f"the completed pod is judged with {found}; nothing is expected")
    return completed.object


def _print_rules(raw: Mapping[str, Any], facts: Facts, count: int) -> None:
    """What each rule costs alone, on pods that it has something to say about and on one that it passes.

    Rules that judge workloads are asked about three pods alike.
    """
    print(f"\n{count:,} nodes, microseconds\n")
    head("Rule", "mutate, injects", "mutate, adds nothing", "validate, violation", "validate, no violation")
    for rule in RULES:
        case = CASES[rule.key]
        subject = case.pods(raw)
        kept = case.kept(rule, subject, facts)
        judge = rule.validate or _of_replicas(rule)
        mutating = partial(mutations, rule) if rule.injects else None
        completing, judging = case.completing(rule, subject), case.judging(rule, subject)
        row(
            rule.key,
            _asked(mutating, subject.lacks, completing, facts, says=True),
            _asked(mutating, kept, completing, facts, says=False),
            _asked(judge, subject.breaks, judging, facts, says=True, by_advice=rule.only_advises),
            _asked(judge, kept, judging, facts, says=False, by_advice=rule.only_advises),
        )


def _asked(
    ask: Any,
    raw: Mapping[str, Any] | None,
    settings: RuleSettings,
    facts: Facts,
    *,
    says: bool,
    by_advice: bool = False,
) -> str:
    """The median of what an answer costs, an edit or objection if it `says` something; - where nobody asks that."""
    if ask is None or raw is None:
        return "-"
    pod = pod_from_raw(raw)
    values = [value for value in ask(pod, settings, facts) if by_advice or not isinstance(value, Advice)]
    demand(bool(values) is says, f"a rule with {settings} says {values}; {'more' if says else 'nothing'} is expected")
    return f"{statistics.median(_microseconds(lambda: list(ask(pod, settings, facts))) for _ in range(ROUNDS)):.1f}"


def _of_replicas(rule: Rule) -> Any:
    judge = rule.validate_replicas
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
