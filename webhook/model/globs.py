"""Globs over any text: `*` is any run of characters, slashes and colons included, `?` is one; nothing else is special.

Patterns are the platform's, but what they are matched against may be a tenant's, so matching takes a time that is
linear in the text however many stars a pattern has.
"""

import re
from collections.abc import Iterable
from functools import lru_cache


def is_glob(pattern: str) -> bool:
    """Whether the pattern stands for more than its own text."""
    return "*" in pattern or "?" in pattern


@lru_cache(maxsize=4096)
def matcher(pattern: str) -> re.Pattern[str]:
    """The glob as a regular expression to be used with fullmatch.

    Where a text between two stars is found first, it is as good as anywhere later, so an atomic group never looks for
    it again.
    """
    first, *others = (re.escape(piece).replace(r"\?", ".") for piece in pattern.split("*"))
    if not others:
        return re.compile(first, re.DOTALL)
    *between, last = others
    return re.compile(first + "".join(f"(?>.*?{piece})" for piece in between if piece) + ".*" + last, re.DOTALL)


def closest(patterns: Iterable[str], text: str) -> str | None:
    """The pattern that says most about `text`, None where none matches it.

    The text itself beats every glob and a longer glob beats a shorter one; of two of equal length, the first in the
    alphabet.

    >>> closest(["registry.corp/*", "registry.corp/ml/*:*-cu124"], "registry.corp/ml/train/app:7-cu124")
    'registry.corp/ml/*:*-cu124'
    """
    found = [pattern for pattern in patterns if pattern == text or matcher(pattern).fullmatch(text)]
    return min(found, key=lambda pattern: (pattern != text, -len(pattern), pattern), default=None)
