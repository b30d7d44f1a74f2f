"""Which of several exceptions holds for a pod."""

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.golden import golden
from tests.policy.conftest import PolicyDirectory
from webhook.model.subject import PodSubject
from webhook.policy.exceptions import Match
from webhook.policy.policy_set import PolicySet

NOW = 1_800_000_000.0
ENTRY: dict[str, Any] = {"namespaces": ["team-a"], "rules": ["gpuLimits"], "until": "2027-01-20", "reason": "a test"}
HEAD = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUPolicyExceptions", "metadata": {"name": "_exceptions"}}
SUBJECT = PodSubject(
    (("Pod", "bert-1"), ("Job", "bert")), {"app": "bert", "tier": "dev"}, (("main", "nginx:1"), ("side", "a/b:2"))
)


def loaded(*entries: dict[str, Any]) -> PolicySet:
    """The policies with these exceptions."""
    with TemporaryDirectory() as directory:
        policies = PolicyDirectory(Path(directory))
        policies.policy("_default", "gpuLimits: {mode: enforce, maxPerPod: 8}\ngpuQuota: {mode: enforce, gpus: 16}")
        policies.write("_exceptions.yaml", json.dumps({**HEAD, "spec": {"exceptions": list(entries)}}))
        return policies.load()


def first(*entries: dict[str, Any], namespace: str = "team-a") -> str:
    """The name of the exception that holds for gpuLimits; empty for none."""
    applied = loaded(*entries).exceptions.applied(namespace, SUBJECT, NOW)
    return next((one.name for one in applied if "gpuLimits" in one.rules), "")


GENERAL = {**ENTRY, "name": "general", "namespaces": ["team-*"], "match": {"all": True}}


@golden
def test_of_several_exceptions_about_a_rule_the_first_in_the_file_holds_alone(change: dict[str, Any]) -> None:
    special = {**GENERAL, "name": "special", **change}
    assert (first(special, GENERAL), first(GENERAL, special)) == ("special", "general")


@golden
def test_an_exception_that_does_not_hold_leaves_the_pod_to_the_next(change: dict[str, Any]) -> None:
    assert first({**GENERAL, "name": "other", **change}, GENERAL) == "general"


def test_exceptions_to_different_rules_hold_together() -> None:
    quota = {key: value for key, value in ENTRY.items() if key != "rules"}
    held = loaded(
        {**ENTRY, "name": "one", "match": {"names": ["bert"]}},
        {**quota, "name": "two", "match": {"all": True}, "settings": {"gpuQuota": {"gpus": 24}}},
    ).in_force("team-a", lambda: SUBJECT, NOW)
    assert [(one.name, one.rules) for one in held.policy.exceptions] == [
        ("one", ("gpuLimits",)),
        ("two", ("gpuQuota",)),
    ]
    (quota_held,) = held.quotas
    assert quota_held.quota.limits[0].hard == 24


def test_name_and_kind_hold_of_one_object() -> None:
    entry = {**ENTRY, "name": "one", "match": {"names": ["bert-1"], "kinds": ["Job"]}}
    assert first(entry) == ""
    assert first({**entry, "match": {"names": ["bert"], "kinds": ["Job"]}}) == "one"


def test_a_namespace_without_exceptions_asks_nothing_about_the_pod() -> None:
    policies = loaded({**ENTRY, "name": "one", "match": {"all": True}})

    def never() -> PodSubject:
        raise AssertionError

    assert policies.in_force("team-b", never, NOW).policy is policies.default


def test_no_glob_is_about_objects_without_a_namespace() -> None:
    assert first({**ENTRY, "name": "one", "namespaces": ["*"], "match": {"all": True}}, namespace="") == ""


@golden
def test_patterns_of_images_take_slashes_only_by_two_stars(pattern: str, image: str, holds: bool) -> None:
    assert Match(images=(pattern,)).holds(replace(SUBJECT, containers=(("main", image),))) is holds
