"""Values of which several are made for every pod, and which nobody changes."""

from typing import TYPE_CHECKING

__all__ = ["fixed"]

if TYPE_CHECKING:
    from dataclasses import dataclass as fixed
else:
    from dataclasses import dataclass

    def fixed(*, frozen, **how):
        """A dataclass that is frozen for those who check types.

        At run time nothing keeps anybody from setting its fields: the check is made by a call for each field, also when
        one is made, and took a twentieth of the time of a decision.
        """
        return dataclass(**how, eq=True, unsafe_hash=frozen)
