"""The queue of references: bounded, each reference once, in turn by registry and by asker."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.golden import golden
from webhook.images.lookups import LookupQueue
from webhook.model.image import ImageReference


def reference(registry: str, name: str = "a") -> ImageReference:
    return ImageReference(registry, name, "1")


def registry_of(reference: ImageReference) -> str:
    return reference.registry


def test_a_third_reference_of_a_registry_waits_until_one_is_done() -> None:
    waiting = LookupQueue(registry_of)
    for name in "abc":
        waiting.add(reference("x", name))
    first = waiting.take()
    waiting.take()
    with ThreadPoolExecutor(1) as pool:
        third = pool.submit(waiting.take)
        assert not third.done()
        assert first is not None
        waiting.done(first)
        assert third.result(20) == reference("x", "c")


def test_an_idle_registry_comes_before_busy_ones() -> None:
    """Two registries that never answer keep all four workers busy. The next free worker serves another registry."""
    waiting = LookupQueue(registry_of)
    for number in range(20):
        waiting.add(reference(f"slow-{number % 2}", str(number)))
    hanging = [waiting.take() for _ in range(4)]
    for name in "abc":
        waiting.add(reference("quick", name))
    assert hanging[0] is not None
    waiting.done(hanging[0])
    for name in "abc":
        taken = waiting.take()
        assert taken == reference("quick", name)
        waiting.done(taken)


def test_an_asker_of_one_image_does_not_wait_for_an_asker_of_many() -> None:
    waiting = LookupQueue(registry_of)
    for number in range(500):
        waiting.add(reference("x", f"flood-{number}"), asker="mallory")
    waiting.add(reference("x", "app"), asker="team")
    first, second = waiting.take(), waiting.take()
    assert (first, second) == (reference("x", "flood-0"), reference("x", "app"))


@golden
def test_a_full_queue_drops_from_the_longest_lane(registries: list[str], asker: str) -> None:
    waiting = LookupQueue(registry_of, 60)
    for number in range(200):
        waiting.add(reference(registries[number % len(registries)], f"flood-{number}"), asker=asker)
    assert len(waiting) == 60
    for number in range(5):
        waiting.add(reference("quiet", f"app-{number}"), asker="team")
    assert len(waiting) == 60
    taken = []
    for _ in range(20):
        one = waiting.take()
        assert one is not None
        taken.append(one.repository)
        waiting.done(one)
    assert [name for name in taken if name.startswith("app")] == [f"app-{number}" for number in range(5)]


def test_a_queued_or_begun_reference_is_not_added_again() -> None:
    waiting = LookupQueue(registry_of)
    waiting.add(reference("x"))
    waiting.add(reference("x"))
    taken = waiting.take()
    waiting.add(reference("x"))
    assert len(waiting) == 1
    assert taken is not None
    waiting.done(taken)
    waiting.add(reference("x"))
    assert waiting.take() == reference("x")


@pytest.mark.parametrize("sleepers", [1, 4])
def test_closing_ends_every_wait(sleepers: int) -> None:
    waiting = LookupQueue(registry_of)
    with ThreadPoolExecutor(sleepers) as pool:
        takers = [pool.submit(waiting.take) for _ in range(sleepers)]
        waiting.close()
        assert [taker.result(20) for taker in takers] == [None] * sleepers
    assert waiting.take() is None
