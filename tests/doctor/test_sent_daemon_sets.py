"""The doctor names the DaemonSets whose pods depend on an answer of the webhook (A52)."""

from typing import Any

import pytest

from tests.deploy.manifests import shipped
from tests.doctor.stored import MUTATING, VALIDATING, said
from tests.e2e.test_match_conditions import KEPT_AWAY, SENT, VISIBLE, container, each, spec
from webhook.doctor import sent_objects
from webhook.doctor.doctor_report import DoctorFinding, Status
from webhook.doctor.sent_objects import why_sent

Raw = dict[str, Any]

PRIVILEGED = container("plugin", securityContext={"privileged": True})
ALL_GPUS = container("plugin", env=[{"name": VISIBLE, "value": "all"}])


def daemon_set(namespace: str, pod_spec: Raw, name: str = "plugin") -> Raw:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"template": {"spec": pod_spec}}}


def looked(*daemon_sets: Raw, missing: str = "", **changes: Any) -> list[DoctorFinding]:
    """What is found with the shipped configurations, changed, and these DaemonSets."""
    objects: dict[str, Any] = dict(zip((MUTATING, VALIDATING), shipped().configurations, strict=True))
    for entry in (entry for one in objects.values() for entry in one["webhooks"]):
        entry.update(changes)
        entry.pop(missing, None)
    namespaces = {one["metadata"]["namespace"] for one in daemon_sets}
    objects["/api/v1/namespaces"] = [
        {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}} for name in namespaces
    ]
    return said(sent_objects.daemon_sets, {**objects, sent_objects.DAEMON_SETS: daemon_sets})


def test_each_daemon_set_that_is_sent_is_named_with_the_reason_and_how_to_exclude_it() -> None:
    found = looked(
        daemon_set("monitoring", spec(ALL_GPUS), "dcgm-exporter"),
        daemon_set("monitoring", spec(PRIVILEGED), "node-exporter"),
        daemon_set("kube-system", spec(ALL_GPUS)),
        daemon_set("nvidia-device-plugin", spec(ALL_GPUS)),
        daemon_set("rendering", spec(PRIVILEGED, runtimeClassName="nvidia")),
    )
    assert [(one.status, one.found) for one in found] == [
        (
            Status.WARNING,
            f"the pods of DaemonSet {which} are sent to the webhook, because the pod {why}: on a new node they cannot "
            "start while no replica answers",
        )
        for which, why in (
            ("monitoring/dcgm-exporter", "container plugin sets NVIDIA_VISIBLE_DEVICES"),
            ("rendering/plugin", "has runtimeClassName nvidia"),
        )
    ]
    assert found[0].remedy.startswith(
        "where only the platform creates pods in monitoring, add it to webhook.namespaceSelector.exclude of the chart"
    )


def test_without_webhooks_that_fail_closed_no_daemon_set_is_read() -> None:
    (finding,) = looked(daemon_set("monitoring", spec(ALL_GPUS)), failurePolicy="Ignore")
    assert (finding.status, finding.found) == (Status.OK, "no pod depends on an answer of the webhook")


def test_without_match_conditions_every_daemon_set_is_sent() -> None:
    (finding,) = looked(daemon_set("monitoring", spec()), missing="matchConditions")
    assert "because the pod is sent as all pods are, without matchConditions" in finding.found


@pytest.mark.parametrize("pod_spec", each(SENT))
def test_what_the_conditions_send_has_a_reason(pod_spec: Raw) -> None:
    assert why_sent({"spec": pod_spec})


@pytest.mark.parametrize("pod_spec", each(KEPT_AWAY))
def test_what_the_conditions_keep_away_has_none(pod_spec: Raw) -> None:
    assert why_sent({"spec": pod_spec}) == ""


@pytest.mark.parametrize(("key", "sent"), [("cdi.k8s.io/gpus", True), ("cdi.k8s.iox/gpus", False)])
def test_annotations_are_a_reason_where_the_conditions_send_them(key: str, sent: bool) -> None:
    assert bool(why_sent({"metadata": {"annotations": {key: "all"}}, "spec": spec()})) is sent


def test_privileged_agents_are_sent_where_the_default_runtime_is_that_of_nvidia() -> None:
    assert why_sent({"spec": spec(PRIVILEGED)}) == ""
    assert why_sent({"spec": spec(PRIVILEGED)}, nvidia_is_default_runtime=True) == "container plugin is privileged"
