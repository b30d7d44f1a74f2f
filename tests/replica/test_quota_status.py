"""GPUQuota objects on a real API server: one replica writes each difference, and no object of others."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import pytest

from tests.e2e.control_plane import TENANT_TOKEN, ControlPlane
from tests.e2e.eventually import eventually
from tests.golden import each
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


@dataclass
class Site:
    """An API server, and makers of publishers and namespaces."""

    plane: ControlPlane
    publisher: Callable[..., QuotaStatus]
    namespaces: Callable[[int], list[str]]


@pytest.fixture
def site(plane: ControlPlane, publisher: Callable[..., QuotaStatus], namespaces: Callable[[int], list[str]]) -> Site:
    return Site(plane, publisher, namespaces)


NAME = "shared.research"


def published(one: QuotaStatus, standings: dict[Place, Status], is_done: Callable[[], bool]) -> None:
    """Show usage, and write in one round after the other until nothing differs."""
    one.show(standings)

    def write() -> bool:
        one.write_some()
        return is_done()

    eventually(write)


def test_what_is_wanted_is_there_then_changed_and_gone_when_it_is_wanted_no_more(site: Site) -> None:
    one, (here, there) = site.publisher(), site.namespaces(2)
    places = [(here, NAME), (there, NAME)]
    published(one, shared_quota(here, there, used=3), lambda: used(site.plane) == dict.fromkeys(places, "3"))
    published(one, shared_quota(here, there, used=4, version=2), lambda: used(site.plane) == dict.fromkeys(places, "4"))
    published(one, shared_quota(here, used=4, version=2), lambda: used(site.plane) == {places[0]: "4"})
    published(one, {}, lambda: objects(site.plane) == [])


def test_before_it_is_shown_anything_it_deletes_nothing(site: Site) -> None:
    (here,) = site.namespaces(1)
    published(site.publisher(), shared_quota(here, used=3), lambda: objects(site.plane) != [])
    restarted = site.publisher()
    eventually(lambda: restarted.known == 1)
    restarted.write_some()
    assert used(site.plane) == {(here, NAME): "3"}


def test_kubectl_shows_what_is_worth_reading(site: Site) -> None:
    (here,) = site.namespaces(1)
    model = Limit(Measure.MODEL, "H100", Fraction(4))
    quota = Quota(QuotaScope.NAMESPACE, here, (here,), (GPUS, model))
    standing = status_of(quota, {GPUS: Fraction(6), model: Fraction(17, 7)}, 7)
    published(site.publisher(), standing, lambda: objects(site.plane) != [])
    heads, row = site.plane.kubectl("get", "gpuquotas", namespace=here).stdout.splitlines()
    assert heads.split() == ["NAME", "USED", "HARD", "MODELS", "RESOURCES", "MODE", "AGE"]
    assert row.split()[:9] == [quota.key, "6", "8", "H100", "2", "3/7", "of", "4", "enforce"]


def test_what_is_written_is_what_the_custom_resource_knows(site: Site) -> None:
    """The API server drops every field that is not in its schema."""
    (here,) = site.namespaces(1)
    limits = (GPUS, Limit(Measure.MODEL, "T4", Fraction(1)), Limit(Measure.RESOURCE, "amd.com/gpu", Fraction(1)))
    standing = status_of(Quota(QuotaScope.NAMESPACE, here, (here,), limits), {}, 7, Mode.WARN)
    published(site.publisher(), standing, lambda: objects(site.plane) != [])
    (found,) = objects(site.plane)
    (wanted,) = standing.values()
    assert {**wanted, "updated": found["status"]["updated"]} == found["status"]


def test_nothing_is_written_where_nothing_that_people_see_has_changed(site: Site) -> None:
    """A ledger changes with every pod that comes and goes."""
    clock, (here,) = Clock(), site.namespaces(1)
    one = site.publisher(clock=clock)
    published(one, shared_quota(here, used=3), lambda: used(site.plane) == {(here, NAME): "3"})
    (before,) = objects(site.plane)
    eventually(lambda: one.known == 1)
    for version in range(2, 12):
        one.show(shared_quota(here, used=3, version=version))
        one.write_some()
        clock.now += 60
    (after,) = objects(site.plane)
    assert before == after


def test_of_several_replicas_one_writes(site: Site) -> None:
    """Each object has been written once, whoever did it."""
    names = site.namespaces(10)
    clocks = [Clock() for _ in range(3)]
    replicas = [site.publisher(replace(AT_ONCE, spread=30.0), clock=clock) for clock in clocks]
    for _ in range(31):
        for one, clock in zip(replicas, clocks, strict=True):
            one.show(shared_quota(*names, used=3))
            one.write_some()
            eventually(lambda one=one: one.known == len(objects(site.plane)))
            clock.now += 1.0
    assert used(site.plane) == {(name, NAME): "3" for name in names}
    assert {raw["metadata"]["generation"] for raw in objects(site.plane)} == {1}


def test_an_object_outlives_its_quota_until_every_replica_has_the_new_policies(site: Site) -> None:
    clock, (here,) = Clock(), site.namespaces(1)
    one = site.publisher(StatusTiming(round=3600.0, spread=0.0), clock=clock)
    published(one, shared_quota(here, used=3), lambda: objects(site.plane) != [])
    eventually(lambda: one.known == 1)
    one.show({})
    for _ in range(17):
        one.write_some()
        clock.now += 10.0
    assert used(site.plane) == {(here, NAME): "3"}
    clock.now += 20.0
    one.write_some()
    assert objects(site.plane) == []


def test_a_replica_that_is_behind_does_not_undo_what_another_has_counted(site: Site) -> None:
    """Unless that lasts: a restored cluster may count its versions from lower numbers."""
    clock, (here,) = Clock(), site.namespaces(1)
    ahead, behind = site.publisher(), site.publisher(replace(AT_ONCE, settle=60.0), clock=clock)
    published(ahead, shared_quota(here, used=5, version=1000), lambda: used(site.plane) == {(here, NAME): "5"})
    eventually(lambda: behind.known == 1)
    behind.show(shared_quota(here, used=4, version=999))
    for _ in range(6):
        behind.write_some()
        clock.now += 10.0
    assert used(site.plane) == {(here, NAME): "5"}
    clock.now += 10.0
    behind.write_some()
    assert used(site.plane) == {(here, NAME): "4"}


@each(
    "labels",
    {
        "without labels": {},
        "of somebody else": {MANAGED_BY: "Helm", INSTALLATION: "gpu-policy"},
        "of another installation": {MANAGED_BY: "gpu-policy-webhook", INSTALLATION: "staging"},
    },
)
def test_objects_of_others_are_neither_changed_nor_deleted(site: Site, labels: dict[str, str]) -> None:
    one, (here, there) = site.publisher(), site.namespaces(2)
    status = {"gpus": {"hard": "8", "used": "1"}}
    for name in (NAME, "shared.other"):
        raw = {"apiVersion": API, "kind": "GPUQuota", "metadata": {"name": name, "labels": labels}, "status": status}
        assert site.plane.raw("POST", f"{GROUP}/namespaces/{here}/gpuquotas", raw)[0] == 201
    eventually(lambda: one.known == 2)
    before = {raw["metadata"]["name"]: raw for raw in objects(site.plane)}
    published(one, shared_quota(here, there, used=3), lambda: used(site.plane).get((there, NAME)) == "3")
    after = {raw["metadata"]["name"]: raw for raw in objects(site.plane) if raw["metadata"]["namespace"] == here}
    assert before == after


def test_namespaces_that_are_missing_or_about_to_go_keep_no_other_waiting(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """A shared quota may name namespaces that nobody has made yet; nobody has to be told of it."""
    going, here = site.namespaces(2)
    site.plane.raw("DELETE", f"/api/v1/namespaces/{going}")  # without controllers it stays like that
    eventually(lambda: "deletionTimestamp" in site.plane.raw("GET", f"/api/v1/namespaces/{going}")[1]["metadata"])
    clock = Clock()
    one, later = site.publisher(StatusTiming(round=3600.0, spread=0.0), clock=clock), f"{here}-later"
    standings = shared_quota(later, going, here, used=1)
    with caplog.at_level(logging.WARNING):
        published(one, standings, lambda: used(site.plane) == {(here, NAME): "1"})
        one.write_some()
    assert [record.message for record in caplog.records] == []
    site.plane.namespace(later)
    clock.now += 61.0
    published(one, standings, lambda: used(site.plane).get((later, NAME)) == "1")


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


def test_without_the_right_to_write_it_says_so_once_and_goes_on(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.plane.kubectl("apply", "-f", "-", input=ROLE)
    try:
        one = site.publisher(kubeconfig=site.plane.kubeconfig_for(TENANT_TOKEN))
        one.show(shared_quota(*site.namespaces(2), used=1))
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                one.write_some()
    finally:
        site.plane.kubectl("delete", "-f", "-", input=ROLE)
    (record,) = caplog.records
    assert "GPUQuota objects cannot be brought up to date" in record.message
    assert "403" in record.message
    assert objects(site.plane) == []


def test_without_the_custom_resource_nothing_fails_and_with_it_all_is_written(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    (here,) = site.namespaces(1)
    site.plane.kubectl("delete", "crd", "gpuquotas.gpupolicy.dev")
    eventually(lambda: site.plane.raw("GET", f"{GROUP}/gpuquotas")[0] == 404)
    clock = Clock()
    one = site.publisher(replace(AT_ONCE, rest=60.0), clock=clock)
    one.show(shared_quota(here, used=1))
    with caplog.at_level(logging.WARNING):
        one.write_some()
    assert "404" in caplog.text
    site.plane.kubectl("apply", "-f", "-", input=DEFINITIONS)
    eventually(lambda: site.plane.raw("GET", f"{GROUP}/gpuquotas")[0] == 200)
    clock.now += 61.0
    published(one, shared_quota(here, used=1), lambda: used(site.plane) == {(here, NAME): "1"})
