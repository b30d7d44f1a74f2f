"""How long a request may wait, and for how long it may be decided."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from webhook.admission.watchdog import DECISION_SECONDS, DecisionDeadline

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """How long a request may wait, and how it lets other requests be served meanwhile.

    `seconds` may be spent on waiting; `may_block` is called before it. `deadline` bounds the rest of the decision.
    """

    seconds: float = 1.0
    may_block: Callable[[], None] = lambda: None
    deadline: DecisionDeadline = field(default_factory=lambda: DecisionDeadline(DECISION_SECONDS, math.inf))

    def waiting(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, which may wait and bounds its time itself."""

        def waited() -> Result:
            self.may_block()
            return work()

        return self.deadline.outside(waited)
