"""Which of several exceptions holds, whatever their order in the file."""

import json
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.policy.conftest import PolicyDirectory
from webhook.model.subject import PodSubject
from webhook.policy.exception_match import namespace_rank
from webhook.policy.policy_set import PolicySet
from webhook.yaml_files.file_errors import FileErrors

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


def first(*entries: dict[str, Any], namespace: str = "team-a") -> set[str]:
    """The names of the exceptions that hold for gpuLimits, in any order of the file."""
    found = set()
    for order in permutations(entries):
        applied = loaded(*order).exceptions.applied(namespace, SUBJECT, NOW)
        found |= {one.name for one in applied if "gpuLimits" in one.rules} or {""}
    return found


GENERAL = {**ENTRY, "name": "general", "namespaces": ["team-*"], "match": {"all": True}}


@pytest.mark.parametrize(
    "change",
    [
        {"namespaces": ["team-a"]},
        {"namespaces": ["team-??", "team-?*"]},
        {"match": {"names": ["*"]}},
        {"match": {"labels": {"app": "bert"}}},
        {"until": "2027-01-19"},
    ],
    ids=["exact namespace", "longer glob", "a key of the match", "a label", "earlier end"],
)
def test_the_more_specific_holds_alone_and_then_the_one_that_ends_first(change: dict[str, Any]) -> None:
    assert first(GENERAL, {**GENERAL, "name": "special", **change}) == {"special"}


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"names": ["bert-*"]}, {"names": ["bert-1"]}),
        ({"names": ["b*"]}, {"names": ["be*"]}),
        ({"images": ["*"]}, {"names": ["*"]}),
        ({"containers": ["main"]}, {"images": ["*"]}),
        ({"kinds": ["Job"]}, {"containers": ["*"]}),
        ({"labels": {"app": "bert"}}, {"kinds": ["*"]}),
        ({"labels": {"app": "bert"}}, {"labels": {"app": "bert", "tier": "dev"}}),
        ({"names": ["bert-1"]}, {"names": ["*"], "kinds": ["*"]}),
    ],
)
def test_ranks_of_matches(less: dict[str, Any], more: dict[str, Any]) -> None:
    assert first({**ENTRY, "name": "less", "match": less}, {**ENTRY, "name": "more", "match": more}) == {"more"}


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
    assert (quota_held.quota.limits[0].hard, quota_held.usual.quota.limits[0].hard) == (24, 16)


def test_name_and_kind_hold_of_one_object() -> None:
    entry = {**ENTRY, "name": "one", "match": {"names": ["bert-1"], "kinds": ["Job"]}}
    assert first(entry) == {""}
    assert first({**entry, "match": {"names": ["bert"], "kinds": ["Job"]}}) == {"one"}


def test_a_namespace_without_exceptions_asks_nothing_about_the_pod() -> None:
    policies = loaded({**ENTRY, "name": "one", "match": {"all": True}})

    def never() -> PodSubject:
        raise AssertionError

    assert policies.in_force("team-b", never, NOW).policy is policies.default


def test_no_glob_is_about_objects_without_a_namespace() -> None:
    assert namespace_rank(["*"], "") is None


GLOBS = st.lists(st.sampled_from(["*", "a*", "*b", "ab", "a?", "?b", "b", "ab*"]), min_size=1, max_size=2, unique=True)
MATCHES = st.one_of(
    st.just({"all": True}),
    st.fixed_dictionaries({"names": GLOBS}, optional={"kinds": GLOBS, "labels": st.just({"x": "y"})}),
    st.fixed_dictionaries({"labels": st.sampled_from([{"x": "y"}, {"x": "z"}, {"v": "w"}])}),
    st.fixed_dictionaries({"containers": GLOBS}, optional={"images": GLOBS}),
)
ENTRIES = st.fixed_dictionaries(
    {
        "namespaces": GLOBS,
        "match": MATCHES,
        "until": st.sampled_from(["2027-01-20", "2027-01-21"]),
        "rules": st.sampled_from([["gpuLimits"], ["gpuQuota"], ["gpuLimits", "gpuQuota"]]),
        "reason": st.just("a test"),
    }
)
SUBJECTS = st.builds(
    PodSubject,
    st.lists(st.tuples(st.sampled_from(["a", "b", "ab"]), st.sampled_from(["a", "b", "ab", "bb"])), min_size=1).map(
        tuple
    ),
    st.sampled_from([{}, {"x": "y"}, {"x": "z", "v": "w"}, {"x": "y", "v": "w"}]),
    st.lists(st.tuples(st.sampled_from(["a", "b", "ab"]), st.sampled_from(["ab", "b"])), max_size=2).map(tuple),
)


@given(st.lists(ENTRIES, min_size=2, max_size=3), SUBJECTS, st.sampled_from(["a", "b", "ab", "aab"]))
def test_the_order_of_the_file_makes_no_difference_and_no_name_decides(entries, subject, namespace: str) -> None:
    """Where the loader accepts a set, ranks and ends alone say which exception holds, and they are all different."""
    named = [{**entry, "name": f"e-{number}"} for number, entry in enumerate(entries)]
    try:
        policies = loaded(*named)
    except FileErrors:
        return
    expected = policies.exceptions.applied(namespace, subject, NOW)
    turned = loaded(*reversed(named)).exceptions.applied(namespace, subject, NOW)
    assert [(one.name, one.rules) for one in turned] == [(one.name, one.rules) for one in expected]
    ranks = [
        (namespace_rank(one.namespaces, namespace), rank, one.period.ends, rule)
        for one in policies.exceptions.all
        if namespace_rank(one.namespaces, namespace) is not None and (rank := one.match.rank(subject)) is not None
        for rule in one.concerned
    ]
    assert len(set(ranks)) == len(ranks)
