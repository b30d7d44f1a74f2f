"""Who counts and who went, by what lists and events tell; whatever they tell, in whatever order."""

import logging
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from tests.clock import Clock
from tests.facts.asking import is_gone, is_live
from tests.facts.pod_samples import AT_SECONDS, cpu_pod, deleted, live, stored, uid, uid_text
from webhook.ledger.pod_cache import GonePods, PodCache


def tells_of_gone(cache: PodCache, act: Callable[..., None], *news: object) -> bool:
    """Whether the cache says of these news that a pod is gone."""
    told: list[int] = []
    cache.listen(lambda: told.append(1))
    act(*news)
    return bool(told)


@pytest.fixture
def clock() -> Clock:
    return Clock(AT_SECONDS)


@pytest.fixture
def cache(clock: Clock) -> PodCache:
    """Three pods: two with GPUs, and one without."""
    cache = PodCache(clock, clock)
    cache.replace([stored("a"), stored("b", "team-b"), cpu_pod("web")])
    return cache


def test_a_pod_that_gets_a_node_is_seen_there(cache):
    (before,) = cache.seen("team-b")
    cache.change("MODIFIED", stored("b", "team-b", nodeName="gpu-1"))
    (after,) = cache.seen("team-b")
    assert (before.node, after.node) == ("", "gpu-1")


@pytest.mark.parametrize("now", [{}, {"gpu-fraction": "0.1"}], ids=["removed", "less"])
def test_a_pod_keeps_the_parts_of_gpus_that_it_came_with(cache, now):
    before = cpu_pod("web")
    before["metadata"]["annotations"] = {"gpu-fraction": "0.9"}
    cache.change("ADDED", before)
    edited = cpu_pod("web")
    edited["metadata"]["annotations"] = now
    cache.change("MODIFIED", edited)
    cache.replace([edited])
    (seen,) = cache.seen("team-a")
    assert [one.part for one in seen.pod.fractions] == [Fraction(9, 10)]


@pytest.mark.parametrize(
    ("event", "raw"),
    [
        pytest.param("DELETED", stored("a"), id="deleted"),
        pytest.param("DELETED", {"metadata": {"uid": uid_text("a")}}, id="deleted, with its uid alone"),
        pytest.param("DELETED", stored("a", nodeSelector=7), id="deleted, with an odd part"),
        pytest.param("MODIFIED", stored("a", phase="Succeeded"), id="succeeded"),
        pytest.param("MODIFIED", stored("a", phase="Failed"), id="failed"),
        pytest.param("MODIFIED", deleted(stored("a"), "2026-03-01T11:00:00Z", 30), id="deletion overdue"),
    ],
)
def test_a_pod_that_ends_is_gone_and_is_reported_once(cache, event, raw):
    assert tells_of_gone(cache, cache.change, event, raw)
    assert is_gone(cache, uid("a"))
    assert not is_live(cache, uid("a"))
    assert {"b"} == live(cache)
    assert not tells_of_gone(cache, cache.change, event, raw)
    assert not tells_of_gone(cache, cache.change, "DELETED", stored("a"))
    assert is_gone(cache, uid("a"))


def test_the_stored_pods_of_a_group_are_known_and_those_that_go_or_wait_are_none_of_it(cache):
    def of_group(name: str, make: Callable[..., Any] = stored, **spec: Any) -> Any:
        return make(name, **spec) | {"metadata": {**make(name)["metadata"], "labels": {"ray.io/cluster": "r"}}}

    text, namespace = "rayclusters.ray.io/r/", of_group("a")["metadata"]["namespace"]

    def members() -> dict[bytes, bool]:
        return {key: one.has_gpus for key, one in cache.members(namespace, text).items()}

    cache.replace([of_group("a"), of_group("head", cpu_pod), of_group("b", schedulingGates=[{"name": "x"}])])
    assert members() == {uid("a"): True, uid("head"): False}
    cache.change("MODIFIED", of_group("b"))
    cache.change("MODIFIED", deleted(of_group("a"), "2099-03-01T11:00:00Z", 30))
    assert members() == {uid("b"): True, uid("head"): False}
    cache.change("DELETED", of_group("head", cpu_pod))
    cache.change("MODIFIED", of_group("b", phase="Succeeded"))
    assert members() == {}


def test_pods_that_a_later_list_lacks_are_gone(cache):
    assert tells_of_gone(cache, cache.replace, [stored("b", "team-b"), stored("c")])
    assert {"b", "c"} == live(cache)
    assert is_gone(cache, uid("a"))
    assert not tells_of_gone(cache, cache.replace, [stored("b", "team-b"), stored("c")])


def test_an_incomplete_list_changes_nothing(cache):
    def half_a_list() -> Any:
        yield stored("c")
        raise OSError("broken off")

    with pytest.raises(OSError, match="broken off"):
        cache.replace(half_a_list())
    assert {"a", "b"} == live(cache)


UNREADABLE = [
    pytest.param({"metadata": {"name": "odd", "uid": "pod-7"}}, id="a uid that is none"),
    pytest.param({"metadata": None}, id="no metadata"),
    pytest.param(stored("odd", nodeSelector=["a"]), id="an odd part"),
    pytest.param({**stored("odd"), "metadata": []}, id="metadata is a list"),
]


@pytest.mark.parametrize("raw", UNREADABLE)
def test_pods_that_cannot_be_read_are_ignored_with_one_message(cache, caplog, raw):
    with caplog.at_level(logging.WARNING):
        for event in ("ADDED", "MODIFIED", "DELETED"):
            assert not tells_of_gone(cache, cache.change, event, raw)
        cache.replace([raw, stored("a"), stored("b", "team-b"), None, "text"])
    assert {"a", "b"} == live(cache)
    assert [record.levelname for record in caplog.records].count("WARNING") == 1
    assert "a pod is ignored" in caplog.text


def test_a_pod_that_can_no_longer_be_read_counts_as_before(cache):
    unreadable = stored("a", nodeSelector=["a"])
    assert not tells_of_gone(cache, cache.change, "MODIFIED", unreadable)
    assert is_live(cache, uid("a"))
    assert not tells_of_gone(cache, cache.replace, [unreadable, stored("b", "team-b")])
    assert {"a", "b"} == live(cache)
    assert tells_of_gone(cache, cache.change, "DELETED", unreadable)


def test_those_who_went_are_remembered_for_ten_minutes_at_least(clock):
    gone = GonePods(seconds=600, most=3)
    gone.add(b"1", 0.0)
    gone.add(b"2", 599.0)
    gone.add(b"3", 600.0)
    assert all(one in gone for one in (b"1", b"2", b"3"))
    gone.add(b"4", 1201.0)
    assert b"1" not in gone
    assert b"3" in gone


def test_of_very_many_who_went_the_last_are_remembered():
    gone = GonePods(seconds=600, most=100)
    for number in range(1000):
        gone.add(str(number).encode(), 0.0)
    remembered = [number for number in range(1000) if str(number).encode() in gone]
    assert remembered == list(range(1000 - len(remembered), 1000))
    assert 100 <= len(remembered) <= 200
