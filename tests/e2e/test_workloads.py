"""What people see who run `kubectl apply` of what makes pods: warnings or refusals, and silence otherwise."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import runbook
from tests.e2e.applying import apply
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import Installation
from tests.e2e.kinds import defined_kinds
from tests.e2e.objects import JUDGED, gpu_pod
from tests.e2e.registration import Registration
from tests.e2e.test_match_conditions import workload

Raw = dict[str, Any]
Namespaces = Callable[[str], str]

TOO_MANY = "requests 9 GPUs; the policy allows at most 8 per pod. Request 8 or fewer."
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "a"}},
}


def template(gpus: int) -> Raw:
    """A pod template with one container, of pods that are spread over nodes."""
    spec = copy.deepcopy(gpu_pod("a", gpus, topologySpreadConstraints=[SPREAD])["spec"])
    return {"metadata": {"labels": {"app": "a"}}, "spec": spec}


def deployment(gpus: int, kind: str = "Deployment") -> Raw:
    """A workload of three pods."""
    raw = workload(kind, template(gpus)["spec"], "a")
    raw["spec"] |= {"replicas": 3} if kind == "Deployment" else {}
    return raw


def custom(api_version: str, kind: str, spec: Raw) -> Raw:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}


WORKERS = {"Worker": {"replicas": 3, "template": template(9)}}
WRONG = {
    "Deployment": (deployment(9), "gpuLimits: pod template (3 pods, 27 GPUs): spec.template.spec: "),
    "CronJob": (deployment(9, "CronJob"), "spec.jobTemplate.spec.template.spec: "),
    "PyTorchJob": (
        custom("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": WORKERS}),
        "pod template of Worker (3 pods, 27 GPUs): spec.pytorchReplicaSpecs.Worker.template.spec",
    ),
    "a kind that nobody knows": (
        custom("ml.example.com/v1", "Training", {"replicas": 3, "workers": {"template": template(9)}}),
        "spec.workers.template.spec",
    ),
}
"""Workloads with too many GPUs, and how the place is called."""


@pytest.fixture(scope="module")
def registration(installation: Installation, control_plane: ControlPlane) -> Iterator[Registration]:
    """The webhook is asked about the kind Training, too, as the chart's workloads.extraRules would register it."""
    kind = {"apiGroups": ["ml.example.com"], "apiVersions": ["*"], "resources": ["trainings"], "scope": "*"}
    kind["operations"] = ["CREATE", "UPDATE"]
    with defined_kinds(control_plane), Registration(installation, kind) as registration:
        yield registration


@pytest.mark.parametrize(("raw", "whose"), WRONG.values(), ids=WRONG)
def test_a_wrong_template_is_told_or_refused_where_it_is_applied(
    webhook: Installation, make_namespace: Namespaces, raw: Raw, whose: str
) -> None:
    status, said = apply(webhook.plane, make_namespace("told"), raw)
    assert (status, said.startswith("Warning: "), whose in said, TOO_MANY in said) == (0, True, True, True), said
    status, said = apply(webhook.plane, make_namespace("held"), raw)
    assert (status, whose in said, TOO_MANY in said) == (1, True, True), said
    assert 'admission webhook "workloads.gpupolicy.dev" denied the request: ' in said


def test_what_is_right_is_not_spoken_of(webhook: Installation, make_namespace: Namespaces) -> None:
    for prefix in ("told", "held"):
        assert apply(webhook.plane, make_namespace(prefix), deployment(2)) == (0, "")


def test_scale_status_finalizers_and_deletion_stay_silent(webhook: Installation, make_namespace: Namespaces) -> None:
    """Although the template is wrong, and the policy refuses workloads by now."""
    plane, namespace = webhook.plane, make_namespace("told")
    wrong = deployment(9)
    assert apply(plane, namespace, wrong)[0] == 0
    rules = f"    gpuLimits: {{mode: enforce}}\n{JUDGED}"
    webhook.write_policy(namespace, f"spec:\n  workloads: {{mode: enforce}}\n  rules:\n{rules}")
    other = {**wrong, "metadata": {"name": "other"}}
    eventually(lambda: apply(plane, namespace, other, dry_run=True)[0] == 1)
    changes = {
        "scale": ("scale", "deployment/a", "--replicas=7"),
        "annotation": ("annotate", "deployment/a", "some=annotation"),
        "finalizer": ("patch", "deployment/a", "--type=merge", '--patch={"metadata":{"finalizers":["example.com/a"]}}'),
        "replicas by hand": ("patch", "deployment/a", "--type=merge", '--patch={"spec":{"replicas":5}}'),
        "deletion": ("delete", "deployment/a", "--wait=false"),
        "no finalizer": ("patch", "deployment/a", "--type=merge", '--patch={"metadata":{"finalizers":null}}'),
    }
    for change, arguments in changes.items():
        done = plane.kubectl(*arguments, namespace=namespace, check=False)
        assert (change, done.returncode, done.stderr) == (change, 0, "")
    (webhook.policies / f"{namespace}.yaml").unlink()


def test_what_is_in_no_namespace_has_the_default_policy(webhook: Installation) -> None:
    replicated = [{"name": "node", "template": {"spec": {"template": template(9)}}}]
    spec = {"template": {"spec": {"replicatedJobs": replicated}}}
    raw = custom("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", spec)
    status, said = apply(webhook.plane, "default", raw, dry_run=True)
    assert (status, "Warning: gpuLimits: pod template of node" in said) == (0, True), said


def test_without_replicas_workloads_are_taken_as_they_are(webhook: Installation, make_namespace: Namespaces) -> None:
    plane, namespace = webhook.plane, make_namespace("held")
    webhook.stop()
    try:
        assert apply(plane, namespace, deployment(9))[0] == 0
    finally:
        webhook.start()


def test_the_runbooks_command_ends_what_is_said_of_workloads_and_pods_are_judged_as_before(
    webhook: Installation, make_namespace: Namespaces, tmp_path: Path
) -> None:
    plane, namespace = webhook.plane, make_namespace("held")
    assert apply(plane, namespace, deployment(9))[0] == 1
    command, *_ = runbook.blocks("Taking workloads as they are")
    done = runbook.run(plane, tmp_path, command)
    assert (done.returncode, done.stderr) == (0, "")
    eventually(lambda: apply(plane, namespace, deployment(9)) == (0, ""))
    status, said = apply(plane, namespace, gpu_pod("a", 9))
    assert (status, TOO_MANY in said) == (1, True), said
