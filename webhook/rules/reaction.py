"""What becomes of a pod that does something which a platform may allow."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from webhook.rules.rule import Advice, Violation
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
