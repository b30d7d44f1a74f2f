"""Globs: `*` is any run of characters, including slashes and colons, `?` is one character; no other is special.

Patterns come from the platform, but the texts may come from tenants. So matching takes time linear in the text,
however many stars a pattern has. A glob `in_parts` is for texts of bounded length, whose parts a slash separates: `*`
and `?` stay within a part there, and `**` is any run of characters.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

_WILDCARD = re.compile(r"[*?]")
_RUN = re.compile(r"\*\*+")


def is_glob(pattern: str) -> bool:
    """Whether the pattern has a wildcard."""
    return "*" in pattern or "?" in pattern


@lru_cache(maxsize=4096)
def matcher(pattern: str, *, in_parts: bool = False) -> re.Pattern[str]:
    """The glob as a regular expression, for use with fullmatch.

    The first match of a text between two stars is as good as any later match. So it stands in an atomic group, which
    never looks for it again. That holds within parts, too, because a star beside a slash has no choice.

    >>> globs = ("a*c", "a/**", "a/*/c")
    >>> [[bool(matcher(one, in_parts=parts).fullmatch("a/b/c")) for one in globs] for parts in (False, True)]
    [[True, True, True], [False, True, True]]
    """
    pieces = [re.escape(piece) for piece in pattern.split("*")]
    if in_parts:
        runs = [[re.escape(piece) for piece in run.split("*")] for run in _RUN.split(pattern)]
        pieces = [_joined(run, "[^/]") for run in runs]
    return re.compile(_joined(pieces, "."), re.DOTALL)


def _joined(pieces: Sequence[str], wildcard: str) -> str:
    """Regular expressions with any run of `wildcard` between them, and one `wildcard` for each question mark."""
    first, *others = [piece.replace(r"\?", wildcard) for piece in pieces]
    if not others:
        return first
    *between, last = others
    return first + "".join(f"(?>{wildcard}*?{piece})" for piece in between if piece) + f"{wildcard}*?{last}"


def closest(patterns: Iterable[str], text: str) -> str | None:
    """The most specific pattern that matches `text`; None where none matches.

    The text itself beats every glob, and a longer glob beats a shorter one. Of two globs of equal length the first in
    the alphabet wins.

    >>> closest(["registry.corp/*", "registry.corp/ml/*:*-cu124"], "registry.corp/ml/train/app:7-cu124")
    'registry.corp/ml/*:*-cu124'
    """
    found = [pattern for pattern in patterns if pattern == text or matcher(pattern).fullmatch(text)]
    return min(found, key=lambda pattern: (pattern != text, -len(pattern), pattern), default=None)


def overlap(one: str, other: str) -> bool:
    """Whether a text exists that matches both globs. Neither may be in parts.

    >>> overlap("a*c", "ab*"), overlap("a*", "b*")
    (True, False)
    """
    for left, right in ((one, other), (one[::-1], other[::-1])):  # cheap, and often enough
        fixed = min(len(_WILDCARD.split(glob, maxsplit=1)[0]) for glob in (left, right))
        if left[:fixed] != right[:fixed]:
            return False
    reached, pending = {(0, 0)}, [(0, 0)]
    while pending:
        i, j = pending.pop()
        left, right = one[i : i + 1], other[j : j + 1]
        if not left and not right:
            return True
        following = {(i + 1, j)} if left == "*" else set()  # a star that matches nothing
        if right == "*":
            following.add((i, j + 1))
        if left and right and (left == right or is_glob(left) or is_glob(right)):  # one more common character
            following.add((i + (left != "*"), j + (right != "*")))
        pending += following - reached
        reached |= following
    return False
