"""Pods that request all GPUs of their node, so that each GPU which one of their containers sees is their own.

`Reaction` is what a policy says about something that a platform may allow or deny, such as this.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cached_property
from typing import Annotated

from webhook.model.pod import Pod
from webhook.rules.rule import Advice, Facts, Violation
from webhook.rules.rule_settings import choice


class Reaction(StrEnum):
    """What becomes of a pod that does something which a platform may allow."""

    DENY = "deny"
    WARN = "warn"
    ALLOW = "allow"

    def told(self, found: Violation | Advice) -> Iterator[Violation | Advice]:
        """What is said of something that was found: all of it, only advice, or nothing."""
        if self is Reaction.DENY or (self is Reaction.WARN and isinstance(found, Advice)):
            yield found
        elif self is Reaction.WARN and isinstance(found, Violation):
            yield Advice(found.where, f"{found.found}; {found.allowed}", found.remedy, found.brief)


ReactionSetting = Annotated[Reaction, choice(Reaction)]
"""A reaction as policies write it."""


def takes_whole_nodes(pod: Pod, facts: Facts) -> bool | None:
    """Whether the pod asks for every GPU of any node that it could land on; None where no such node is known.

    Every resource of GPUs counts that one of the nodes has. False where one has more than the pod asks for, or nobody
    knows how many, as of a pool that does not say it, and of what a DRA driver gives.
    """
    if not pod.gpus or any(gpu.by_dra for gpu in pod.accelerators):
        return False
    nodes = facts.feasible_nodes(pod)
    if not nodes:
        return None
    if any(node.by_claim for node in nodes):
        return False
    names = frozenset().union(*(node.gpu_resources for node in nodes))
    amounts = {name: facts.largest(name, pod) for name in names}
    return all(most is not None and most <= pod.gpus.get(name, 0) for name, most in amounts.items())


class OwnGpus:
    """Whether the GPUs of its node are all the pod's own, and what is then said. Nobody is asked before it matters."""

    def __init__(self, pod: Pod, reaction: Reaction, facts: Facts) -> None:
        self._pod, self._reaction, self._facts = pod, reaction, facts

    @cached_property
    def are_all(self) -> bool | None:
        """Whether they are, None where no node is known that the pod could land on. False where they are not to be."""
        return False if self._reaction is Reaction.DENY else takes_whole_nodes(self._pod, self._facts)

    def told(self, found: Iterable[Violation | Advice]) -> Iterator[Violation | Advice]:
        """What is said of GPUs that a container sees."""
        for one in found:
            yield from self._reaction.told(one) if self.are_all else (one,)
