"""The phase of workloads: which requests it looks at, and how they are answered, counted and logged."""

import json
import logging
from typing import Any

import pytest

from tests.build import FACTS, NAMESPACE, pod, policies, policy, request, review, workload
from tests.golden import each
from tests.replicas import Replica
from webhook.admission import logs, phases
from webhook.admission.admission_review import parse
from webhook.admission.phases import UNCONCERNED
from webhook.policy.policy_set import PolicySet

LIMITED = {"gpuLimits": {"maxPerPod": 4}}
WARNING = policies(LIMITED)
ENFORCING = policies(LIMITED, workloads="enforce")
WRONG = workload("Deployment", pod(9))
CONTROLLED = {"ownerReferences": [{"kind": "Deployment", "name": "a", "uid": "1", "controller": True}]}
OWNED = {"ownerReferences": [{"kind": "Deployment", "name": "a", "uid": "1"}]}


def judged(*args: Any, using: PolicySet = WARNING, **kwargs: Any) -> phases.Decision:
    return phases.workloads(request(*args, **kwargs), using, FACTS)


def custom(kind: str = "Training", **top: Any) -> dict[str, Any]:
    """An object of a kind that nobody has heard of."""
    body = top or {"spec": {"replicas": 2, "template": {"spec": pod(9)["spec"]}}}
    metadata = {"name": "a", "namespace": NAMESPACE}
    return {"apiVersion": "ml.example.com/v1", "kind": kind, "metadata": metadata, **body}


def malformed() -> dict[str, Any]:
    """A PyTorchJob with a number where a container has its resources."""
    worker = {"template": {"spec": {"containers": [{"name": "a", "resources": 7}]}}}
    raw = custom("PyTorchJob", spec={"pytorchReplicaSpecs": {"Worker": worker}})
    return raw | {"apiVersion": "kubeflow.org/v1"}


def with_metadata(raw: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**raw, "metadata": {**raw["metadata"], **metadata}}


# Which requests it looks at.


@each("raw", {"a known kind": WRONG, "any other kind": custom()})
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_an_object_whose_pods_would_be_refused_is_warned_of_or_refused(raw: dict[str, Any], operation: str) -> None:
    old = workload("Deployment", pod(1)) if operation == "UPDATE" else None
    decision = judged(raw, operation, old=old)
    assert (decision.result, len(decision.answer.warnings)) == ("allowed", 1)
    decision = judged(raw, operation, old=old, using=ENFORCING)
    assert (decision.result, decision.answer.code, list(decision.answer.warnings)) == ("refused", 403, [])
    assert ": requests 9 GPUs" in decision.answer.message


def claim_template(**metadata: Any) -> dict[str, Any]:
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 9}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    raw = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "spec": spec}
    return {**raw, "metadata": {"name": "nine", "namespace": NAMESPACE, **metadata}}


def test_a_template_of_claims_is_warned_of_or_refused_as_a_workload_is() -> None:
    decision = judged(claim_template())
    assert (decision.result, len(decision.answer.warnings)) == ("allowed", 1)
    decision = judged(claim_template(), using=ENFORCING)
    assert (decision.result, decision.answer.code) == ("refused", 403)
    assert decision.answer.message.startswith("gpuLimits: spec.spec.devices.requests: requests 9 GPUs; ")
    assert decision.answer.audit_annotations["rules"] == "gpuLimits"
    assert judged(claim_template(**CONTROLLED), using=ENFORCING) is UNCONCERNED


@pytest.mark.parametrize("deep", ["[" * 1000 + "]" * 1000, '{"a":' * 1000 + "1" + "}" * 1000], ids=["lists", "maps"])
def test_what_is_too_deep_to_be_compared_with_what_it_was_is_judged(deep: str) -> None:
    """Custom resources may hold anything, and an answer that is none would have let this one through."""
    raw, old = (custom(spec={"deep": "DEEP", "template": {"spec": pod(gpus)["spec"]}}) for gpus in (9, 1))
    body = json.dumps(review(raw, "UPDATE", old=old)).replace('"DEEP"', deep).encode()
    decision = phases.workloads(parse(body), ENFORCING, FACTS)
    assert (decision.result, decision.answer.code) == ("refused", 403)


@each(
    "args, kwargs",
    {
        "a pod": ((pod(9),), {}),
        "deleted": ((WRONG, "DELETE"), {"old": WRONG}),
        "deleted, as the API server sends it": ((None, "DELETE"), {"old": WRONG}),
        "scale": ((WRONG, "UPDATE"), {"old": WRONG, "subResource": "scale"}),
        "status": ((WRONG, "UPDATE"), {"old": WRONG, "subResource": "status"}),
        "made by a controller": ((with_metadata(WRONG, **CONTROLLED),), {}),
        "about to go": ((with_metadata(WRONG, deletionTimestamp="2026-01-01T00:00:00Z"),), {}),
        "only metadata changes": (
            (with_metadata(WRONG, finalizers=[]), "UPDATE"),
            {"old": workload("Deployment", pod(9))},
        ),
        "only status changes": ((WRONG | {"status": {"replicas": 1}}, "UPDATE"), {"old": WRONG}),
        "nothing else is there": ((custom(status={"a": 1}), "UPDATE"), {"old": custom(status={})}),
    },
)
def test_requests_from_which_no_other_pods_follow_are_not_looked_at(args: Any, kwargs: Any) -> None:
    assert judged(*args, **kwargs) is UNCONCERNED


def test_an_owner_that_is_no_controller_is_no_excuse() -> None:
    assert judged(with_metadata(WRONG, **OWNED)).answer.warnings


def test_what_keeps_its_pods_outside_of_a_spec_is_judged_when_they_change() -> None:
    old, new = (workload("PodTemplate", pod(gpus)) for gpus in (1, 9))
    assert judged(new, "UPDATE", old=old).answer.warnings


def test_an_update_without_the_old_object_is_judged_whole() -> None:
    assert judged(WRONG, "UPDATE", old=None).answer.warnings


def test_an_update_is_told_only_what_is_new() -> None:
    raw = with_metadata(WRONG, labels={"a": "b"})
    raw["spec"] = {**raw["spec"], "replicas": 7}
    unchanged = judged(raw, "UPDATE", old=WRONG, using=ENFORCING)
    assert (unchanged.result, unchanged.answer.warnings) == ("allowed", ())
    assert judged(workload("Deployment", pod(10)), "UPDATE", old=WRONG, using=ENFORCING).result == "refused"


# Under which policy.


def test_the_policy_is_that_of_the_namespace() -> None:
    using = PolicySet.of(policy({}), {NAMESPACE: policy(LIMITED, name=NAMESPACE)})
    assert judged(WRONG, using=using).answer.warnings
    assert not judged(WRONG, using=using, namespace="other").answer.warnings


def test_what_is_in_no_namespace_has_the_default_although_a_glob_is_for_all() -> None:
    using = PolicySet.of(policy(LIMITED), {"*": policy({}, name="all")})
    raw = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch"},
        "spec": {
            "template": {
                "spec": {
                    "replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"spec": pod(9)["spec"]}}}}]
                }
            }
        },
    }
    decision = judged(raw, using=using, namespace="")
    assert (decision.answer.audit_annotations["policy"], len(decision.answer.warnings)) == ("_default", 1)


# Through the server.

POLICY = """\
apiVersion: gpupolicy.dev/v1alpha1
kind: GPUPolicy
metadata: {name: _default}
spec:
  workloads: {mode: %s}
  rules:
    gpuLimits: {mode: %s, maxPerPod: 4}
"""


@pytest.fixture
def replica(tmp_path: Any) -> Replica:
    return Replica(tmp_path / "policies")


def hold(replica: Replica, workloads: str, mode: str) -> None:
    replica.write(POLICY % (workloads, mode))
    assert replica.store.check()


def test_the_path_answers_with_warnings_and_never_with_a_patch(replica: Replica) -> None:
    hold(replica, "warn", "enforce")
    response = replica.ask("/workloads", WRONG)
    assert (response["allowed"], "patch" in response, len(response["warnings"])) == (True, False, 1)
    assert replica.count("gpu_policy_requests_total", phase="workloads", operation="CREATE", result="allowed") == 1
    assert replica.count("gpu_policy_findings_total", rule="gpuLimits", mode="warn", kind="violation") == 1


def test_the_path_refuses_where_the_policy_says_so(replica: Replica) -> None:
    hold(replica, "enforce", "enforce")
    response = replica.ask("/workloads", WRONG)
    assert (response["allowed"], response["status"]["code"]) == (False, 403)
    assert replica.count("gpu_policy_requests_total", phase="workloads", operation="CREATE", result="refused") == 1


def test_a_malformed_template_is_422_where_workloads_are_refused(replica: Replica) -> None:
    hold(replica, "enforce", "enforce")
    status = replica.ask("/workloads", malformed())["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    place = "spec.pytorchReplicaSpecs.Worker.template.spec.containers[a].resources"
    assert status["message"] == f"{place}: found a number, expected a map; correct the manifest"


@pytest.mark.parametrize("path", ["/workloads", "/validate"])
def test_what_is_only_audited_is_in_log_metrics_and_audit_annotations(
    replica: Replica, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    logged: list[logging.LogRecord] = []
    monkeypatch.setattr(logs.DECISIONS, "handle", logged.append)
    caplog.set_level(logging.INFO, logs.DECISIONS.name)
    hold(replica, "warn", "audit")
    response = replica.ask(path, WRONG if path == "/workloads" else pod(9))
    assert (response["allowed"], "warnings" in response) == (True, False)
    assert "requests 9 GPUs" in response["auditAnnotations"]["audited"]
    assert replica.count("gpu_policy_findings_total", rule="gpuLimits", mode="audit", kind="violation") == 1
    (fields,) = [vars(record)["fields"] for record in logged]
    assert [(one["rule"], one["mode"], one["refuses"]) for one in fields["findings"]] == [("gpuLimits", "audit", False)]
    assert fields["phase"] == path.removeprefix("/")
