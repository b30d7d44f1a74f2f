"""An exception to containers covers these; the pod as a whole only if all containers with GPUs are meant."""

from typing import Any

import pytest

from tests.build import FACTS, against, container, patched, pod, request
from tests.test_exceptions import END, ENTRY, QUOTA, WITHOUT_RULES, admitted, written
from webhook.admission import phases
from webhook.audit.documents import Document
from webhook.audit.review_objects import ReviewContext, review

DUMMY = {"containers": ["dummy"]}
GPUS = {"containers": ["c0"]}
LIMIT = "gpuLimits: {mode: enforce, maxPerPod: 8}"


def beside_a_dummy(gpus: int, **spec: Any) -> dict[str, Any]:
    """A pod with GPUs in c0, beside a container without GPUs."""
    raw = pod(gpus, name="bert-1", **spec)
    raw["spec"]["containers"].append(container("dummy"))
    return raw


CASES = {
    "gpuLimits": (LIMIT, {"maxPerPod": 16}, lambda: beside_a_dummy(16)),
    "priorityClass": (
        "priorityClass: {mode: enforce, allowed: ['tr*']}",
        {"allowed": ["oth*"]},
        lambda: with_spec(priorityClassName="other"),
    ),
    "timeLimit": (
        "timeLimit: {mode: enforce, max: 8h, selectors: [{app: nb}]}",
        {"max": "900h"},
        lambda: with_spec(activeDeadlineSeconds=999_999),
    ),
}


def with_spec(**spec: Any) -> dict[str, Any]:
    raw = beside_a_dummy(1)
    raw["spec"] |= spec
    raw["metadata"]["labels"] = {"app": "nb"}
    return raw


@pytest.mark.parametrize("form", ["rules", "settings"])
@pytest.mark.parametrize("rule", CASES)
def test_the_pod_as_a_whole_is_let_in_only_if_its_containers_with_gpus_are_meant(
    tmp_path, rule: str, form: str
) -> None:
    rules, settings, made = CASES[rule]
    what = {"rules": [rule]} if form == "rules" else {"settings": {rule: settings}}
    for match, is_let_in in ((DUMMY, False), (GPUS, True), ({"names": ["bert-1"]}, True)):
        policies = written(tmp_path, {**WITHOUT_RULES, "match": match, **what}, rules=rules)
        allowed, warnings = admitted(made(), policies, END - 1)
        is_told = is_let_in and form == "rules"
        assert (allowed, any("by exception bert-legacy" in one for one in warnings)) == (is_let_in, is_told), match
        assert not admitted(made(), policies, END)[0]


@pytest.mark.parametrize("what", [{"rules": ["gpuQuota"]}, {"settings": {"gpuQuota": {"gpus": 24}}}])
def test_a_container_without_gpus_lifts_no_quota(tmp_path, what: dict[str, Any]) -> None:
    for match, second in ((DUMMY, False), (GPUS, True)):
        policies = written(tmp_path, {**WITHOUT_RULES, "match": match, **what}, rules=QUOTA)
        context = ReviewContext(policies, FACTS, against(policies).ledgers, now=END - 1)
        pods = [pod(16, name="first", spec={"containers": [container("a", limits={"nvidia.com/gpu": 16})]})]
        pods.append(beside_a_dummy(8))
        items = review([Document("f.yaml", n, 1, one) for n, one in enumerate(pods)], "team", context).items
        assert [item.is_allowed for item in items] == [True, second], match


def test_what_is_injected_into_the_whole_pod_stays_unless_its_containers_with_gpus_are_meant(tmp_path) -> None:
    for match, is_left_out in ((DUMMY, False), (GPUS, True)):
        policies = written(tmp_path, {**ENTRY, "match": match, "rules": ["tolerations"]})
        found = phases.mutate(request(beside_a_dummy(1)), policies, FACTS, END - 1)
        tolerations = patched(beside_a_dummy(1), found)["spec"].get("tolerations", [])
        assert ({"key": "gpu"}.items() <= dict(*tolerations).items()) is not is_left_out
        assert any("left out" in one for one in found.answer.warnings) is is_left_out


def test_each_container_is_completed_by_whether_it_is_meant(tmp_path) -> None:
    policies = written(
        tmp_path, {**ENTRY, "match": GPUS, "rules": ["ncclEnv"]}, rules="ncclEnv: {mode: enforce, env: {A: '1'}}"
    )
    raw = pod(8, 8, name="bert-1")
    found = phases.mutate(request(raw), policies, FACTS, END - 1)
    containers = patched(raw, found)["spec"]["containers"]
    assert [[one["name"] for one in each.get("env", [])] for each in containers] == [[], ["A"]]
    (warning,) = [one for one in found.answer.warnings if "left out" in one]
    assert "env A=1 in c0" in warning
    assert "in c1" not in warning
    validated = phases.validate(request(patched(raw, found)), policies, FACTS, END - 1)
    assert (validated.answer.is_allowed, validated.outcome.findings) == (True, ())


def test_only_what_is_left_out_is_told(tmp_path) -> None:
    """Changed settings may inject more, beside all that was injected before."""
    rules = "ncclEnv: {mode: enforce, env: {A: '1'}}"
    policies = written(tmp_path, {**WITHOUT_RULES, "settings": {"ncclEnv": {"env": {"B": "2"}}}}, rules=rules)
    found = phases.mutate(request(pod(8, name="bert-1")), policies, FACTS, END - 1)
    (made,) = patched(pod(8, name="bert-1"), found)["spec"]["containers"]
    assert sorted(one["name"] for one in made["env"]) == ["A", "B"]
    assert not found.answer.warnings


@pytest.mark.parametrize(
    "resources",
    [
        {"claims": [{"name": "gpus"}]},
        {"requests": {"nvidia.com/gpu": "1"}},
        {"limits": {"deviceclass.resource.kubernetes.io/h100": 1}},
        {"limits": {"nvidia.com/gpumem": 1000}},
    ],
)
def test_a_container_that_gets_gpus_in_another_way_counts_as_one_with_gpus(tmp_path, resources) -> None:
    policies = written(tmp_path, {**ENTRY, "match": GPUS}, rules=LIMIT)
    raw = beside_a_dummy(16)
    raw["spec"]["containers"][1]["resources"] = resources
    raw["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimName": "gpus"}]
    held = phases.in_force(request(raw), policies, END - 1)
    assert [one.is_whole for one in held.policy.exceptions] == [False]
