"""The memory of a review is estimated before it is parsed, and large reviews wait for each other."""

import json
import threading
import tracemalloc
from pathlib import Path

import orjson
import pytest

from tests.build import container, pod, review
from tests.replicas import Replica
from webhook.admission.admission_review import UnansweredError
from webhook.admission.app import MOST_OF_A_REVIEW, SMALL, Room, memory_of

MEBIBYTE = 2**20


def of(item: str, count: int = 30_000) -> bytes:
    return b"[" + b",".join([item.encode()] * count) + b"]"


def keyed(width: int) -> bytes:
    """Maps of so many keys, none of them twice."""
    maps = range(40_000 // width)
    return orjson.dumps([{f"k{one}-{key}": 1.5 for key in range(width)} for one in maps])


def taken(body: bytes) -> int:
    """What the values of a body take, and 16 bytes for each of them and of their keys while they are parsed."""
    tracemalloc.start()
    try:
        value = orjson.loads(body)
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    rest, count = [value], 0
    while rest:
        one = rest.pop()
        count += 1
        if isinstance(one, dict):
            count += len(one)
            rest.extend(one.values())
        elif isinstance(one, list):
            rest.extend(one)
    return size + 16 * count


@pytest.mark.parametrize(
    "body",
    [
        *(
            pytest.param(of(item), id=f"many {item}")
            for item in (
                *("{}", "[]", "[0]", "[[]]", '{"":0}', '{"":999}', '{"a":{}}', '{ "a" : 1.5 }', '{"a":"b"}'),
                *('""', '"a"', '"ab"', "1.5", "99999", "true", "[1.5,1.5,1.5,1.5,1.5]", '"\\\\"', '"\\""', '"\\\\\\""'),
                *('"é"', '"\\ud83d\\ude00"', f'"😀{"a" * 90}"', f'"{"{[:,]}" * 9}"', '"😀"'),
            )
        ),
        *(pytest.param(keyed(width), id=f"maps of {width} keys") for width in (1, 5, 6, 11, 22, 43, 40_000)),
    ],
)
def test_no_body_takes_more_memory_than_was_thought(body: bytes) -> None:
    assert taken(body) <= memory_of(body) + 2 * SMALL


def test_what_is_thought_of_a_manifest_is_of_the_size_of_what_it_takes() -> None:
    env = [{"name": f"NAME_{number}", "value": f"value {number}"} for number in range(5000)]
    body = json.dumps(review(pod(spec={"containers": [container("c") | {"env": env}]}))).encode()
    assert memory_of(body) <= 3 * taken(body)


def test_a_small_body_is_not_weighed() -> None:
    assert memory_of(b"{}," * (SMALL // 3)) == 0


def test_the_largest_object_and_its_predecessor_have_room() -> None:
    """About 1.4 MiB each: of environment, as much JSON as anything that people write, and of a text in JSON."""
    env = [{"name": f"NAME_{number:04}", "value": "x" * 40} for number in range(20_000)]
    text = json.dumps({f"é{number}": {"a": [1.5, "b"]} for number in range(40_000)}, ensure_ascii=False)
    for raw in (pod(spec={"containers": [{"name": "c", "env": env}]}), pod(annotations={"a": text})):
        body = json.dumps(review(raw, "UPDATE", old=raw), ensure_ascii=False, separators=(",", ":")).encode()
        assert len(body) > 2.7 * MEBIBYTE
        assert memory_of(body) < MOST_OF_A_REVIEW


# Who gets which answer


@pytest.fixture
def replica(tmp_path: Path) -> Replica:
    return Replica(tmp_path / "policies")


def heavy() -> bytes:
    raw = pod(1)
    raw["spec"]["hold"] = "HERE"
    before, after = json.dumps(review(raw)).encode().split(b'"HERE"')
    return before + of('{"":0}', 600_000) + after


def test_a_review_that_would_take_too_much_memory_is_refused_before_it_is_parsed(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhook.admission.app.parse", None)
    body = heavy()
    answer = replica.client.post("/validate", data=body, content_type="application/json")
    assert (answer.status_code, answer.text) == (
        422,
        f"request: found maps, lists and strings that take {memory_of(body)} bytes of memory, expected at most "
        f"{MOST_OF_A_REVIEW}; make several objects of it, or leave entries out\n",
    )
    assert replica.count("gpu_policy_errors_total", reason="bad_request") == 1


def test_a_large_review_that_finds_no_room_is_sent_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.admission.app.Room", lambda size=0, most_waiting=0: Room(size, most_waiting))
    replica = Replica(tmp_path / "policies")
    large = review(pod(1, annotations={"note": "x" * SMALL}))
    answer = replica.client.post("/validate", json=large)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert replica.count("gpu_policy_errors_total", reason="overloaded") == 1
    assert replica.ask("/validate", pod(1))["allowed"], "a small one waits for nobody"


# Room


def test_what_does_not_fit_in_waits_until_there_is_room() -> None:
    room, waits, done = Room(100), threading.Event(), []

    def second() -> None:
        with room.taken(60, 60, waits.set):
            done.append("second")

    with room.taken(60, 0, waits.set):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(60)
        assert not done
    thread.join(60)
    assert done == ["second"]


def test_whoever_has_waited_for_long_enough_goes_and_leaves_the_room_as_it_was() -> None:
    room = Room(100)
    with room.taken(60, 0, lambda: None):
        with pytest.raises(UnansweredError), room.taken(60, 0, lambda: None):
            pass
        with room.taken(40, 0, _blocked):
            pass
    with room.taken(100, 0, _blocked):
        pass


def test_only_so_many_wait_that_others_find_a_thread() -> None:
    room = Room(100, most_waiting=0)
    with room.taken(60, 0, _blocked), pytest.raises(UnansweredError), room.taken(60, 60, _blocked):
        pass


def _blocked() -> None:
    raise AssertionError("one waits that need not")
