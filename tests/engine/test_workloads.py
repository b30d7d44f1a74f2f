"""Workloads are judged by the pods that they would make: in which words, as firmly as what, and what counts as new."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given

from tests.build import FACTS, WORKLOADS, container, node, pod, policy, requests_only, workload
from tests.golden import each, golden
from tests.judged_workloads import (
    ENFORCING,
    EXPOSED,
    LIMITED,
    TEAM,
    WARNING,
    cluster,
    judged,
    pods_foreseen,
    said,
    training,
)
from tests.quota.quotas import own
from tests.strategies import broken_pods, checked_on_pods
from webhook import engine
from webhook.engine.workloads import MOST_TEMPLATES
from webhook.facts.facts import ClusterFacts
from webhook.model.shape import ShapeError
from webhook.outcome import FindingKind, Outcome
from webhook.rules.rule_settings import Mode

# What is said, and how firmly.


def test_a_template_is_named_with_its_group_its_replicas_and_all_their_gpus() -> None:
    (found,) = said(training(worker=9))
    place = "spec.pytorchReplicaSpecs.Worker.template.spec"
    assert found.startswith(f"gpuLimits: pod template of Worker (4 pods, 36 GPUs): {place}: requests 9 GPUs; ")


@pytest.mark.parametrize(
    ("raw", "whose"),
    [
        pytest.param(workload("Deployment", pod(9)), "pod template (1 pod, 9 GPUs)", id="one pod"),
        pytest.param(workload("DaemonSet", pod(9)), "pod template (9 GPUs in each pod)", id="one for each node"),
        pytest.param(workload("PodTemplate", pod(9)), "pod template (9 GPUs in each pod)", id="none by itself"),
        pytest.param(
            workload("Deployment", pod(spec={"containers": [container("c", env=EXPOSED)]})),
            "pod template (1 pod)",
            id="no GPU",
        ),
    ],
)
def test_numbers_are_said_as_far_as_there_are_any(raw: dict[str, Any], whose: str) -> None:
    using = policy(LIMITED | {"visibleDevices": {}})
    assert [finding.about for finding in judged(raw, using=using).findings] == [whose]


@pytest.mark.parametrize("kind", WORKLOADS)
def test_what_would_refuse_the_pods_warns_or_refuses_as_the_policy_has_it(kind: str) -> None:
    raw = workload(kind, pod(9))
    warned, refused = judged(raw), judged(raw, using=ENFORCING)
    assert (len(warned.warnings), warned.refusals) == (1, ())
    assert (refused.warnings, len(refused.refusals)) == ((), 1)
    assert judged(raw, using=policy(LIMITED, workloads="disabled")).findings == ()
    assert (warned.object, warned.patch, refused.patch) == (raw, (), ())


@pytest.mark.parametrize("workloads", ["warn", "enforce"])
@pytest.mark.parametrize(("mode", "warns"), [("warn", True), ("audit", False)])
def test_rules_that_are_not_enforced_say_no_more_of_a_template_than_of_a_pod(
    mode: str, warns: bool, workloads: str
) -> None:
    (finding,) = judged(training(worker=9), using=policy(LIMITED, mode=mode, workloads=workloads)).findings
    assert (finding.mode, finding.refuses, finding.warns) == (Mode(mode), False, warns)


def test_everything_is_said_at_once() -> None:
    using = policy(LIMITED | {"visibleDevices": {}}, workloads="enforce")
    raw = training(9, 9, env=EXPOSED)
    assert judged(raw, using=using).refusal.startswith("3 violations:\n- gpuLimits: pod template of Master (1 pod, 9 G")


def test_gpus_in_requests_only_are_found_where_the_api_server_looks_at_nothing() -> None:
    raw = training(resources={"requests": {"nvidia.com/gpu": 8}})
    (finding,) = judged(raw).findings
    assert finding.field == "spec.pytorchReplicaSpecs.Worker.template.spec.containers[pytorch].resources"
    assert finding.message.startswith("nvidia.com/gpu is 8 in requests but missing in limits")


def test_pods_that_will_be_repaired_are_not_held_against_custom_resources() -> None:
    using = policy({"gpuLimits": {"requestsOnly": "repair"}}, workloads="enforce")
    assert judged(training(resources={"requests": {"nvidia.com/gpu": 8}}), using=using).findings == ()


@pytest.mark.parametrize("kind", WORKLOADS)
def test_what_the_api_server_refuses_in_its_own_kinds_is_not_called_repaired(kind: str) -> None:
    using = policy({"gpuLimits": {"requestsOnly": "repair"}})
    (found,) = engine.template_outcomes(workload(kind, requests_only()), TEAM, using, FACTS)
    assert (found.is_refused, [finding.field for finding in found.findings]) == (
        True,
        [".".join((*WORKLOADS[kind][1], "spec.containers[c0].resources"))],
    )


def test_templates_are_judged_as_their_pods_will_be_and_say_what_will_be_injected() -> None:
    using = policy({"tolerations": {}, "sharedMemory": {"size": "1Gi"}}, workloads="enforce")
    assert judged(training(), using=using).findings == ()
    injected = {one.template.group: [i.rule for i in one.injections] for one in pods_foreseen(training(), using)}
    assert injected == {"Master": ["tolerations", "sharedMemory"], "Worker": ["tolerations", "sharedMemory"]}


def test_what_would_become_of_the_pods_does_not_depend_on_what_is_said_of_workloads() -> None:
    found = [[one.findings for one in pods_foreseen(training(9, 9), policy(LIMITED, workloads=mode))] for mode in MODES]
    assert found[0] == found[1] == found[2]
    assert all(finding.refuses for (finding,) in found[0])


MODES = ("warn", "enforce", "disabled")


@pytest.mark.parametrize("name", ["x" * 2_000_000, "\x1b[2J" * 500_000], ids=["long", "full of control characters"])
def test_names_of_any_length_make_no_long_text(name: str) -> None:
    raw = training(9, 9, name=name, env=EXPOSED)
    raw["spec"]["pytorchReplicaSpecs"][name] = raw["spec"]["pytorchReplicaSpecs"].pop("Worker")
    refusal = judged(raw, using=policy(LIMITED | {"visibleDevices": {}}, workloads="enforce")).refusal
    assert len(refusal) < 4_000
    assert "\x1b" not in refusal


# What is new in an update.


def test_what_was_said_already_is_not_said_again() -> None:
    assert said(training(9, 9), old=training(9, 9)) == []
    assert said(training(9, 9, 12), old=training(9, 9, 4)) == []


@pytest.mark.parametrize(
    ("old", "new", "groups"),
    [
        pytest.param(training(9, 8), training(9, 9), ["Worker"], id="in another group"),
        pytest.param(training(8, 9), training(8, 10), ["Worker"], id="more than before"),
        pytest.param(training(8, 9), training(8, 8), [], id="mended"),
        pytest.param({}, training(9, 9), ["Master", "Worker"], id="an old object that is not known"),
        pytest.param(cluster(9), cluster(2, 9), [], id="a group that another one was put before"),
        pytest.param(cluster(9), cluster(10, 9), ["gpu-10"], id="a group that was put before another one"),
    ],
)
def test_what_is_new_in_an_update_is_said(old: Any, new: dict[str, Any], groups: list[str]) -> None:
    found = judged(new, old=old).findings
    assert [finding.about.partition(" (")[0].removeprefix("pod template of ") for finding in found] == groups


@golden
def test_a_total_is_said_when_it_begins_to_pass_the_quota(before: int, after: int, is_said: bool) -> None:
    assert bool(said(training(workers=after), own(gpus=32), old=training(workers=before))) is is_said


# Quotas that the pods pass only together.


def test_a_quota_that_all_groups_pass_together_is_said_once() -> None:
    (finding,) = judged(training(), own(gpus=32)).findings
    assert str(finding) == (
        "gpuQuota: spec: its 5 pods of Master and Worker request 40 GPUs together; GPU quota 'team-vision' allows 32 "
        "GPUs in all. Run fewer, or request less in each."
    )
    assert (finding.refuses, finding.warns) == (False, True)


def test_pods_that_are_refused_one_by_one_do_not_count() -> None:
    assert [finding.rule for finding in judged(training(9, 4), own(gpus=16)).findings] == ["gpuLimits"]


def test_a_review_hears_of_the_total_with_the_first_group_that_has_a_part_in_it() -> None:
    found = engine.template_outcomes(training(), TEAM, WARNING, FACTS, [own(gpus=32)])
    assert [[finding.rule for finding in one.findings] for one in found] == [["gpuQuota"], []]
    assert not any(one.is_refused for one in found)


# Malformed templates.


def broken(**changes: Any) -> dict[str, Any]:
    raw = training(9, 8, **changes)
    raw["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"] = 7
    return raw


PLACE = "spec.pytorchReplicaSpecs.Worker.template.spec.containers: found a number, expected a list"


def test_a_malformed_template_is_a_warning_that_takes_nothing_from_the_others() -> None:
    found = said(broken())
    assert found[0].startswith("gpuLimits: pod template of Master")
    assert found[1:] == [f"workloads: pod template of Worker (4 pods): {PLACE}. Correct the manifest."]
    assert judged(broken()).refusals == ()


def test_a_malformed_template_is_an_error_where_workloads_are_refused() -> None:
    with pytest.raises(ShapeError, match=PLACE.replace(".", r"\.")):
        judged(broken(), using=ENFORCING)


def test_a_review_is_told_the_place_in_the_object() -> None:
    with pytest.raises(ShapeError, match=PLACE.replace(".", r"\.")):
        pods_foreseen(broken(), WARNING)


@pytest.mark.parametrize("using", [WARNING, ENFORCING], ids=["warn", "enforce"])
def test_an_object_that_was_malformed_before_can_still_be_changed(using: Any) -> None:
    changed = broken()
    changed["spec"]["runPolicy"] = {"suspend": True}
    assert said(changed, using=using, old=broken()) == []


def test_a_template_whose_old_version_was_malformed_is_new_as_a_whole() -> None:
    (finding,) = judged(training(9, 9), old=broken()).findings
    assert finding.about == "pod template of Worker (4 pods, 36 GPUs)"


@checked_on_pods
@given(raw=broken_pods())
def test_no_template_makes_more_than_an_error_with_a_place(raw: Any) -> None:
    job = training()
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"] = raw
    assert isinstance(judged(job, own(gpus=32)), Outcome)
    assert isinstance(judged(training(), own(gpus=32), old=job), Outcome)


# Objects that are made to cost.


def crowd(count: int, gpus: int = 9) -> dict[str, Any]:
    return cluster(*range(gpus, gpus + count))


def test_only_so_many_templates_of_one_object_are_judged_where_somebody_waits_and_it_is_said() -> None:
    found = judged(crowd(30_000)).findings
    *judged_ones, last = found
    assert len(judged_ones) == MOST_TEMPLATES - 1  # the head is one of them, and asks for nothing
    assert (last.kind, last.warns, last.refuses) == (FindingKind.ADVICE, True, False)
    assert str(last) == (
        f"workloads: spec.workerGroupSpecs[gpu-{8 + MOST_TEMPLATES}].template.spec: not checked, nor are the "
        f"templates after it: of 30001 pod templates the first {MOST_TEMPLATES} are checked; pods of the others are "
        "checked when they are created."
    )


def test_what_was_not_looked_at_is_not_said_again() -> None:
    assert said(crowd(MOST_TEMPLATES + 2), old=crowd(MOST_TEMPLATES + 1)) == []


def test_a_review_looks_at_all_of_them() -> None:
    assert sum(one.is_refused for one in pods_foreseen(crowd(MOST_TEMPLATES + 5), WARNING)) == MOST_TEMPLATES + 5


def test_nothing_changes_the_object_that_is_judged() -> None:
    raw = training(9, 9)
    before = copy.deepcopy(raw)
    judged(raw, own(gpus=8), old=training())
    assert raw == before == json.loads(json.dumps(raw))


def test_what_would_refuse_pods_is_said_before_what_would_only_warn() -> None:
    """The API server passes on the first 4096 characters of all warnings."""
    using = policy(LIMITED | {"visibleDevices": {"mode": "warn"}})
    raw = cluster(9)
    raw["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"] = EXPOSED
    assert [finding.rule for finding in judged(raw, using=using).findings] == ["gpuLimits", "visibleDevices"]


# Rules about pods that work together.

EIGHT = {"nvidia.com/gpu": "8", "rdma/ib": "8"}
FABRIC = ClusterFacts.of([node(f"n{at}", capacity={"cpu": "64", "memory": "1Ti", **EIGHT}) for at in range(4)])


def mpi(workers: int) -> dict[str, Any]:
    roles = {"Launcher": (1, pod(0)), "Worker": (workers, pod(8))}
    specs = {name: {"replicas": count, "template": {"spec": one["spec"]}} for name, (count, one) in roles.items()}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": {"mpiReplicaSpecs": specs}}


def groups(size: int, **leader: Any) -> dict[str, Any]:
    """A LeaderWorkerSet of three groups."""
    spec = {"leaderWorkerTemplate": {"size": size, "workerTemplate": {"spec": pod(8)["spec"]}, **leader}, "replicas": 3}
    return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "spec": spec}


def indexed(**spec: Any) -> dict[str, Any]:
    raw = workload("Job", pod(8))
    return {**raw, "spec": {**raw["spec"], "completionMode": "Indexed", **spec}}


@each(
    "raw, number",
    {
        "two of one kind": (mpi(2), 1),
        "one of each of two kinds": (training(workers=1), 2),
        "one GPU pod beside another": (mpi(1), 0),
        "nobody says how many": (training(workers="{{n}}"), 0),
        "groups of two": (groups(2), 1),
        "groups of one": (groups(1), 0),
        "groups with one GPU pod": (groups(2, leaderTemplate={"spec": pod(0)["spec"]}), 0),
        "groups with two GPU pods": (groups(3, leaderTemplate={"spec": pod(0)["spec"]}), 1),
        "two indexes": (indexed(completions=2, parallelism=2), 1),
        "one index": (indexed(completions=1), 0),
        "replicas that serve alone": (workload("Deployment", pod(8)), 0),
    },
)
def test_rules_about_groups_are_silent_where_an_object_makes_one_gpu_pod(raw: dict[str, Any], number: int) -> None:
    using = policy({"network": {}}, mode="warn")
    applied = engine.validate_workload(raw, TEAM, using, FABRIC)
    foreseen = engine.template_outcomes(raw, TEAM, using, FABRIC)
    assert [one.rule for one in applied.findings] == ["network"] * number
    assert [one for outcome in foreseen for one in outcome.findings] == list(applied.findings)
