"""Globs: `*` is any run of characters, including slashes and colons, `?` is one character; no other is special.

Patterns come from the platform, but the texts may come from tenants. So matching takes time linear in the text,
however many stars a pattern has.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

_WILDCARD = re.compile(r"[*?]")


def is_glob(pattern: str) -> bool:
    """Whether the pattern has a wildcard."""
    return "*" in pattern or "?" in pattern


@lru_cache(maxsize=4096)
def matcher(pattern: str) -> re.Pattern[str]:
    """The glob as a regular expression, for use with fullmatch."""
    return _compiled(pattern)


def tester(pattern: str) -> Callable[[str], object]:
    """A function that says whether a text matches the glob. Whoever keeps it never compiles the glob again.

    >>> bool(tester("a*c")("abc")), bool(tester("a*a")("a")), bool(tester("a?")("a"))
    (True, False, False)
    """
    first, star, last = pattern.partition("*")
    if not star or "*" in last or "?" in pattern:
        return _compiled(pattern).fullmatch
    least = len(first) + len(last)
    return lambda text: len(text) >= least and text.startswith(first) and text.endswith(last)


def _compiled(pattern: str) -> re.Pattern[str]:
    """The first match of a text between two stars is as good as any later match. So it stands in an atomic group, which
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


def overlap(one: str, other: str) -> bool:
    """Whether a text exists that matches both globs.

    >>> overlap("a*c", "ab*"), overlap("a*", "b*")
    (True, False)
    """
    if not ends_agree(one, other):
        return False
    reached, pending = {(0, 0)}, [(0, 0)]
    while pending:
        at = pending.pop()
        if at == (len(one), len(other)):
            return True
        for following in _steps(one, other, *at):
            if following not in reached:
                reached.add(following)
                pending.append(following)
    return False


def ends_agree(one: str, other: str) -> bool:
    """Whether the texts before the first and after the last wildcard allow a common text. Cheap, and often enough."""
    for left, right in ((one, other), (one[::-1], other[::-1])):
        fixed = min(len(before_wildcard(left)), len(before_wildcard(right)))
        if left[:fixed] != right[:fixed]:
            return False
    return True


def before_wildcard(pattern: str) -> str:
    """What every text begins with that matches the glob.

    >>> before_wildcard("team-?*"), before_wildcard("team")
    ('team-', 'team')
    """
    return _WILDCARD.split(pattern, maxsplit=1)[0]


def _steps(one: str, other: str, i: int, j: int) -> Iterator[tuple[int, int]]:
    """The positions in both globs after one more common character, or after a star that matches nothing."""
    left, right = one[i : i + 1], other[j : j + 1]
    if left == "*":
        yield i + 1, j
    if right == "*":
        yield i, j + 1
    if left and right:
        if left == "*":
            yield i, j + 1
        if right == "*":
            yield i + 1, j
        if left == right or "?" in (left, right):
            yield i + 1, j + 1
