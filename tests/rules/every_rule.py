"""The cases of all rules, by key, in the order of the documents."""

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from tests.build import policy
from tests.rules.rule_case import Raw, RuleCase
from webhook import rules
from webhook.policy.policy_set import PolicySet

_MODULES = {
    module.RULE.key: name
    for name, module in vars(rules).items()
    if isinstance(module, ModuleType) and "RULE" in vars(module)
}


def _case(key: str) -> RuleCase:
    tests = f"tests.rules.test_{_MODULES[key]}"
    case = getattr(import_module(tests), "CASE", None)
    assert isinstance(case, RuleCase), f"{tests}: write CASE, which says what the tests of every rule need of {key}"
    return case


CASES: Mapping[str, RuleCase] = {rule.key: _case(rule.key) for rule in rules.RULES}
INJECTING: Mapping[str, Raw] = {key: case.injecting for key, case in CASES.items() if case.injecting is not None}
"""Settings under which every rule has something to inject into `wanting_pod()`."""

COMPLETING = tuple(
    rule.key for rule in sorted(rules.RULES, key=lambda rule: rule.stage) if CASES[rule.key].completes_every_gpu_pod
)
"""The rules that complete every pod that requests two NVIDIA GPUs under `INJECTING`, in the order in which they do."""

COMPLETING_ENFORCED = tuple(key for key in COMPLETING if CASES[key].completes_when_enforced)
"""Those of them that complete it under `enforced()`."""

ALL_VALUES = st.fixed_dictionaries({key: case.values for key, case in CASES.items()})
"""Settings of each rule, by its key."""


def enforced(**changes: Raw) -> dict[str, dict[str, Any]]:
    """The `rules` of a policy by which every rule is enforced; `changes` are further settings by key of the rule."""
    return {key: {"mode": "enforce", **case.enforced, **changes.get(key, {})} for key, case in CASES.items()}


@st.composite
def policy_sets(draw: st.DrawFn) -> PolicySet:
    """Policies of any rules, each in any mode."""
    keys = draw(st.lists(st.sampled_from(list(CASES)), unique=True, min_size=1, max_size=5))
    modes = st.sampled_from(("enforce", "enforce", "warn", "audit"))
    rules = {key: {**INJECTING.get(key, {}), **draw(CASES[key].values), "mode": draw(modes)} for key in keys}
    return PolicySet.of(policy(rules), {})
