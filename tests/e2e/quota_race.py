"""A race for the GPUs of several quotas at once, on replicas that are killed, with everything that is said of it."""

import random
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from tests.e2e.eventually import eventually
from tests.e2e.neighbour import deciding
from tests.e2e.quota_cases import Contest
from tests.e2e.quota_observer import Observer
from tests.e2e.quota_site import QuotaSite
from tests.e2e.quota_storm import Storm

DAWDLES = 2.0
"""Seconds that another webhook takes to answer, at most."""


class Race:
    """Rounds of storms over the same namespaces, watched from before the first one to the end of the `with` block.

    A create is given up by the API server after `patience` seconds, well before the replicas take entries out that
    have no pod. Another webhook has some of the pods wait after they were entered.
    """

    def __init__(self, site: QuotaSite, contests: Sequence[Contest], *, patience: int) -> None:
        self.site = site
        self.contests = contests
        self.patience = patience
        amounts = {name: amount for contest in contests for name, amount in contest.amounts.items()}
        self.observer = Observer(site.plane, amounts)
        self._stack = ExitStack()
        self.said: list[str] = []
        """One line on each round, for the report of the tests."""

    def __enter__(self) -> "Race":
        with ExitStack() as stack:
            stack.enter_context(deciding(self.site.installation, self._dawdle))
            stack.enter_context(self.observer)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def round(self, pods: int, *, kills: int, deletions: float) -> None:
        """Have so many pods of each contest created while replicas are killed and pods deleted, until nothing fits.

        AssertionError where there was ever too much, too little in the end, or a ledger that says something else.
        Call it from the main thread. The pods are gone afterwards, and their entries are left to the replicas.
        """
        began = time.monotonic()
        wishes = [wish for contest in self.contests for wish in contest.wishes(pods)]
        with Storm(self.site.plane, wishes, patience=self.patience, deletions=deletions) as storm:
            for _ in range(kills):
                self._kill_one()
            eventually(lambda: not storm.untried)
            storm.calm()
            calm = time.monotonic()
            with suppress(AssertionError):  # what is missing is said below
                eventually(lambda: all(self._is_settled(contest) for contest in self.contests))
        self._wait_for_replicas()
        self.observer.catch_up()
        self.said.append(f"{calm - began:.1f} s of storm, full {time.monotonic() - calm:.1f} s later: {storm.answers}")
        self._check(storm)
        self._clear()

    def _kill_one(self) -> None:
        self._wait_for_replicas()
        time.sleep(random.uniform(0.2, 1))
        victim = random.choice(self.site.replicas.running)
        victim.kill()
        time.sleep(random.uniform(0, 0.5))
        victim.begin()

    def _dawdle(self, _name: str) -> str:
        time.sleep(random.uniform(0, DAWDLES))
        return ""

    def _wait_for_replicas(self) -> None:
        for replica in self.site.replicas.running:
            replica.wait_until_ready()

    def _is_settled(self, contest: Contest) -> bool:
        return contest.is_full(self.observer) and contest.is_balanced(self.site, self.observer)

    def _check(self, storm: Storm) -> None:
        problems = [excess for contest in self.contests for excess in contest.excesses(self.observer)]
        for contest in self.contests:
            if not contest.is_full(self.observer):
                problems.append(f"{contest.key} is not full")
            if not contest.is_balanced(self.site, self.observer):
                problems.append(f"{contest.key} has other entries than pods")
        problems += storm.strange
        assert problems == [], "\n".join([*problems, *self.said, self._record()])

    def _record(self) -> str:
        """A file with all that was heard and logged, for whoever has to find out why."""
        file = self.site.replicas.running[0].log.with_name("race.log")
        file.write_text("\n".join([*self.observer.history, self.site.logs()]))
        return f"the whole story: {file}"

    def _clear(self) -> None:
        for namespace in (namespace for contest in self.contests for namespace in contest.namespaces):
            self.site.plane.raw("DELETE", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
