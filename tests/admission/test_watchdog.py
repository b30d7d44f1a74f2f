"""A decision that takes too long is ended at any place in its code, and answered 500, so that failurePolicy decides."""

import logging
import math
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.build import pod, review, workload
from tests.golden import each
from tests.replicas import Replica
from webhook.admission.watchdog import DECISION_SECONDS, DecisionDeadline, TookTooLongError
from webhook.rules import RULES
from webhook.rules.rule import Rule, Violation

pytestmark = [
    pytest.mark.untraced,
    pytest.mark.skipif(
        sys.gettrace() is not None,
        reason="an exception that another thread raises may come while coverage holds its lock, which stays locked",
    ),
]
LITTLE = 0.05
"""Seconds of CPU time."""
ENOUGH = 0.5
"""Seconds of CPU time in which a decision gets to its rules, also while the garbage of many tests is collected."""
PLENTY = 3600.0


def in_a_loop(*_: Any) -> Iterator[Violation]:
    """A loop without end that calls nothing."""
    number = 0
    while True:
        number += 1
    yield


def swallowing(*_: Any) -> Iterator[Violation]:
    """A loop without end that catches every `Exception`."""
    while True:
        with suppress(Exception):
            sum(number for number in range(100_000))
    yield


def rules_with(validate: Any = None, mutate: Any = None) -> tuple[Rule, ...]:
    """The rules, one of which works like this."""
    return tuple(
        replace(rule, validate=validate or rule.validate, mutate=mutate or rule.mutate)
        if rule.key == "visibleDevices"
        else rule
        for rule in RULES
    )


def replica_of(directory: Path, rules: tuple[Rule, ...]) -> Replica:
    made = Replica(directory, rules)
    made.service.decision_seconds = ENOUGH
    return made


@each(
    "path, endless",
    {
        "mutate, in a loop that asks nobody": ("/mutate", in_a_loop),
        "validate, in a loop that swallows exceptions": ("/validate", swallowing),
        "workloads, in a loop that asks nobody": ("/workloads", in_a_loop),
    },
)
def test_a_decision_that_takes_too_long_is_answered_500_and_counted_and_the_replica_goes_on(
    tmp_path: Path, path: str, endless: Any, caplog: pytest.LogCaptureFixture
) -> None:
    rules = rules_with(mutate=endless) if path == "/mutate" else rules_with(validate=endless)
    replica = replica_of(tmp_path / "policies", rules)
    asked = workload("Deployment", pod(1)) if path == "/workloads" else pod(1)
    with caplog.at_level(logging.WARNING, "gpu_policy.admission"):
        answer = replica.client.post(path, json=review(asked))
    assert (answer.status_code, answer.text) == (
        500,
        "took too long: more than the 0.5 s of CPU time that one decision may take\n",
    )
    assert replica.count("gpu_policy_errors_total", reason="took_too_long") == 1
    assert replica.count("gpu_policy_errors_total", reason="bug") == 0
    (record,) = caplog.records
    assert record.fields["exception"] == "_EndedError"
    assert any("/engine/" in line for line in record.fields["stack"])
    assert replica.ask("/validate" if path == "/mutate" else "/mutate", pod(1))["allowed"]
    replica.store.close()


def test_what_its_sender_no_longer_waits_for_is_not_finished(tmp_path: Path) -> None:
    replica = replica_of(tmp_path / "policies", rules_with(in_a_loop))
    replica.service.decision_seconds = PLENTY
    answer = replica.client.post("/validate?timeout=1s", json=review(pod(1)))
    assert (answer.status_code, answer.text) == (500, "took too long: the sender no longer waits\n")
    replica.store.close()


def test_what_is_done_outside_is_never_ended() -> None:
    """Whoever waits for a ledger has a bound of its own, and leaves nothing half done."""
    deadline = DecisionDeadline(LITTLE, math.inf)

    def long_work() -> int:
        used = time.thread_time() + 4 * LITTLE
        with deadline.outside():
            return sum(1 for _ in iter(lambda: time.thread_time() < used, False)) > 0

    assert deadline.within(long_work)


def test_time_outside_is_not_counted_and_time_before_it_is() -> None:
    deadline = DecisionDeadline(LITTLE, math.inf)

    def work() -> None:
        for _ in range(1000):
            used = time.thread_time() + LITTLE / 10
            while time.thread_time() < used:
                pass
            with deadline.outside():
                pass

    with pytest.raises(TookTooLongError):
        deadline.within(work)


def test_nothing_is_raised_after_the_work_has_ended() -> None:
    """However close to its end a decision is ended, it is either answered or took too long, and nothing comes later."""
    for _ in range(10):
        deadline = DecisionDeadline(math.inf, time.monotonic() + LITTLE)

        def work(ends: float = time.monotonic() + LITTLE) -> None:
            while time.monotonic() < ends:
                pass

        with suppress(TookTooLongError):
            deadline.within(work)
        for _ in range(100_000):
            pass


def test_decisions_in_many_threads_are_ended_each_by_itself() -> None:
    ended: list[str] = []
    finished: list[int] = []

    def endless() -> None:
        while True:
            pass

    def run(number: int) -> None:
        try:
            DecisionDeadline(LITTLE if number % 2 else PLENTY, math.inf).within(endless if number % 2 else lambda: None)
            finished.append(number)
        except TookTooLongError as error:
            ended.append(str(error))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(ended), sorted(finished)) == (4, [0, 2, 4, 6])


def test_an_error_of_the_work_is_that_of_within() -> None:
    def fail() -> None:
        raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"):
        DecisionDeadline(DECISION_SECONDS, math.inf).within(fail)


def test_after_a_decision_was_ended_a_profiler_works_as_before() -> None:
    """In a process of its own: where an exception is taken back without being raised, the first call would hang."""
    code = """
import sys, time
from webhook.admission.watchdog import DecisionDeadline, TookTooLongError

def endless():
    while True:
        pass

try:
    DecisionDeadline(0.05, time.monotonic() + 3600).within(endless)
except TookTooLongError:
    calls = []
    sys.setprofile(lambda frame, event, argument: calls.append(event))
    (lambda: None)()
    sys.setprofile(None)
    print(calls.count("call"))
"""
    assert subprocess.check_output([sys.executable, "-c", code], timeout=120) == b"1\n"
