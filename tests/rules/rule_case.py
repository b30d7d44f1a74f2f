"""What the tests, the fuzzer and the benchmarks of all rules need of each one; `CASE` in the rule's own test file."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.rules.samples import mutations, settings_of
from webhook.model.edits import apply
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.rule import Advice, Facts, Rule
from webhook.rules.rule_settings import RuleSettings

Raw = Mapping[str, Any]
Settings = st.SearchStrategy[dict[str, Any]]
"""Settings of a rule without its mode, as they stand in a policy file."""


@dataclass(frozen=True, slots=True)
class RulePods:
    """Pods for one rule: one that it completes, one that it objects to, one that it passes.

    `lacks` is completed under the `enforced` settings of the case with those of `completing`. `breaks` is objected to
    under the `enforced` settings with those of `judging`: with advice by a rule that only advises, with violations by
    every other. `keeps` is neither; None where it is `lacks` as the rule completes it.
    """

    lacks: Raw | None = None
    breaks: Raw | None = None
    keeps: Raw | None = None
    completing: Raw = field(default_factory=dict)
    judging: Raw = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleCase:
    """One rule, as all tests of every rule take it.

    `pods` makes its pods from one that requests two whole GPUs in one container, with memory limits, made by a Job, and
    that tolerates no GPU node. Settings are without a mode:

    - `values` generates any that a policy file may have;
    - `enforced` are those of the policies by which benchmarks enforce every rule;
    - `injecting` are those under which it injects into `tests.build.wanting_pod()`, None if it never injects;
    - `fuzzed` are those of the fuzzer's policies.

    `completes_every_gpu_pod`: under `injecting` it completes every pod that requests two NVIDIA GPUs, unless the
    author wrote the same things. `completes_when_enforced`: so it does under `enforced`.
    """

    pods: Callable[[Raw], RulePods]
    values: Settings
    enforced: Raw
    fuzzed: Raw
    injecting: Raw | None = None
    completes_every_gpu_pod: bool = False
    completes_when_enforced: bool = True

    def judging(self, rule: Rule, pods: RulePods) -> RuleSettings:
        """The settings under which its pods are judged."""
        return settings_of(rule, {**self.enforced, **pods.judging})

    def completing(self, rule: Rule, pods: RulePods) -> RuleSettings:
        """The settings under which its pods are completed."""
        return settings_of(rule, {**self.enforced, **pods.completing})

    def kept(self, rule: Rule, pods: RulePods, facts: Facts) -> Raw:
        """The pod about which the rule has nothing to say."""
        if pods.keeps is not None:
            return pods.keeps
        assert pods.lacks is not None
        values = mutations(rule, pod_from_raw(pods.lacks), self.completing(rule, pods), facts)
        return apply(pods.lacks, (value for value in values if not isinstance(value, Advice))).object


def any_of(**parts: st.SearchStrategy[Any]) -> Settings:
    """Settings of which each may be left out."""
    return st.fixed_dictionaries({}, optional=parts)


def spec_with(raw: Raw, key: str, value: Any) -> dict[str, Any]:
    """A copy of the pod in whose spec this stands; a list is appended to what stands there."""
    pod = copy.deepcopy(dict(raw))
    there = pod["spec"].get(key)
    pod["spec"][key] = [*there, *value] if isinstance(there, list) and isinstance(value, list) else value
    return pod


def container_with(raw: Raw, key: str, value: Any) -> dict[str, Any]:
    """A copy of the pod in whose only container this stands."""
    pod = copy.deepcopy(dict(raw))
    pod["spec"]["containers"][0][key] = value
    return pod


def requesting(raw: Raw, resource: str, count: str) -> dict[str, Any]:
    """A copy of the pod whose only container requests this alone."""
    return container_with(raw, "resources", {"limits": {resource: count}, "requests": {resource: count}})


def tolerating_gpu_nodes(raw: Raw) -> dict[str, Any]:
    """A copy of the pod that tolerates the taint of GPU nodes."""
    return spec_with(raw, "tolerations", [{"key": "nvidia.com/gpu", "operator": "Exists"}])
