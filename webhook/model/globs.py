"""Globs over any text: `*` is any run of characters, including slashes and colons, `?` is one; nothing else is special.

Patterns come from the platform, but the texts may come from tenants. So matching takes time linear in the text,
however many stars a pattern has.
"""

import re
from collections.abc import Iterable
from functools import lru_cache


def is_glob(pattern: str) -> bool:
    """Whether the pattern has a wildcard."""
    return "*" in pattern or "?" in pattern


@lru_cache(maxsize=4096)
def matcher(pattern: str) -> re.Pattern[str]:
    """The glob as a regular expression, for use with fullmatch.

    The first match of a text between two stars is as good as any later match. So it stands in an atomic group, which
    never looks for it again.
    """
    first, *others = (re.escape(piece).replace(r"\?", ".") for piece in pattern.split("*"))
    if not others:
        return re.compile(first, re.DOTALL)
    *between, last = others
    return re.compile(first + "".join(f"(?>.*?{piece})" for piece in between if piece) + ".*" + last, re.DOTALL)


def closest(patterns: Iterable[str], text: str) -> str | None:
    """The most specific pattern that matches `text`; None where none matches.

    The text itself beats every glob, and a longer glob beats a shorter one. Of two globs of equal length the first in
    the alphabet wins.

    >>> closest(["registry.corp/*", "registry.corp/ml/*:*-cu124"], "registry.corp/ml/train/app:7-cu124")
    'registry.corp/ml/*:*-cu124'
    """
    found = [pattern for pattern in patterns if pattern == text or matcher(pattern).fullmatch(text)]
    return min(found, key=lambda pattern: (pattern != text, -len(pattern), pattern), default=None)
