"""The objects of a cluster, through lists that break off, are refused, or hold more than fits into memory.

What a real API server answers is tested on one, in tests/e2e/test_audit.py.
"""

import gc
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.audit.owned import made
from tests.audit.pretended_cluster import (
    DEPLOYMENTS,
    FACTORIES,
    REPLICA_SETS,
    SERVED,
    WIDGETS,
    Cluster,
    errors,
    many,
    names,
    pretended,
    widget,
)
from tests.facts.fake_api_server import PODS, Answer, Request, always, first
from tests.facts.served_kinds import aggregated
from tests.golden import each
from webhook.kubernetes import api_server

EXPIRED = "The provided continue parameter is too old"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with pretended(tmp_path) as cluster:
        yield cluster


def test_workloads_come_before_pods_and_what_they_made_comes_as_pods_only(cluster):
    deployment = made("Deployment", "web")
    replica_set = made("ReplicaSet", "web-1", deployment)
    cluster.server.objects[DEPLOYMENTS] = [deployment]
    cluster.server.objects[REPLICA_SETS] = [replica_set, made("ReplicaSet", "alone")]
    cluster.server.objects[PODS] = [made("Pod", "web-1-a", replica_set)]
    objects = cluster.objects()
    documents = list(objects)
    assert names(documents) == ["Deployment web", "ReplicaSet alone", "Pod web-1-a"]
    assert objects.owners.root_of(documents[-1].object).title == "Deployment team/web"
    assert objects.calls == len(cluster.server.seen) == 5  # what is served, twice; two kinds; pods
    assert {(one.source, one.line) for one in documents} == {("", 0)}


def test_objects_of_a_list_say_what_they_are_and_not_who_wrote_which_field(cluster):
    bare = {key: value for key, value in made("Deployment", "web").items() if key == "metadata"}
    bare["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    cluster.server.objects[DEPLOYMENTS] = [bare]
    (document,) = cluster.objects()
    assert (document.api_version, document.kind) == ("apps/v1", "Deployment")
    assert "managedFields" not in document.object["metadata"]


def test_lists_are_asked_for_in_pages_and_never_from_the_cache_as_a_whole(cluster):
    cluster.server.objects[PODS] = many(600)
    assert len(names(cluster.objects())) == 600
    assert [query.get("continue") for query in cluster.lists(PODS)] == [None, "250", "500"]
    for path in (DEPLOYMENTS, PODS):
        assert all(query["limit"] == "250" and "resourceVersion" not in query for query in cluster.lists(path))


def test_pods_that_have_finished_are_not_asked_for(cluster):
    list(cluster.objects())
    assert cluster.lists(PODS)[0]["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"


def test_a_workload_that_is_about_to_go_comes_no_more_but_owns_its_pods(cluster):
    going = made("Deployment", "going", deletionTimestamp="2026-03-01T00:00:00Z")
    cluster.server.objects[DEPLOYMENTS] = [going]
    cluster.server.objects[PODS] = [made("Pod", "p", going)]
    objects = cluster.objects()
    (document,) = objects
    assert objects.owners.root_of(document.object).title == "Deployment team/going"


# Lists that break off


def sorted_pages(pods: Sequence[Mapping[str, Any]], begin: int) -> Answer:
    """Pages whose rest is known by the place in the list, as of etcd."""

    def answer(request: Request, _path: str, query: dict[str, str]) -> None:
        start = int(query.get("continue", begin))
        end = start + int(query["limit"])
        rest = {"continue": str(end)} if end < len(pods) else {}
        request.send(200, {"metadata": {"resourceVersion": "7", **rest}, "items": pods[start:end]})

    return answer


def test_a_list_whose_rest_has_expired_goes_on_where_the_api_server_says(cluster):
    pods = many(700)
    gone = {"kind": "Status", "code": 410, "message": EXPIRED, "metadata": {"continue": "250"}}
    pages = sorted_pages(pods, 0)
    cluster.server.instead[PODS] = first(pages, always(410, gone), then=pages)
    assert sorted(names(cluster.objects())) == [f"Pod p{number:05}" for number in range(700)]
    assert [query.get("continue") for query in cluster.lists(PODS)] == [None, "250", "250", "500"]


def test_one_that_has_to_begin_anew_gives_nothing_twice(cluster):
    """Objects that came meanwhile, before and after where it broke off, shift the pages."""
    pods = many(700)
    shifted = sorted(
        [*pods, made("Pod", "a-new-one"), made("Pod", "p00400-new")], key=lambda raw: raw["metadata"]["name"]
    )
    anew = sorted_pages(shifted, 0)
    gone = always(410, {"kind": "Status", "code": 410, "message": EXPIRED})
    cluster.server.instead[PODS] = first(sorted_pages(pods, 0), gone, then=anew)
    found = names(cluster.objects())
    assert len(found) == len(set(found)) == 701
    assert set(found) - {f"Pod {raw['metadata']['name']}" for raw in pods} == {"Pod p00400-new"}


def test_a_list_that_expires_for_ever_is_an_error_after_what_came(cluster):
    pods = many(300)
    gone = always(410, {"kind": "Status", "message": EXPIRED, "metadata": {"continue": "250"}})
    cluster.server.instead[PODS] = first(sorted_pages(pods, 0), then=gone)
    documents = list(cluster.objects())
    assert len(names(documents)) == 250
    assert errors(documents) == [f"Pod: pods cannot be listed: the API server answered 410: {EXPIRED}"]
    assert len(cluster.lists(PODS)) < 20


def test_an_object_that_is_too_long_by_itself_is_an_error_and_the_rest_goes_on(cluster, monkeypatch):
    monkeypatch.setattr(api_server, "MOST_BYTES", 20_000)
    cluster.server.objects[DEPLOYMENTS] = [made("Deployment", "huge", annotations={"a": "x" * 30_000})]
    cluster.server.objects[PODS] = many(1)
    documents = list(cluster.objects())
    assert names(documents) == ["Pod p00000"]
    assert errors(documents)[0].startswith("Deployment: deployments.apps cannot be listed: the answer is longer than")


# What cannot be had


def test_a_kind_that_may_not_be_listed_is_an_error_that_names_the_right_and_the_rest_goes_on(cluster):
    cluster.server.instead[DEPLOYMENTS] = always(403, {"message": 'User "ci" cannot list resource "deployments"'})
    cluster.server.objects[PODS] = many(2)
    documents = list(cluster.objects())
    assert len(names(documents)) == 2
    assert errors(documents) == [
        'Deployment: deployments.apps cannot be listed: the API server answered 403: User "ci" cannot list resource '
        '"deployments"; grant the verb list on deployments of apiGroup "apps" in a ClusterRole, or name the namespaces '
        "to audit"
    ]


@each(
    "answer, text",
    {
        "404": (always(404, {"message": "not found"}), "404: not found; the kind was removed"),
        "500": (always(500, {"message": "etcd"}), "the API server answered 500: etcd"),
        "something else than JSON": (always(200, b"<html>"), "cannot be listed: "),
        "no list": (always(200, {"kind": "Status"}), "the answer to a list is no list"),
    },
)
def test_whatever_becomes_of_one_kind_is_one_error(cluster, answer, text):
    cluster.server.instead[DEPLOYMENTS] = answer
    cluster.server.objects[REPLICA_SETS] = many(1, "ReplicaSet")
    documents = list(cluster.objects())
    assert names(documents) == ["ReplicaSet p00000"]
    (error,) = errors(documents)
    assert text in error


def test_namespaces_that_are_refused_alike_are_one_error(cluster):
    for number in range(7):
        path = f"/apis/apps/v1/namespaces/team-{number}/deployments"
        cluster.server.instead[path] = always(403, {"message": "no"})
    found = errors(cluster.objects(*(f"team-{number}" for number in range(7))))
    (error,) = [one for one in found if "deployments" in one]
    assert "in namespaces team-0, team-1, team-2 and 4 more: " in error
    assert error.endswith('; grant the verb list on deployments of apiGroup "apps" in a Role there')


def test_a_group_whose_api_server_is_down_is_one_error_and_the_rest_goes_on(cluster):
    cluster.server.instead["/apis"] = aggregated({**SERVED, "batch": [("v1", None)]})
    cluster.server.objects[DEPLOYMENTS] = many(1, "Deployment")
    documents = list(cluster.objects())
    assert names(documents) == ["Deployment p00000"]
    (error,) = errors(documents)
    assert error.startswith("what the API group batch serves as v1 is not known: ")


def test_garbage_in_a_list_is_passed_over(cluster):
    cluster.server.objects[DEPLOYMENTS] = [None, 7, {"metadata": None}, {}, made("Deployment", "web")]
    assert names(cluster.objects()) == ["Deployment web"]


# Namespaces


def test_with_namespaces_only_they_are_asked_for_so_that_rights_in_them_are_enough(cluster):
    list(cluster.objects("team", "team", "other"))
    asked = {path for path, _ in cluster.server.seen if "/namespaces/" in path}
    kinds = ("/apis/apps/v1/namespaces/{}/deployments", "/api/v1/namespaces/{}/pods", "/api/v1/namespaces/{}")
    assert {kind.format(namespace) for kind in kinds for namespace in ("team", "other")} < asked
    assert not cluster.lists(PODS)
    assert not cluster.lists(DEPLOYMENTS)


def test_a_namespace_that_is_not_there_is_an_error_and_no_empty_audit(cluster):
    cluster.server.instead["/api/v1/namespaces/taem"] = always(404, {"message": "not found"})
    assert "there is no namespace taem; name one that exists" in errors(cluster.objects("taem"))


def test_objects_of_excluded_namespaces_do_not_come(cluster):
    cluster.server.objects[PODS] = [
        made("Pod", name, namespace=namespace)
        for name, namespace in (("a", "team"), ("b", "kube-system"), ("c", "sandbox-1"), ("d", "sandboxes"))
    ]
    assert sorted(names(cluster.objects(excluded=["kube-system", "sandbox-?"]))) == ["Pod a", "Pod d"]


def test_what_the_webhook_is_never_asked_about_is_counted_without_what_others_made(cluster):
    daemon = made("DaemonSet", "exporter", namespace="gpu-operator")
    cluster.server.objects[DEPLOYMENTS] = [made("Deployment", "dns", namespace="kube-system")]
    cluster.server.objects[PODS] = [
        made("Pod", "dns-1", namespace="kube-system"),
        made("Pod", "exporter-1", daemon, namespace="gpu-operator"),
        made("Pod", "mine", namespace="sandbox-1"),
        made("Pod", "other", namespace="team"),
    ]
    objects = cluster.objects(excluded=["kube-system", "gpu-operator", "sandbox-?"])
    assert names(objects) == ["Pod other"]
    assert objects.unsent == 2


# Progress and memory


def test_progress_is_told_of_each_kind_with_what_is_left_where_the_api_server_says(cluster):
    deployments = many(300, "Deployment")

    def counted(request: Request, _path: str, query: dict[str, str]) -> None:
        start = int(query.get("continue", "0"))
        page, left = deployments[start : start + 250], max(0, len(deployments) - start - 250)
        rest = {"continue": str(start + 250), "remainingItemCount": left} if left else {}
        request.send(200, {"metadata": {"resourceVersion": "7", **rest}, "items": page})

    cluster.server.instead[DEPLOYMENTS] = counted
    list(cluster.objects())
    told = [(one.objects, one.remaining) for one in cluster.told if one.kind == "Deployment"]
    assert told == [(0, None), (50, 250), (100, 200), (150, 150), (200, 100), (250, 50), (300, 0), (300, 0)]
    assert [one.kind for one in cluster.told if one.objects == 0] == [
        "Deployment",
        "ReplicaSet",
        "ReplicaSet",
        "Pod",
        "Pod",
    ]


def test_of_a_list_of_any_length_one_page_is_in_memory(cluster):
    """40 pages take no more than 4, however long the reader holds on to the last object."""
    page = [made("Pod", f"p{number}", annotations={"a": "x" * 2000}) for number in range(250)]

    def pages(count: int) -> Answer:
        def answer(request: Request, _path: str, query: dict[str, str]) -> None:
            number = int(query.get("continue", "0")) + 1
            rest = {"continue": str(number)} if number < count else {}
            request.send(200, {"metadata": {"resourceVersion": "7", **rest}, "items": page})

        return answer

    def peak(count: int) -> int:
        cluster.server.instead[PODS] = pages(count)
        gc.collect()
        tracemalloc.start()
        assert len(names(cluster.objects())) == count * 250
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    few, most = peak(4), peak(40)
    assert most < 1.3 * few


# Owners that are of no known kind, that come later, or that are not there


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
