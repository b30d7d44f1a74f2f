"""Exceptions decide alike in the webhook, in `review`, in `audit` and in `gpu-policy test`, to the second of an end."""

import copy
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.build import FACTS, against, container, patched, pod, request, workload
from tests.clock import Clock
from tests.replicas import Replica
from webhook.admission import phases
from webhook.audit.documents import Document
from webhook.audit.report import Level
from webhook.audit.review_objects import ReviewContext, review
from webhook.commands.main import main
from webhook.engine.running_rules import told
from webhook.model.subject import subject_of
from webhook.outcome import MOST_WARNED
from webhook.policy.loader import load
from webhook.policy.policy_set import PolicySet

HEAD = "apiVersion: gpupolicy.dev/v1alpha1\n"
END = datetime(2027, 1, 16, tzinfo=UTC).timestamp()
TOLD = "admitted until 2027-01-15 by exception bert-legacy, OPS-123"
ENTRY: dict[str, Any] = {
    "name": "bert-legacy",
    "namespaces": ["team"],
    "match": {"names": ["bert-*"]},
    "rules": ["gpuLimits"],
    "until": "2027-01-15",
    "reason": "migration to 8 GPUs",
    "ticket": "OPS-123",
}
RULES = "gpuLimits: {mode: enforce, maxPerPod: 8}\n    tolerations: {mode: enforce, add: [{key: gpu}]}"


def written(directory: Path, *entries: dict[str, Any], rules: str = RULES) -> PolicySet:
    """The policies of a directory with these exceptions."""
    text = f"{HEAD}kind: GPUPolicy\nmetadata: {{name: _default}}\nspec:\n  rules:\n    {rules}\n"
    (directory / "_default.yaml").write_text(text)
    head = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUPolicyExceptions", "metadata": {"name": "_exceptions"}}
    (directory / "_exceptions.yaml").write_text(yaml.safe_dump({**head, "spec": {"exceptions": list(entries)}}))
    return load(directory)


def of_a_deployment(raw: dict[str, Any], name: str = "bert-base") -> dict[str, Any]:
    """The pod as the ReplicaSet of a Deployment makes it."""
    made = copy.deepcopy(raw)
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{name}-7c9d8f6b5d",
        "uid": "1",
        "controller": True,
    }
    made["metadata"] = {
        "namespace": "team",
        "generateName": f"{name}-7c9d8f6b5d-",
        "labels": {"pod-template-hash": "7c9d8f6b5d"},
        "ownerReferences": [owner],
    }
    return made


def admitted(raw: dict[str, Any], policies: PolicySet, now: float) -> tuple[bool, tuple[str, ...]]:
    """What both phases of the webhook answer."""
    mutated = phases.mutate(request(raw), policies, FACTS, now)
    validated = phases.validate(request(patched(raw, mutated)), policies, FACTS, now)
    warnings = (*mutated.answer.warnings, *validated.answer.warnings)
    return mutated.answer.is_allowed and validated.answer.is_allowed, warnings


def verdicts(raw: dict[str, Any], policies: PolicySet, now: float) -> dict[str, tuple[bool, bool]]:
    """Whether the pods are admitted, and whether the exception is told, by everybody who says so."""
    found: dict[str, tuple[bool, bool]] = {}
    if raw["kind"] == "Pod":
        allowed, warnings = admitted(raw, policies, now)
        found["webhook"] = allowed, any(TOLD in one for one in warnings)
    else:
        answer = phases.workloads(request(raw), policies, FACTS, now).answer
        found["workloads"] = (
            not any("at most 8 per pod" in one and TOLD not in one for one in answer.warnings),
            any(TOLD in one for one in answer.warnings),
        )
    context = ReviewContext(policies, FACTS, against(policies).ledgers, now=now)
    (item,) = review([Document("f.yaml", 1, 1, raw)], "team", context).items
    found["review"] = item.is_allowed, any(TOLD in one for one in item.warnings)
    report = audited_at(raw, policies, now)
    skipped = list(report.at(Level.SKIP))
    found["audit"] = report.exit_status() == 0, any(TOLD in one.message for one in skipped)
    return found


def audited_at(raw: dict[str, Any], policies: PolicySet, now: float):
    from tests.audit.audits import report_of
    from webhook.audit.object_sources import Background, of_files

    source = of_files([Document("f.yaml", 1, 1, raw)], "default", Background(FACTS))
    return report_of(replace(source, now=now), policies)


OBJECTS = {
    "pod": pod(16, name="bert-1"),
    "generated pod": {**pod(16), "metadata": {"generateName": "bert-", "namespace": "team"}},
    "pod of a Deployment": of_a_deployment(pod(16)),
    "Deployment": {**workload("Deployment", pod(16)), "metadata": {"name": "bert-base", "namespace": "team"}},
    "CronJob": {**workload("CronJob", pod(16)), "metadata": {"name": "bert-nightly", "namespace": "team"}},
}


@pytest.mark.parametrize("what", OBJECTS)
def test_everybody_admits_it_a_second_before_the_end_and_nobody_at_it(tmp_path, what: str) -> None:
    policies = written(tmp_path, ENTRY)
    before, after = verdicts(OBJECTS[what], policies, END - 1), verdicts(OBJECTS[what], policies, END)
    assert set(before.values()) == {(True, True)}, before
    assert set(after.values()) == {(False, False)}, after


@pytest.mark.parametrize(
    "other",
    [pod(16, name="gpt-1"), pod(16, name="bert-1", namespace="other"), of_a_deployment(pod(16), "gpt")],
    ids=["name", "namespace", "owner"],
)
def test_others_are_refused_all_the_time(tmp_path, other: dict[str, Any]) -> None:
    policies = written(tmp_path, ENTRY)
    decision = phases.validate(request(other, namespace=other["metadata"]["namespace"]), policies, FACTS, END - 1)
    assert not decision.answer.is_allowed


def test_the_command_says_it_in_json(tmp_path) -> None:
    until = datetime.fromtimestamp(datetime.now(UTC).timestamp() + 5 * 86_400, UTC)
    written(tmp_path, {**ENTRY, "until": f"{until:%Y-%m-%d}"})
    path = tmp_path / "manifests" / "pod.json"
    path.parent.mkdir()
    path.write_text(json.dumps(OBJECTS["pod"]))
    answer = CliRunner().invoke(main, ["review", "--policies", str(tmp_path), "-o", "json", str(path)])
    (item,) = json.loads(answer.output)["items"]
    told = f"admitted until {until:%Y-%m-%d} by exception bert-legacy, OPS-123"
    assert (answer.exit_code, item["allowed"]) == (0, True)
    assert any(told in one for one in item["warnings"])
    (violation,) = [one for one in item["violations"] if one["rule"] == "gpuLimits"]
    assert (violation["exception"], violation["mode"]) == ("bert-legacy", "audit")
    assert told in violation["message"]
    audit = CliRunner().invoke(main, ["audit", "--policies", str(tmp_path), "--format", "json", str(path)])
    found = [one for one in json.loads(audit.output)["findings"] if one["level"] == "skip"]
    assert (audit.exit_code, [one["exception"] for one in found]) == (0, ["bert-legacy"])


def test_an_answer_says_it_in_a_warning_and_in_an_audit_annotation_and_a_metric(tmp_path) -> None:
    written(tmp_path, ENTRY)
    replica = Replica(tmp_path)
    clock = Clock(END - 1)
    replica.service._clock = clock
    warnings = replica.ask("/validate", OBJECTS["pod"])["warnings"]
    assert [one for one in warnings if one.endswith(f"; {TOLD}.")] == [
        f"gpuLimits: spec: requests 16 GPUs; the policy allows at most 8 per pod; {TOLD}."
    ]
    annotations = replica.ask("/validate", OBJECTS["pod"], dryRun=True)["auditAnnotations"]
    assert annotations["exceptions"] == TOLD
    assert replica.count("gpu_policy_exceptions_used_total", exception="bert-legacy") == 1
    assert replica.count("gpu_policy_exception_end_timestamp_seconds", exception="bert-legacy") == END
    clock.now = END
    assert not replica.ask("/validate", OBJECTS["pod"])["allowed"]


@pytest.mark.parametrize(("gpus", "allowed"), [(8, True), (12, True), (13, False)])
def test_settings_hold_instead_and_are_recorded_with_each_pod_that_they_admit(tmp_path, gpus, allowed) -> None:
    entry = {key: value for key, value in ENTRY.items() if key != "rules"}
    rules = "gpuLimits: {mode: enforce, maxPerPod: 8}"
    policies = written(tmp_path, {**entry, "settings": {"gpuLimits": {"maxPerPod": 12}}}, rules=rules)
    answer = phases.validate(request(pod(gpus, name="bert-1")), policies, FACTS, END - 1).answer
    recorded = answer.audit_annotations.get("exceptions", "")
    assert (answer.is_allowed, answer.warnings, recorded) == (allowed, (), TOLD if allowed else "")


def test_what_is_not_injected_is_told(tmp_path) -> None:
    policies = written(tmp_path, {**ENTRY, "rules": ["tolerations"]})
    found = phases.mutate(request(pod(1, name="bert-1")), policies, FACTS, END - 1)
    assert found.result == "allowed"
    (warning,) = found.answer.warnings
    assert warning == (
        "tolerations: spec: would add toleration gpu=; left out until 2027-01-15 by exception bert-legacy, OPS-123."
    )
    assert admitted(pod(1, name="bert-1"), policies, END - 1)[0]
    assert phases.mutate(request(pod(1, name="bert-1")), policies, FACTS, END).result == "patched"


@pytest.mark.parametrize(
    ("pattern", "image", "is_meant"),
    [
        pytest.param("registry.corp/ml/*", "registry.corp/ml/app:1", True, id="one part"),
        pytest.param("registry.corp/ml/*", "registry.corp/ml/tenant/app:1", False, id="a star takes no slash"),
        pytest.param("registry.corp/ml/**", "registry.corp/ml/tenant/app:1", True, id="two stars do"),
        pytest.param("*/ml/app:*", "registry.corp/other/ml/app:1", False, id="nor one in front"),
        pytest.param("*", f"registry.corp/app@sha256:{'a' * 64}", False, id="a digest is no name"),
        pytest.param("**", f"registry.corp/app@sha256:{'a' * 64}", True, id="any image"),
        pytest.param("**", "no reference " * 100_000, False, id="what no node can pull"),
    ],
)
def test_a_star_in_the_pattern_of_an_image_stays_between_slashes(tmp_path, pattern, image, is_meant) -> None:
    policies = written(tmp_path, {**ENTRY, "match": {"images": [pattern]}})
    raw = pod(spec={"containers": [{**container("main", limits={"nvidia.com/gpu": 16}), "image": image}]})
    assert admitted(raw, policies, END - 1)[0] is is_meant


def test_nothing_that_a_tenant_writes_into_an_annotation_counts(tmp_path) -> None:
    policies = written(tmp_path, ENTRY)
    raw = pod(16, name="gpt", annotations={"gpupolicy.dev/exception": "bert-legacy", "exceptions": "bert-legacy"})
    assert admitted(raw, policies, END - 1) == (False, ())


def test_a_long_finding_is_cut_and_its_exception_is_not(tmp_path) -> None:
    decision = phases.validate(request(pod(16, name="bert-1")), written(tmp_path, ENTRY), FACTS, END - 1)
    (finding,) = [one for one in decision.outcome.findings if one.rule == "gpuLimits"]
    warning = told(replace(finding, message="x" * 1_000_000)).warning
    assert warning.endswith("x...; admitted until 2027-01-15 by exception bert-legacy, OPS-123.")
    assert len(warning) < MOST_WARNED / 2


def test_mode_warn_keeps_the_finding_a_warning(tmp_path) -> None:
    policies = written(tmp_path, {**ENTRY, "mode": "warn"})
    decision = phases.validate(request(pod(16, name="bert-1")), policies, FACTS, END - 1)
    (finding,) = [one for one in decision.outcome.findings if one.rule == "gpuLimits"]
    assert (finding.mode, finding.refuses) == ("warn", False)


QUOTA = "gpuQuota: {mode: enforce, gpus: 16}"
WITHOUT_RULES = {key: value for key, value in ENTRY.items() if key != "rules"}


def one_by_one(policies: PolicySet, *pods: tuple[str, int], now: float = END - 1) -> list[tuple[bool, bool]]:
    """Whether each pod is admitted after those before it, and whether the exception is told to its author."""
    context = ReviewContext(policies, FACTS, against(policies).ledgers, now=now)
    documents = [Document("f.yaml", number, 1, pod(gpus, name=name)) for number, (name, gpus) in enumerate(pods)]
    items = review(documents, "team", context).items
    return [(item.is_allowed, any(TOLD in one for one in item.warnings)) for item in items]


def test_a_quota_is_raised_for_matching_pods_alone(tmp_path) -> None:
    """All of them count in one ledger."""
    policies = written(tmp_path, {**WITHOUT_RULES, "settings": {"gpuQuota": {"gpus": 24}}}, rules=QUOTA)
    pods = [("bert-1", 8), ("gpt-1", 8), ("gpt-2", 1), ("bert-2", 8), ("gpt-3", 1), ("bert-3", 1)]
    fits, refused = (True, False), (False, False)
    assert one_by_one(policies, *pods) == [fits, fits, refused, fits, refused, refused]
    assert one_by_one(policies, *pods, now=END) == [fits, fits, refused, refused, refused, refused]


def test_pods_that_are_excepted_from_a_quota_count_in_it(tmp_path) -> None:
    policies = written(tmp_path, {**ENTRY, "rules": ["gpuQuota"]}, rules=QUOTA)
    pods = [("gpt-1", 8), ("bert-1", 8), ("bert-2", 8), ("gpt-2", 1)]
    assert one_by_one(policies, *pods) == [(True, False), (True, False), (True, True), (False, False)]


def test_pods_that_are_excepted_from_quotas_are_not_refused_by_shared_quotas_either(tmp_path) -> None:
    head = f"{HEAD}kind: GPUSharedQuotas\nmetadata: {{name: _quotas}}\n"
    (tmp_path / "_quotas.yaml").write_text(f"{head}spec: {{quotas: [{{name: all, namespaces: ['*'], gpus: 4}}]}}\n")
    assert one_by_one(
        written(tmp_path, {**ENTRY, "rules": ["gpuQuota"]}, rules="{}"), ("bert-1", 3), ("bert-2", 3)
    ) == [(True, False), (True, True)]
    raised = {**WITHOUT_RULES, "settings": {"gpuQuota": {"gpus": 24}}}
    assert one_by_one(written(tmp_path, raised, rules=QUOTA), ("bert-1", 8)) == [(False, False)]


def test_an_exception_gives_no_quota_to_a_namespace_without_one(tmp_path) -> None:
    raised = {**WITHOUT_RULES, "settings": {"gpuQuota": {"gpus": 1}}}
    policies = written(tmp_path, raised, rules="gpuQuota: {mode: enforce}")
    assert policies.in_force("team", lambda: subject_of(OBJECTS["pod"]), END - 1).quotas == ()


LEGACY, OTHER = "registry.example.com/legacy:1", "registry.example.com/other:1"
BY_IMAGE = {**ENTRY, "match": {"images": [LEGACY]}}


def of_images(*images: tuple[str, int], **metadata: Any) -> dict[str, Any]:
    """A pod with a container of each image, with so many GPUs."""
    containers = [
        {**container(f"c{at}", requests={"nvidia.com/gpu": gpus}, limits={"nvidia.com/gpu": gpus}), "image": image}
        for at, (image, gpus) in enumerate(images)
    ]
    return pod(spec={"containers": containers}, **metadata)


def updated(old: dict[str, Any], new: dict[str, Any], policies: PolicySet, now: float = END - 1):
    return phases.validate(request(new, "UPDATE", old=old), policies, FACTS, now).answer


def test_a_pod_under_an_exception_to_images_gets_no_other_image(tmp_path) -> None:
    policies = written(tmp_path, BY_IMAGE)
    old, new = of_images((LEGACY, 16)), of_images((OTHER, 16))
    assert admitted(old, policies, END - 1)[0]
    refused = updated(old, new, policies)
    assert (refused.is_allowed, "at most 8 per pod" in refused.message) == (False, True)


def test_an_image_changes_where_no_exception_depends_on_it(tmp_path) -> None:
    by_image = written(tmp_path, BY_IMAGE)
    assert updated(of_images((OTHER, 16)), of_images((LEGACY, 16)), by_image).is_allowed
    assert updated(of_images((LEGACY, 16)), of_images((OTHER, 16)), by_image, END).is_allowed  # as it ran already
    assert updated(of_images((OTHER, 16)), of_images(("a:1", 16)), by_image).is_allowed  # older than the policy
    by_name = written(tmp_path, {**ENTRY, "namespaces": ["team*"], "match": {"all": True}})
    answer = updated(of_images((LEGACY, 16)), of_images((OTHER, 16)), by_name)
    assert (answer.is_allowed, answer.warnings) == (True, ())  # they were told when the pod was created


def test_labels_of_a_pod_under_an_exception_may_change(tmp_path) -> None:
    policies = written(tmp_path, {**ENTRY, "match": {"labels": {"app": "bert"}}})
    old, new = of_images((LEGACY, 16), labels={"app": "bert"}), of_images((LEGACY, 16), labels={"app": "gone"})
    assert admitted(old, policies, END - 1)[0]
    assert updated(old, new, policies).is_allowed


def test_no_container_takes_the_image_of_another_one_to_have_its_exception(tmp_path) -> None:
    rules = "gpuLimits: {mode: enforce, maxPerContainer: 8}"
    policies = written(tmp_path, BY_IMAGE, rules=rules)
    old, new = of_images((LEGACY, 16), (OTHER, 1)), of_images((OTHER, 16), (LEGACY, 1))
    assert admitted(old, policies, END - 1)[0]
    assert not updated(old, new, policies).is_allowed
    assert updated(old, of_images((LEGACY, 16), ("a:1", 1)), policies).is_allowed


# Exceptions to containers: the pod as a whole is meant only if all its containers with GPUs are.

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
