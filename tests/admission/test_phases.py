"""Which question each request asks of the engine, and how the outcome becomes an answer."""

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import (
    FACTS,
    WORKLOADS,
    container,
    env,
    patched,
    pod,
    policies,
    policy,
    request,
    requests_only,
    workload,
)
from tests.golden import each
from tests.rules.every_rule import INJECTING
from tests.strategies import broken_pods, checked, json_values
from webhook.admission import phases
from webhook.admission.phases import UNCONCERNED
from webhook.model.shape import ShapeError
from webhook.outcome import FindingKind
from webhook.policy.policy_set import PolicySet

ENFORCED = policies(INJECTING | {"gpuLimits": {"maxPerPod": 4}})
REPAIRING = policies({"gpuLimits": {"requestsOnly": "repair"}})
NODES = ("system:nodes", "system:authenticated")
MIRROR = {"kubernetes.io/config.mirror": "0123"}
EXPOSED = env("NVIDIA_VISIBLE_DEVICES", "all")


def mutate(*args: Any, using: PolicySet = ENFORCED, **kwargs: Any) -> phases.Decision:
    return phases.mutate(request(*args, **kwargs), using, FACTS)


def validate(*args: Any, using: PolicySet = ENFORCED, **kwargs: Any) -> phases.Decision:
    return phases.validate(request(*args, **kwargs), using, FACTS)


def with_debug_container(raw: dict[str, Any], **part: Any) -> dict[str, Any]:
    changed = copy.deepcopy(raw)
    changed["spec"]["ephemeralContainers"] = [{"name": "debug", **part}]
    return changed


# Which requests concern the webhook.


@pytest.mark.parametrize("phase", [mutate, validate])
@each(
    "args, kwargs",
    {
        "a pod is deleted": ((None, "DELETE"), {"old": pod(2)}),
        "exec": ((pod(2), "CONNECT"), {"kind": ("", "v1", "PodExecOptions")}),
        "binding": ((pod(2),), {"kind": ("", "v1", "Binding"), "subResource": "binding"}),
        "another kind": ((pod(2),), {"kind": ("", "v1", "ConfigMap")}),
        "a Pod of another group": ((pod(2),), {"kind": ("example.com", "v1", "Pod")}),
        "a custom workload": ((pod(2),), {"kind": ("kubeflow.org", "v1", "PyTorchJob")}),
        "no object": ((None,), {}),
    },
)
def test_requests_that_concern_no_rule_pass(phase: Any, args: Any, kwargs: Any) -> None:
    assert phase(*args, **kwargs) is UNCONCERNED


@pytest.mark.parametrize("subresource", ["", "ephemeralcontainers", "resize", "status"])
def test_pods_are_mutated_on_create_only(subresource: str) -> None:
    assert mutate(pod(2), "UPDATE", old=pod(2), subResource=subresource) is UNCONCERNED


@pytest.mark.parametrize("phase", [mutate, validate])
@pytest.mark.parametrize("kind", WORKLOADS)
def test_workloads_are_left_to_a_phase_of_their_own(phase: Any, kind: str) -> None:
    assert phase(workload(kind, requests_only())) is UNCONCERNED


@pytest.mark.parametrize("phase", [mutate, validate])
def test_a_mirror_pod_is_skipped_when_the_kubelet_shows_it(phase: Any) -> None:
    assert phase(pod(9, annotations=MIRROR), groups=NODES) is UNCONCERNED


@pytest.mark.parametrize("phase", [mutate, validate])
@each(
    "groups, annotations",
    {
        "the annotation alone": (("system:authenticated",), MIRROR),
        "another group": (("system:nodes:gpu", "system:serviceaccounts"), MIRROR),
        "a node without the annotation": (NODES, None),
        "another annotation": (NODES, {"mirror": "kubernetes.io/config.mirror"}),
    },
)
def test_a_pod_is_not_skipped_for_less(phase: Any, groups: Any, annotations: Any) -> None:
    decision = phase(pod(9, annotations=annotations), groups=groups)
    assert decision.answer.patch or not decision.answer.is_allowed


# The mutating phase of pods.


def test_a_gpu_pod_is_completed() -> None:
    decision = mutate(pod(2))
    assert decision.result == "patched"
    assert patched(pod(2), decision) == decision.outcome.object  # type: ignore[union-attr]  # a pod has an outcome


def test_a_pod_with_a_generated_name_is_completed_and_judged_alike() -> None:
    raw = pod(2, generateName="trainer-", uid="")
    del raw["metadata"]["name"]
    decision = mutate(raw, name="")
    assert decision.answer.patch == mutate(pod(2)).answer.patch
    assert validate(patched(raw, decision)).result == "allowed"


@pytest.mark.parametrize("phase", [mutate, validate])
def test_a_dry_run_is_answered_like_any_other(phase: Any) -> None:
    assert phase(pod(2), dryRun=True) == phase(pod(2))


@pytest.mark.parametrize("phase", [mutate, validate])
@pytest.mark.parametrize("named", ["open", "", None])
def test_the_policy_is_that_of_the_namespace_of_the_request(phase: Any, named: str | None) -> None:
    using = PolicySet.of(policy(INJECTING), {"open": policy({}, name="open")})
    raw = pod(2, namespace=named)
    assert phase(raw, using=using, namespace="team").answer.audit_annotations["policy"] == "_default"
    assert phase(raw, using=using, namespace="open").answer.audit_annotations["policy"] == "open"


@pytest.mark.parametrize("mode", ["warn", "audit"])
def test_no_phase_says_anything_twice(mode: str) -> None:
    using = policies(INJECTING, mode=mode)
    for decision in (mutate(requests_only(), using=using), validate(pod(2), using=using), mutate(pod(2), using=using)):
        assert decision.outcome is not None
        assert len(set(decision.outcome.findings)) == len(decision.outcome.findings)


def test_a_pod_that_nothing_completes_is_marked_for_replicas_with_another_policy() -> None:
    using, other = policies({"gpuLimits": {}}), policies({"nodeAffinity": INJECTING["nodeAffinity"]})
    marked = phases.mutate(request(pod(1)), using, FACTS)
    assert marked.result == "allowed"
    assert validate(patched(pod(1), marked), using=other).answer.is_allowed
    assert not validate(pod(1), using=other).answer.is_allowed


# The validating phase.


def test_a_pod_that_lost_an_enforced_node_affinity_is_refused() -> None:
    answer = validate(pod(1), using=policies({"nodeAffinity": INJECTING["nodeAffinity"]})).answer
    assert answer.message == (
        "nodeAffinity: spec: required node affinity pool In [gpu] should have been injected but is missing; another "
        "webhook removed it or added the GPUs later, or mutate.gpupolicy.dev was not called. Create the pod again, or "
        "tell the platform team."
    )


def test_a_pod_that_lost_an_enforced_toleration_is_let_through_with_a_warning_that_ends_in_the_remedy() -> None:
    answer = validate(pod(1), using=policies({"tolerations": {}})).answer
    assert answer.is_allowed
    (warning,) = answer.warnings
    assert warning.startswith("tolerations: spec: toleration nvidia.com/gpu Exists:NoSchedule should have been inj")
    assert warning.endswith(". Create the pod again, or tell the platform team.")


@pytest.mark.parametrize("subresource", ["", "ephemeralcontainers", "resize"])
def test_an_update_is_refused_only_for_what_is_new(subresource: str) -> None:
    old = pod(9)
    assert validate(old, "UPDATE", old=old, subResource=subresource).result == "allowed"
    changed = with_debug_container(old, env=EXPOSED)
    answer = validate(changed, "UPDATE", old=old, subResource=subresource).answer
    assert answer.message.startswith("visibleDevices: spec.ephemeralContainers[debug].env[NVIDIA_VISIBLE_DEVICES]: is")
    assert validate(changed, "UPDATE", old=changed, subResource=subresource).result == "allowed"


def test_a_pod_being_deleted_can_lose_its_finalizers_while_the_policy_forbids_it() -> None:
    old = pod(9, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["example.com/hold"])
    new = pod(9, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=[])
    assert validate(new, "UPDATE", old=old).result == "allowed"


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_a_pod_being_deleted_is_judged_like_any_other(operation: str) -> None:
    old = pod(2, deletionTimestamp="2026-01-01T00:00:00Z") if operation == "UPDATE" else None
    raw = with_debug_container(pod(2, deletionTimestamp="2026-01-01T00:00:00Z"), env=EXPOSED)
    assert validate(raw, operation, old=old).result == "refused"
    deleting = pod(2, deletionTimestamp="2026-01-01T00:00:00Z")
    assert mutate(deleting).answer.patch == mutate(pod(2)).answer.patch


def test_an_update_without_the_old_object_is_judged_whole() -> None:
    decision = validate(pod(9), "UPDATE", old=None)
    assert decision.outcome is not None
    assert {finding.kind for finding in decision.outcome.findings if finding.refuses} == {FindingKind.VIOLATION}
    assert decision.result == "refused"


# What the API server is told.


def test_the_audit_log_learns_policy_hash_and_the_rules_that_spoke() -> None:
    annotations = validate(pod(9)).answer.audit_annotations
    rules = "gpuLimits,sharedGpus,cudaDriver,tolerations,nodeAffinity,priorityClass,runtimeClass,sharedMemory,ncclEnv"
    assert annotations == {"policy": "_default", "hash": ENFORCED.default.hash, "rules": rules}


def test_the_audit_log_learns_what_audit_mode_found() -> None:
    answer = validate(pod(9), using=policies({"gpuLimits": {"maxPerPod": 4}}, mode="audit")).answer
    assert (answer.is_allowed, list(answer.warnings)) == (True, [])
    assert answer.audit_annotations["audited"].startswith("gpuLimits: spec: requests 9 GPUs")


def test_a_pod_with_thousands_of_violations_gets_answers_of_bounded_length() -> None:
    many = [container(f"c{index}", requests={"nvidia.com/gpu": 1}) for index in range(2000)]
    answer = mutate(pod(spec={"containers": many})).answer
    assert len(answer.message) < 100_000
    answer = mutate(pod(spec={"containers": many}), using=policies({"gpuLimits": {}}, mode="audit")).answer
    assert sum(map(len, answer.audit_annotations.values())) < 5000


# Whatever the pod.


@given(st.one_of(broken_pods(), json_values(20)), st.sampled_from(sorted(WORKLOADS)))
@checked
def test_no_json_is_more_than_malformed(raw: Any, kind: str) -> None:
    in_template = {"metadata": None, **workload(kind, {"spec": raw})}
    whole = {"Pod": raw if isinstance(raw, dict) else {"spec": raw}, kind: in_template}
    for name, obj in whole.items():
        good = pod(1) if name == "Pod" else workload(kind, pod(1))
        for phase in (phases.mutate, phases.validate):
            assert result(phase, name, "CREATE", obj, None) in RESULTS
            assert result(phase, name, "UPDATE", obj, good) in RESULTS
            assert result(phase, name, "UPDATE", good, obj) in RESULTS


RESULTS = {"allowed", "patched", "refused"}


def result(phase: Any, kind: str, operation: str, obj: Any, old: Any) -> str:
    """What becomes of a request that was not squeezed through JSON: shapes reach the engine as they were generated."""
    api_version = WORKLOADS[kind][0] if kind in WORKLOADS else "v1"
    asked = replace(
        request(pod(1)), api_version=api_version, kind=kind, operation=operation, object=obj, old_object=old
    )
    try:
        return str(phase(asked, policies(INJECTING), FACTS).result)
    except ShapeError as error:
        return phases.malformed(error).result
