"""Owners that are of no known kind, that come later, or that are not there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.audit.owned import made
from tests.audit.pretended_cluster import (
    DEPLOYMENTS,
    FACTORIES,
    REPLICA_SETS,
    WIDGETS,
    Cluster,
    errors,
    names,
    pretended,
    widget,
)
from tests.facts.fake_api_server import PODS, always


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with pretended(tmp_path) as cluster:
        yield cluster


def test_behind_owners_of_unknown_kinds_the_last_one_is_found(cluster):
    factory = widget("factory", kind="Factory")
    between = widget("between", factory)
    deployment = made("Deployment", "web", between)
    cluster.server.objects |= {FACTORIES: [factory], WIDGETS: [between], DEPLOYMENTS: [deployment]}
    cluster.server.objects[PODS] = [made("Pod", f"p{number}", deployment) for number in range(3)]
    objects = cluster.objects()
    documents = list(objects)
    assert {objects.owners.root_of(one.object).title for one in documents} == {"Factory team/factory"}
    assert names(documents)[0] == "Deployment web", "no object of a known kind is behind it"
    assert [len(cluster.lists(path)) for path in (WIDGETS, FACTORIES)] == [1, 1]


def test_objects_that_say_no_more_of_themselves_than_who_refers_to_them_are_not_remembered(cluster):
    """Anybody can write that a pod is owned by one of them, and there may be a million."""
    factory = widget("factory", kind="Factory")
    cluster.server.objects |= {WIDGETS: [widget(f"w{number}") for number in range(50)], FACTORIES: [factory]}
    cluster.server.objects[WIDGETS][7] = widget("w7", factory)
    cluster.server.objects[PODS] = [made("Pod", f"p{number}", widget(f"w{number}")) for number in (7, 8)]
    objects = cluster.objects()
    roots = {objects.owners.root_of(one.object).title for one in objects}
    assert roots == {"Factory team/factory", "Widget team/w8"}
    assert len(objects.owners) == 1


def test_an_owner_that_nobody_may_look_at_is_believed_and_no_error(cluster):
    cluster.server.instead[WIDGETS] = always(403, {"message": "no"})
    cluster.server.objects[PODS] = [made("Pod", f"p{number}", widget("w")) for number in range(300)]
    objects = cluster.objects()
    documents = list(objects)
    assert errors(documents) == []
    assert {objects.owners.root_of(one.object).title for one in documents} == {"Widget team/w"}
    assert len(cluster.lists(WIDGETS)) == 1


def test_what_is_made_by_a_kind_that_comes_later_does_not_come(cluster):
    """A ReplicaSet that makes Deployments is none of Kubernetes; some operator may well work like that."""
    maker = made("ReplicaSet", "maker")
    cluster.server.objects |= {REPLICA_SETS: [maker], DEPLOYMENTS: [made("Deployment", "made", maker)]}
    assert names(cluster.objects()) == ["ReplicaSet maker"]


def test_an_object_whose_owner_does_not_exist_comes(cluster):
    cluster.server.objects[REPLICA_SETS] = [made("ReplicaSet", "orphan", made("Deployment", "gone"))]
    assert names(cluster.objects()) == ["ReplicaSet orphan"]


def test_pods_made_by_a_pod_belong_to_what_made_that(cluster):
    """As the executors of Spark, and the workers of a LeaderWorkerSet."""
    leader = made("Pod", "z-leader", made("Deployment", "web"))
    workers = [made("Pod", f"a-worker-{number}", leader) for number in range(3)]
    cluster.server.objects |= {DEPLOYMENTS: [made("Deployment", "web")], PODS: [*workers, leader]}
    objects = cluster.objects()
    assert {objects.owners.root_of(one.object).title for one in objects} == {"Deployment team/web"}
