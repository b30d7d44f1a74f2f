"""The pods of a file answer as the pods of a cluster do."""

import pytest

from tests.clock import Clock
from tests.facts.asking import is_gone, is_live
from tests.facts.pod_samples import AT, AT_SECONDS, cpu_pod, deleted, stored, uid
from webhook.ledger.static_pods import StaticPods

RAWS = [
    stored("a"),
    stored("b", "team-b"),
    cpu_pod("web"),
    stored("done", phase="Succeeded"),
    deleted(stored("leaving"), AT, 30),
    stored("odd", nodeSelector=["x"]),
    None,
]


@pytest.fixture
def clock() -> Clock:
    return Clock(AT_SECONDS)


@pytest.fixture
def pods(clock: Clock) -> StaticPods:
    return StaticPods(RAWS, clock)


def test_gpu_pods_that_count_are_seen_and_what_cannot_be_read_is_counted(pods):
    pods.listen(lambda: None)
    pods.start()
    assert pods.is_known()
    assert {"a", "b", "leaving"} == {pod.name for pod in pods.seen()}
    assert {"b"} == {pod.name for pod in pods.seen("team-b")}
    assert pods.unreadable == 2
    odd, nothing = pods.left_out
    assert odd.startswith("pod team-a/odd does not count against quotas: spec.nodeSelector")
    assert nothing == "pod number 7 does not count against quotas: found no pod with metadata"
    pods.close()


@pytest.mark.parametrize(
    ("name", "counts", "has_gone"),
    [
        pytest.param("a", True, False, id="running"),
        pytest.param("done", False, True, id="finished"),
        pytest.param("web", False, False, id="without GPUs"),
        pytest.param("other", False, False, id="not in the file"),
    ],
)
def test_a_pod_is_live_while_it_counts_and_gone_once_it_does_not(pods, name, counts, has_gone):
    assert (counts, has_gone) == (is_live(pods, uid(name)), is_gone(pods, uid(name)))


def test_an_overdue_deletion_ends_a_pod(pods, clock):
    assert is_live(pods, uid("leaving"))
    clock.now = AT_SECONDS + 31
    assert is_gone(pods, uid("leaving"))
    assert {"a", "b"} == {pod.name for pod in pods.seen()}


def test_lists_are_by_namespace_and_by_glob(pods):
    assert frozenset({uid("a"), uid("leaving")}) == pods.live_now(["team-a", "team-z"], 1)
    assert {"b"} == {pod.name for pod in pods.list_now(["*-b", "team-z"], 1)}
    assert {"a", "leaving", "b"} == {pod.name for pod in pods.list_now(["team-?"], 1)}
    assert not list(pods.list_now([], 1))


def test_pods_without_a_uid_count_once_each(clock):
    written = stored("a")
    del written["metadata"]["uid"], written["metadata"]["namespace"], written["status"]
    pods = StaticPods([written, written, {**written, "metadata": {"name": "b"}}], clock)
    assert sorted((pod.namespace, pod.name) for pod in pods.seen()) == [("default", "a"), ("default", "b")]
    assert StaticPods([written]).live_now(["default"], 1) < pods.live_now(["default"], 1)


def test_of_two_pods_with_one_uid_one_counts_and_both_are_named(clock):
    other = stored("b")
    other["metadata"]["uid"] = stored("a")["metadata"]["uid"]
    pods = StaticPods([stored("a"), stored("a"), other], clock)
    assert [pod.name for pod in pods.seen()] == ["b"]
    told = "2 pods (team-a/a and team-a/b) share a metadata.uid, so only the last one with each uid counts"
    assert pods.left_out == [told]


def test_pods_without_uid_and_name_count_each(clock):
    nameless = stored("a")
    nameless["metadata"] = {"generateName": "a-"}
    assert len(list(StaticPods([nameless, nameless], clock).seen())) == 2


def test_faults_are_bounded_and_the_pods_of_others_are_counted(clock):
    pods = StaticPods([stored(f"p{number}", nodeSelector={"a" * number: [1]}) for number in range(23)], clock)
    assert pods.unreadable == 23
    assert len(pods.left_out) <= 21
