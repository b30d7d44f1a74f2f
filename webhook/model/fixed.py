"""Dataclasses for values that are made several times for every pod and never changed."""

from typing import TYPE_CHECKING

__all__ = ["fixed"]

if TYPE_CHECKING:
    from dataclasses import dataclass as fixed
else:
    from dataclasses import dataclass

    def fixed(*, frozen, **how):
        """A dataclass that is frozen for type checkers only.

        At run time its fields can be set. The check of a frozen dataclass costs a call for each field of each new
        value, which took a twentieth of the time of a decision.
        """
        return dataclass(**how, eq=True, unsafe_hash=frozen)
