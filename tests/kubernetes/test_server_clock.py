"""The API server's clock, by the dates of its answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clock import Clock
from webhook.kubernetes.server_clock import ANSWERS, ServerClock

TRUE = 1_800_000_000.0


def clock_at(monotonic: Clock, wall: float = 0.0) -> ServerClock:
    return ServerClock(monotonic, lambda: wall)


def test_before_the_first_answer_it_goes_by_this_machine() -> None:
    monotonic = Clock(5.0)
    clock = clock_at(monotonic, TRUE)
    monotonic.now += 7
    assert clock.now() == TRUE + 7


def test_this_machine_may_be_set_to_any_time_afterwards() -> None:
    """Only the monotonic clock is read after an answer."""
    monotonic = Clock(5.0)
    clock = clock_at(monotonic, wall=12.0)
    clock.observe(TRUE)
    monotonic.now += 60
    assert clock.now() == pytest.approx(TRUE + 60, abs=1)


@given(st.lists(st.floats(0, 0.999), min_size=5, max_size=40), st.sampled_from([-86_400.0, -4.0, 4.0, 86_400.0]))
def test_less_than_half_of_the_answers_cannot_move_it(fractions: list[float], wrong: float) -> None:
    """One of three API servers with a wrong clock, and dates that have whole seconds."""
    monotonic = Clock(0.0)
    clock = clock_at(monotonic)
    for number, fraction in enumerate(fractions):
        monotonic.now = number * 10 + fraction
        date = float(int(TRUE + monotonic.now))
        clock.observe(date + wrong if number % 3 == 2 else date)
    assert clock.now() == pytest.approx(TRUE + monotonic.now, abs=1)


def test_it_follows_a_clock_that_was_set() -> None:
    monotonic = Clock(0.0)
    clock = clock_at(monotonic)
    for _ in range(ANSWERS):
        clock.observe(TRUE)
    for _ in range(ANSWERS // 2 + 1):
        clock.observe(TRUE + 3600)
    assert clock.now() == pytest.approx(TRUE + 3600, abs=1)
