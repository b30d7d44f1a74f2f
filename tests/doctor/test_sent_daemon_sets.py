"""The doctor names the DaemonSets whose pods depend on an answer of the webhook (A52)."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.deploy.manifests import shipped
from tests.e2e.match_condition_cases import ANNOTATED, KEPT_AWAY, MATCHED, VISIBLE, container, spec
from webhook.doctor import sent_objects
from webhook.doctor.cluster import DoctorCluster
from webhook.doctor.doctor_report import DoctorFinding, Status
from webhook.doctor.installation import Installation, Place
from webhook.doctor.sent_objects import why_sent

Raw = dict[str, Any]

PRIVILEGED = container("plugin", securityContext={"privileged": True})
ALL_GPUS = container("plugin", env=[{"name": VISIBLE, "value": "all"}])


class Running(DoctorCluster):
    """A cluster with the shipped configurations, changed, and these DaemonSets."""

    def __init__(self, daemon_sets: list[Raw], *, missing: str = "", **changes: Any) -> None:
        configurations = shipped().configurations
        for configuration in configurations:
            for entry in configuration["webhooks"]:
                entry.update(changes)
                if missing:
                    entry.pop(missing, None)
        self._configurations = configurations
        self._daemon_sets = daemon_sets

    def find(self, path: str, *_: Any) -> Any:
        kinds = {one["kind"].lower() + "s": one for one in self._configurations}
        return kinds.get(path.split("/")[-2])

    def items(self, path: str, *_: Any) -> Iterator[Any]:
        if path == sent_objects.DAEMON_SETS:
            yield from self._daemon_sets
        else:
            for name in {one["metadata"]["namespace"] for one in self._daemon_sets}:
                yield {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}}


def daemon_set(namespace: str, pod_spec: Raw, name: str = "plugin") -> Raw:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"template": {"spec": pod_spec}}}


def looked(*daemon_sets: Raw, **changes: Any) -> list[DoctorFinding]:
    return list(sent_objects.daemon_sets(Installation(Running(list(daemon_sets), **changes), Place())))


def test_A52_each_daemon_set_that_is_sent_is_named_with_the_reason_and_how_to_exclude_it() -> None:
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


def test_without_any_all_is_well() -> None:
    assert [(one.status, one.found) for one in looked(daemon_set("monitoring", spec(PRIVILEGED)))] == [
        (Status.OK, "no DaemonSet depends on an answer of the webhook")
    ]


def test_without_webhooks_that_fail_closed_no_daemon_set_is_read() -> None:
    (finding,) = looked(daemon_set("monitoring", spec(ALL_GPUS)), failurePolicy="Ignore")
    assert (finding.status, finding.found) == (Status.OK, "no pod depends on an answer of the webhook")


def test_without_match_conditions_every_daemon_set_is_sent() -> None:
    (finding,) = looked(daemon_set("monitoring", spec()), missing="matchConditions")
    assert "because the pod is sent as all pods are, without matchConditions" in finding.found


@pytest.mark.parametrize("pod_spec", MATCHED)
def test_what_the_conditions_send_has_a_reason(pod_spec: Raw) -> None:
    assert why_sent({"spec": pod_spec})


@pytest.mark.parametrize("pod_spec", KEPT_AWAY)
def test_what_the_conditions_keep_away_has_none(pod_spec: Raw) -> None:
    assert why_sent({"spec": pod_spec}) == ""


@pytest.mark.parametrize(("key", "sent"), ANNOTATED)
def test_annotations_are_a_reason_where_the_conditions_send_them(key: str, sent: bool) -> None:
    assert bool(why_sent({"metadata": {"annotations": {key: "all"}}, "spec": spec()})) is sent


def test_privileged_agents_are_sent_where_the_default_runtime_is_that_of_nvidia() -> None:
    assert why_sent({"spec": spec(PRIVILEGED)}) == ""
    assert why_sent({"spec": spec(PRIVILEGED)}, nvidia_is_default_runtime=True) == "container plugin is privileged"
