"""Items that come during a write go with the next write, and no item is left behind."""

import random
import threading
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.ledger.bookkeeping import PATIENCE, at_once, eventually, joined
from webhook.ledger.plan import BatchQueue


class Desk:
    """A queue whose batches last until a test ends them."""

    def __init__(self) -> None:
        self.queue = BatchQueue[int](self._settle)
        self.batches: list[list[int]] = []
        self.leaders: list[int] = []
        self.threads: dict[int, int] = {}
        self.returned: list[int] = []
        self.errors: list[BaseException] = []
        self.is_broken = False
        self._let_go = threading.Semaphore(0)

    def _settle(self, batch: Sequence[int]) -> None:
        self.batches.append(list(batch))
        self.leaders.append(threading.get_ident())
        assert self._let_go.acquire(timeout=PATIENCE)
        if self.is_broken:
            self.is_broken = False
            raise RuntimeError("broken")

    def come(self, item: int, seconds: float = PATIENCE) -> threading.Thread:
        """Submit an item in a thread; return when the thread settles a batch, or waits."""
        expected = len(self.batches) + self.waiting + 1

        def work() -> None:
            self.threads[item] = threading.get_ident()
            try:
                self.queue.submit(item, seconds)
            except RuntimeError as error:
                self.errors.append(error)
            self.returned.append(item)

        (thread,) = at_once(work)
        eventually(lambda: len(self.batches) + self.waiting >= expected or item in self.returned)
        return thread

    def let_go(self, batches: int = 1) -> None:
        """End so many batches."""
        self._let_go.release(batches)

    @property
    def waiting(self) -> int:
        return self.queue.waiting


@pytest.fixture
def desk():
    return Desk()


def test_who_comes_alone_settles_at_once_in_a_thread_of_their_own(desk):
    desk.let_go()
    desk.queue.submit(1, 0.0)
    assert (desk.batches, desk.leaders) == ([[1]], [threading.get_ident()])


def test_the_first_that_waits_settles_the_next_batch_and_the_leader_of_the_last_goes(desk):
    threads = [desk.come(item) for item in range(3)]
    desk.let_go()
    joined(threads[:1])
    eventually(lambda: len(desk.batches) == 2)
    assert desk.returned == [0]
    threads.append(desk.come(3))
    desk.let_go(2)
    joined(threads)
    assert desk.batches == [[0], [1, 2], [3]]
    assert desk.leaders == [desk.threads[0], desk.threads[1], desk.threads[3]]


def test_who_gives_up_while_waiting_is_in_no_batch(desk):
    threads = [desk.come(0), desk.come(1)]
    impatient = desk.come(2, seconds=0.01)
    joined([impatient])
    desk.let_go(2)
    joined(threads)
    assert desk.batches == [[0], [1]]


def test_the_only_one_that_waits_may_give_up_too(desk):
    first = desk.come(0)
    joined([desk.come(1, seconds=0.01)])
    desk.let_go()
    joined([first])
    desk.let_go()
    desk.queue.submit(2, 0.0)
    assert desk.batches == [[0], [2]]


def test_who_gives_up_while_their_batch_is_settled_returns_and_stays_in_it(desk):
    threads = [desk.come(0), desk.come(1)]
    impatient = desk.come(2, seconds=0.7)
    desk.let_go()
    eventually(lambda: len(desk.batches) == 2)
    joined([impatient])
    assert (desk.returned, desk.batches) == ([0, 2], [[0], [1, 2]])
    desk.let_go()
    joined(threads)


def test_what_goes_wrong_is_told_to_who_settled_and_the_others_go_on(desk):
    threads = [desk.come(item) for item in range(3)]
    desk.let_go()
    eventually(lambda: len(desk.batches) == 2)
    threads.append(desk.come(3))
    desk.is_broken = True
    desk.let_go(2)
    joined(threads)
    assert [str(error) for error in desk.errors] == ["broken"]
    assert desk.batches == [[0], [1, 2], [3]]
    assert sorted(desk.returned) == [0, 1, 2, 3]


def test_nobody_is_lost_or_settled_twice_however_impatient_they_are():
    settled: Counter[tuple[int, int]] = Counter()
    pause = threading.Event()
    queue = BatchQueue[tuple[int, int]](lambda batch: (settled.update(batch), pause.wait(0.0005)))
    patient = set()

    def come(number: int) -> None:
        chance = random.Random(number)
        for turn in range(60):
            seconds = chance.choice([0.0, 0.0004, 0.0008, 0.002, PATIENCE])
            queue.submit((number, turn), seconds)
            if seconds == PATIENCE:
                assert (number, turn) in settled
                patient.add((number, turn))

    joined(at_once(*(lambda number=number: come(number) for number in range(12))))
    assert patient <= settled.keys()
    assert set(settled.values()) == {1}
    queue.submit((99, 0), 0.0)  # nobody is believed to settle still
    assert settled[99, 0] == 1


def test_a_batch_waits_for_more_where_they_come_together_and_never_for_who_comes_alone():
    asked: list[None] = []
    batches: list[list[int]] = []
    is_settling, let_go = threading.Event(), threading.Event()

    def settle(batch: Sequence[int]) -> None:
        batches.append(list(batch))
        is_settling.set()
        assert let_go.wait(PATIENCE)

    def gathering() -> float:
        asked.append(None)
        return 0.001

    queue = BatchQueue[int](settle, gathering)
    first = at_once(lambda: queue.submit(1, PATIENCE))
    assert is_settling.wait(PATIENCE)
    others = at_once(*(lambda item=item: queue.submit(item, PATIENCE) for item in (2, 3)))
    eventually(lambda: queue.waiting == 2)
    assert asked == []
    let_go.set()
    joined(first + others)
    assert sum(map(len, batches)) == 3
    assert len(asked) == len(batches) - 1
    queue.submit(4, PATIENCE)  # the last batch was not of one alone, perhaps, and this one is
    asked.clear()
    queue.submit(5, PATIENCE)
    assert asked == []
