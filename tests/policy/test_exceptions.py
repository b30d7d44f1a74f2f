"""Which of several exceptions holds, whatever their order in the file."""

import json
from dataclasses import replace
from itertools import combinations, permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.policy.conftest import PolicyDirectory
from webhook.model.globs import matcher
from webhook.model.subject import PodSubject
from webhook.policy.exception_conflicts import alike
from webhook.policy.exception_file import read_exceptions
from webhook.policy.exception_match import Match, namespace_rank, shared_namespaces
from webhook.policy.policy_set import PolicySet
from webhook.rules import RULES
from webhook.yaml_files.file_errors import Faults, FileErrors

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


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (["team-a"], ["team-*", "team-a"], "namespace team-a"),
        (["team-*"], ["team-*", "team-x"], "a namespace of team-*"),  # team-x is decided, and all others are not
        (["team-*"], ["*-prod", "team-p*"], "a namespace of team-* and *-prod"),
        (["team-*", "team-??"], ["team-*"], "a namespace of team-*"),
        (["team-*", "team-?*"], ["team-*"], "a namespace of team-*"),  # team- alone matches team-*, and is no name
        (["team-*", "team*-*"], ["team-*"], ""),
        (["team-*"], ["web-*"], ""),
        (["team-a"], ["team-*"], ""),
    ],
)
def test_namespaces_are_shared_unless_it_is_certain_which_pattern_decides(one, other, told: str) -> None:
    assert shared_namespaces(one, other) == told
    assert bool(shared_namespaces(other, one)) is bool(told)


def numbered(**fields: str) -> list[dict[str, Any]]:
    """A thousand exceptions with these lists, in which %d is their number."""
    entries = []
    for number in range(1000):
        said = {key: [text.replace("%d", f"{number:04}")] for key, text in fields.items()}
        namespaces = said.pop("namespaces")
        entries.append({**ENTRY, "name": f"e-{number}", "namespaces": namespaces, "match": said or {"all": True}})
    return entries


@pytest.mark.parametrize(
    "fields",
    [
        {"namespaces": "team-*", "names": "bert-%d-*"},
        {"namespaces": "team-%d-*", "names": "bert-*"},
        {"namespaces": "team-*", "images": "registry/%d/*"},
        {"namespaces": "team-*", "names": "bert-*-%d"},
        {"namespaces": "team-*", "names": "bert-%d"},
        {"namespaces": "team-%d"},
    ],
)
def test_a_thousand_exceptions_are_not_compared_two_by_two(fields: dict[str, str], monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(Match, "may_tie", lambda one, other: asked.append((one, other)) or False)
    assert len(loaded(*numbered(**fields)).exceptions.all) == 1000
    assert asked == []


def test_of_many_exceptions_that_contradict_each_other_each_is_told_once() -> None:
    entries = [{**entry, "match": {"all": True}} for entry in numbered(namespaces="team-*")][:50]
    with pytest.raises(FileErrors) as caught:
        loaded(*entries)
    assert len(caught.value.errors) == 49


def test_globs_are_compiled_once_however_many_there_are() -> None:
    """More than any cache of globs keeps: a decision would compile all of them again."""
    match = Match(names=tuple(f"a?{number}*b" for number in range(5000)))
    match.rank(SUBJECT)
    before = matcher.cache_info()
    assert match.rank(SUBJECT) is None
    assert matcher.cache_info() == before


@pytest.mark.parametrize(
    ("one", "other", "contradict"),
    [
        pytest.param("r.corp/*-ab:1", "r.corp/team/*", False, id="of another depth"),
        pytest.param("r.corp/**-abc:1", "r.corp/team/*", True, id="any depth, and as long"),
        pytest.param("r.corp/ml/*", "r.corp/ml/**", False, id="one star is closer than two"),
        pytest.param("r.corp/*/apps", "r.corp/team/*", True, id="of one depth"),
    ],
)
def test_patterns_of_images_contradict_each_other_where_one_image_has_both(one, other, contradict) -> None:
    entries = [{**ENTRY, "name": f"e-{text}", "match": {"images": [text]}} for text in (one, other)]
    entries = [{**entry, "name": f"e-{number}"} for number, entry in enumerate(entries)]
    if not contradict:
        loaded(*entries)
        return
    with pytest.raises(FileErrors, match="equally specific"):
        loaded(*entries)


def test_the_pattern_of_an_image_that_stays_in_one_part_comes_first() -> None:
    match = Match(images=("r.corp/ml/**", "r.corp/ml/*"))
    deep = Match(images=("r.corp/ml/**",))
    subject = replace(SUBJECT, containers=(("main", "r.corp/ml/app:1"),))
    assert match.rank(subject) > deep.rank(subject)


GLOBS = st.lists(st.sampled_from(["*", "a*", "*b", "ab", "a?", "?b", "b", "ab*"]), min_size=1, max_size=2, unique=True)
MATCHES = st.one_of(
    st.just({"all": True}),
    st.fixed_dictionaries({"names": GLOBS}, optional={"kinds": GLOBS, "labels": st.just({"x": "y"})}),
    st.fixed_dictionaries({"labels": st.sampled_from([{"x": "y"}, {"x": "z"}, {"v": "w"}])}),
    st.fixed_dictionaries(
        {"containers": GLOBS},
        optional={
            "images": st.lists(st.sampled_from(["*", "**", "a/*", "a/**", "**/b:*", "b"]), min_size=1, unique=True)
        },
    ),
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
    st.lists(st.tuples(st.sampled_from(["a", "b", "ab"]), st.sampled_from(["a/b", "b", "a/a/b"])), max_size=2).map(
        tuple
    ),
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


@given(st.lists(ENTRIES, min_size=2, max_size=6))
def test_every_pair_that_may_tie_is_compared(entries) -> None:
    """The lists of patterns leave out only pairs of which one comes first for certain."""
    named = [{**entry, "name": f"e-{number}"} for number, entry in enumerate(entries)]
    text = json.dumps({**HEAD, "spec": {"exceptions": named}})
    found = [one for one, _ in read_exceptions("f", text.encode(), RULES, 90, Faults()).exceptions]
    met = {(one.name, other.name) for one, other in alike(found)}
    for one, other in combinations(found, 2):
        may = set(one.concerned) & set(other.concerned) and one.period.ends == other.period.ends
        if may and shared_namespaces(one.namespaces, other.namespaces) and one.match.may_tie(other.match):
            assert (one.name, other.name) in met
