"""GPUQuota objects on a real API server: one replica writes each difference, and no object of others."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from tests.e2e.control_plane import TENANT_TOKEN, ControlPlane
from tests.e2e.eventually import eventually
from tests.replica.quota_cluster import (
    AT_ONCE,
    DEFINITIONS,
    GPUS,
    GROUP,
    Clock,
    namespaces,
    objects,
    plane,
    publisher,
    shared_quota,
    status_of,
    used,
)
from webhook.engine.quota_usage import Place, Status
from webhook.quota.quotas import Limit, Measure, Quota, QuotaScope
from webhook.replica.status_objects import API, INSTALLATION, MANAGED_BY, QuotaStatus, StatusTiming
from webhook.rules.rule_settings import Mode

__all__ = ["namespaces", "plane", "publisher"]

Publish = Callable[..., QuotaStatus]
Namespaces = Callable[[int], list[str]]
NAME = "shared.research"


def published(one: QuotaStatus, standings: dict[Place, Status], is_done: Callable[[], bool]) -> None:
    """Show usage, and write in one round after the other until nothing differs."""
    one.show(standings)

    def write() -> bool:
        one.write_some()
        return is_done()

    eventually(write)


def test_what_is_wanted_is_there_then_changed_and_gone_when_it_is_wanted_no_more(
    plane: ControlPlane, publisher: Publish, namespaces: Namespaces
) -> None:
    one, (here, there) = publisher(), namespaces(2)
    places = [(here, NAME), (there, NAME)]
    published(one, shared_quota(here, there, used=3), lambda: used(plane) == dict.fromkeys(places, "3"))
    published(one, shared_quota(here, there, used=4, version=2), lambda: used(plane) == dict.fromkeys(places, "4"))
    published(one, shared_quota(here, used=4, version=2), lambda: used(plane) == {places[0]: "4"})
    published(one, [], lambda: objects(plane) == [])


def test_a_replica_writes_by_itself_what_it_is_shown(
    plane: ControlPlane, publisher: Publish, namespaces: Namespaces
) -> None:
    one, (here,) = publisher(StatusTiming(round=0.1, spread=0.1), clock=time.monotonic), namespaces(1)
    one.show(shared_quota(here, used=3))
    eventually(lambda: used(plane) == {(here, NAME): "3"})


def test_before_it_is_shown_anything_it_deletes_nothing(
    plane: ControlPlane, publisher: Publish, namespaces: Namespaces
) -> None:
    (here,) = namespaces(1)
    published(publisher(), shared_quota(here, used=3), lambda: objects(plane) != [])
    restarted = publisher()
    eventually(lambda: restarted.known == 1)
    restarted.write_some()
    assert used(plane) == {(here, NAME): "3"}


def test_kubectl_shows_what_is_worth_reading(plane: ControlPlane, publisher: Publish, namespaces: Namespaces) -> None:
    (here,) = namespaces(1)
    model = Limit(Measure.MODEL, "H100", Fraction(4))
    quota = Quota(QuotaScope.NAMESPACE, here, (here,), (GPUS, model))
    standing = status_of(quota, {GPUS: Fraction(6), model: Fraction(17, 7)}, 7)
    published(publisher(), standing, lambda: objects(plane) != [])
    heads, row = plane.kubectl("get", "gpuquotas", namespace=here).stdout.splitlines()
    assert heads.split() == ["NAME", "USED", "HARD", "MODELS", "RESOURCES", "MODE", "AGE"]
    assert row.split()[:9] == [quota.key, "6", "8", "H100", "2", "3/7", "of", "4", "enforce"]


def test_what_is_written_is_what_the_custom_resource_knows(
    plane: ControlPlane, publisher: Publish, namespaces: Namespaces
) -> None:
    """The API server drops every field that is not in its schema."""
    (here,) = namespaces(1)
    limits = (GPUS, Limit(Measure.MODEL, "T4", Fraction(1)), Limit(Measure.RESOURCE, "amd.com/gpu", Fraction(1)))
    standing = status_of(Quota(QuotaScope.NAMESPACE, here, (here,), limits), {}, 7, Mode.WARN)
    published(publisher(), standing, lambda: objects(plane) != [])
    (found,) = objects(plane)
    (wanted,) = standing.values()
    assert {**wanted, "updated": found["status"]["updated"]} == found["status"]


def test_nothing_is_written_where_nothing_that_people_see_has_changed(
    plane: ControlPlane, publisher: Publish, namespaces: Namespaces
) -> None:
    """A ledger changes with every pod that comes and goes."""
    clock, (here,) = Clock(), namespaces(1)
    one = publisher(clock=clock)
    published(one, shared_quota(here, used=3), lambda: used(plane) == {(here, NAME): "3"})
    (before,) = objects(plane)
    eventually(lambda: one.known == 1)
    for version in range(2, 12):
        one.show(shared_quota(here, used=3, version=version))
        one.write_some()
        clock.now += 60
    (after,) = objects(plane)
    assert before == after


def test_of_several_replicas_one_writes(plane: ControlPlane, publisher: Publish, namespaces: Namespaces) -> None:
    """Each object has been written once, whoever did it."""
    names = namespaces(10)
    clocks = [Clock() for _ in range(3)]
    replicas = [publisher(replace(AT_ONCE, spread=30.0), clock=clock) for clock in clocks]
    for _ in range(31):
        for one, clock in zip(replicas, clocks, strict=True):
            one.show(shared_quota(*names, used=3))
            one.write_some()
            eventually(lambda one=one: one.known == len(objects(plane)))
            clock.now += 1.0
    assert used(plane) == {(name, NAME): "3" for name in names}
    assert {raw["metadata"]["generation"] for raw in objects(plane)} == {1}


def test_an_object_outlives_its_quota_until_every_replica_has_the_new_policies(
    plane: ControlPlane, publisher: Publish, namespaces: Namespaces
) -> None:
    clock, (here,) = Clock(), namespaces(1)
    one = publisher(StatusTiming(round=3600.0, spread=0.0), clock=clock)
    published(one, shared_quota(here, used=3), lambda: objects(plane) != [])
    eventually(lambda: one.known == 1)
    one.show([])
    for _ in range(17):
        one.write_some()
        clock.now += 10.0
    assert used(plane) == {(here, NAME): "3"}
    clock.now += 20.0
    one.write_some()
    assert objects(plane) == []


def test_a_replica_that_is_behind_does_not_undo_what_another_has_counted(
    plane: ControlPlane, publisher: Publish, namespaces: Namespaces
) -> None:
    """Unless that lasts: a restored cluster may count its versions from lower numbers."""
    clock, (here,) = Clock(), namespaces(1)
    ahead, behind = publisher(), publisher(replace(AT_ONCE, settle=60.0), clock=clock)
    published(ahead, shared_quota(here, used=5, version=1000), lambda: used(plane) == {(here, NAME): "5"})
    eventually(lambda: behind.known == 1)
    behind.show(shared_quota(here, used=4, version=999))
    for _ in range(6):
        behind.write_some()
        clock.now += 10.0
    assert used(plane) == {(here, NAME): "5"}
    clock.now += 10.0
    behind.write_some()
    assert used(plane) == {(here, NAME): "4"}


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param({}, id="without labels"),
        pytest.param({MANAGED_BY: "Helm", INSTALLATION: "gpu-policy"}, id="of somebody else"),
        pytest.param({MANAGED_BY: "gpu-policy-webhook", INSTALLATION: "staging"}, id="of another installation"),
    ],
)
def test_objects_of_others_are_neither_changed_nor_deleted(
    plane: ControlPlane, publisher: Publish, namespaces: Namespaces, labels: dict[str, str]
) -> None:
    one, (here, there) = publisher(), namespaces(2)
    status = {"gpus": {"hard": "8", "used": "1"}}
    for name in (NAME, "shared.other"):
        raw = {"apiVersion": API, "kind": "GPUQuota", "metadata": {"name": name, "labels": labels}, "status": status}
        assert plane.raw("POST", f"{GROUP}/namespaces/{here}/gpuquotas", raw)[0] == 201
    eventually(lambda: one.known == 2)
    before = {raw["metadata"]["name"]: raw for raw in objects(plane)}
    published(one, shared_quota(here, there, used=3), lambda: used(plane).get((there, NAME)) == "3")
    after = {raw["metadata"]["name"]: raw for raw in objects(plane) if raw["metadata"]["namespace"] == here}
    assert before == after


def test_a_round_writes_only_so_much(plane: ControlPlane, publisher: Publish, namespaces: Namespaces) -> None:
    one = publisher(replace(AT_ONCE, most=3))
    one.show(shared_quota(*namespaces(5), used=1))
    one.write_some()
    assert len(objects(plane)) == 3
    one.write_some()
    assert len(objects(plane)) == 5


def test_namespaces_that_are_missing_or_about_to_go_keep_no_other_waiting(
    plane: ControlPlane, publisher: Publish, namespaces: Namespaces, caplog: pytest.LogCaptureFixture
) -> None:
    """A shared quota may name namespaces that nobody has made yet; nobody has to be told of it."""
    going, here = namespaces(2)
    plane.raw("DELETE", f"/api/v1/namespaces/{going}")  # without controllers it stays like that
    eventually(lambda: "deletionTimestamp" in plane.raw("GET", f"/api/v1/namespaces/{going}")[1]["metadata"])
    clock = Clock()
    one, later = publisher(StatusTiming(round=3600.0, spread=0.0), clock=clock), f"{here}-later"
    standings = shared_quota(later, going, here, used=1)
    with caplog.at_level(logging.WARNING):
        published(one, standings, lambda: used(plane) == {(here, NAME): "1"})
        one.write_some()
    assert [record.message for record in caplog.records] == []
    plane.namespace(later)
    clock.now += 61.0
    published(one, standings, lambda: used(plane).get((later, NAME)) == "1")


ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: seen-reader}
rules: [{apiGroups: [gpupolicy.dev], resources: [gpuquotas], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: seen-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: seen-reader}
subjects: [{kind: User, name: tenant}]
"""


def test_without_the_right_to_write_it_says_so_once_and_goes_on(
    plane: ControlPlane, publisher: Publish, namespaces: Namespaces, caplog: pytest.LogCaptureFixture
) -> None:
    plane.kubectl("apply", "-f", "-", input=ROLE)
    try:
        one = publisher(kubeconfig=plane.kubeconfig_for(TENANT_TOKEN))
        one.show(shared_quota(*namespaces(2), used=1))
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                one.write_some()
    finally:
        plane.kubectl("delete", "-f", "-", input=ROLE)
    (record,) = caplog.records
    assert "GPUQuota objects cannot be brought up to date" in record.message
    assert "403" in record.message
    assert objects(plane) == []


def test_without_the_custom_resource_nothing_fails_and_with_it_all_is_written(
    plane: ControlPlane, publisher: Publish, namespaces: Namespaces, caplog: pytest.LogCaptureFixture
) -> None:
    (here,) = namespaces(1)
    plane.kubectl("delete", "crd", "gpuquotas.gpupolicy.dev")
    eventually(lambda: plane.raw("GET", f"{GROUP}/gpuquotas")[0] == 404)
    clock = Clock()
    one = publisher(replace(AT_ONCE, rest=60.0), clock=clock)
    one.show(shared_quota(here, used=1))
    with caplog.at_level(logging.WARNING):
        one.write_some()
    assert "404" in caplog.text
    plane.kubectl("apply", "-f", "-", input=DEFINITIONS)
    eventually(lambda: plane.raw("GET", f"{GROUP}/gpuquotas")[0] == 200)
    clock.now += 61.0
    published(one, shared_quota(here, used=1), lambda: used(plane) == {(here, NAME): "1"})
