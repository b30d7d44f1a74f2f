"""What goes wrong in a thread that repeats its work is logged once, and ends nothing."""

import logging
import threading
from collections.abc import Iterator

import pytest

from tests.e2e.eventually import eventually
from webhook.periodic_task import Attempts, PeriodicTask, about

LOG = logging.getLogger("gpu_policy.tried")


class RefusedError(Exception):
    """What the work is expected to raise."""


class Work:
    """Raises what comes next, and nothing when all has come."""

    def __init__(self, *errors: Exception | None) -> None:
        self._errors = iter(errors)
        self.times = 0

    def __call__(self) -> None:
        self.times += 1
        if error := next(self._errors, None):
            raise error


@pytest.fixture
def attempts() -> Attempts:
    return Attempts(LOG, "looking", (RefusedError,), logging.WARNING)


@pytest.fixture
def tasks() -> Iterator[list[PeriodicTask]]:
    made: list[PeriodicTask] = []
    yield made
    for task in made:
        task.close()


@pytest.mark.parametrize(
    ("errors", "logged"),
    [
        pytest.param([None, None], [], id="nothing goes wrong"),
        pytest.param(
            [RefusedError("a"), RefusedError("a"), RefusedError("a")], ["looking: a"], id="the same again and again"
        ),
        pytest.param([RefusedError("a"), RefusedError("b")], ["looking: a", "looking: b"], id="something else"),
        pytest.param([RefusedError("a"), None, RefusedError("a")], ["looking: a"] * 2, id="again after it was well"),
        pytest.param([KeyError("a"), KeyError("a")], ["looking: KeyError('a')"], id="a bug"),
    ],
)
def test_what_goes_wrong_is_logged_once(
    attempts: Attempts, caplog: pytest.LogCaptureFixture, errors: list[Exception | None], logged: list[str]
) -> None:
    work = Work(*errors)
    with caplog.at_level(logging.WARNING):
        succeeded = [attempts.make(work) for _ in errors]
    assert succeeded == [error is None for error in errors]
    assert [record.getMessage() for record in caplog.records] == logged
    assert {record.levelno for record in caplog.records} <= {logging.WARNING}


def test_a_bug_brings_its_traceback_and_what_is_expected_none(
    attempts: Attempts, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for error in (RefusedError("a"), KeyError("b")):
            attempts.make(Work(error))
    assert [bool(record.exc_info) for record in caplog.records] == [False, True]


def test_the_complaint_is_that_of_the_last_attempt(attempts: Attempts) -> None:
    work = Work(RefusedError("a"), None)
    said = [attempts.complaint]
    for _ in range(2):
        attempts.make(work)
        said.append(attempts.complaint)
    assert said == ["", "a", ""]


def test_the_work_is_repeated_until_it_is_closed(tasks: list[PeriodicTask]) -> None:
    work = Work()
    tasks.append(task := PeriodicTask("tried", work, 0.001))
    task.start()
    eventually(lambda: work.times >= 3)
    task.close()
    done = work.times
    assert not any(thread.name == "tried" for thread in threading.enumerate())
    assert work.times == done


@pytest.mark.parametrize("waits_first", [False, True])
def test_the_first_time_is_at_once_or_after_a_wait(tasks: list[PeriodicTask], *, waits_first: bool) -> None:
    work = Work()
    tasks.append(task := PeriodicTask("tried", work, 3600, waits_first=waits_first))
    task.start()
    if not waits_first:
        eventually(lambda: work.times == 1)
    task.close()
    assert work.times == (0 if waits_first else 1)


def test_closing_does_not_wait_for_work_that_hangs(tasks: list[PeriodicTask]) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        go_on.wait(60)

    tasks.append(task := PeriodicTask("tried", hang, 3600))
    task.start()
    assert begun.wait(60)
    task.close(0.01)
    assert any(thread.name == "tried" for thread in threading.enumerate())
    go_on.set()


def test_what_was_never_started_can_be_closed() -> None:
    PeriodicTask("tried", Work(), 1).close()


def test_waits_differ_by_a_fifth_at_most() -> None:
    waits = [about(10) for _ in range(200)]
    assert min(waits) >= 8
    assert max(waits) <= 12
    assert max(waits) - min(waits) > 2
