"""Globs: `*` is any run of characters, including slashes and colons, `?` is one character; no other is special.

Patterns come from the platform, but the texts may come from tenants. So matching takes time linear in the text,
however many stars a pattern has. A glob `in_parts` is for texts of bounded length, whose parts a slash separates: `*`
and `?` stay within a part there, and `**` is any run of characters.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

_WILDCARD = re.compile(r"[*?]")
_RUN = re.compile(r"\*\*+")
_PARTS = re.compile(r"\*\*+|.", re.DOTALL)
_ANY, _NO_SLASH = "any", "[^/]"
"""What a wildcard stands for; the second is also a regular expression."""


def is_glob(pattern: str) -> bool:
    """Whether the pattern has a wildcard."""
    return "*" in pattern or "?" in pattern


@lru_cache(maxsize=4096)
def matcher(pattern: str) -> re.Pattern[str]:
    """The glob as a regular expression, for use with fullmatch."""
    return _compiled(pattern)


def glob_tester(pattern: str, *, in_parts: bool) -> Callable[[str], object]:
    """A function that says whether a text matches the glob. Whoever keeps it never compiles the glob again.

    >>> [[bool(glob_tester(glob, in_parts=yes)("a/b/c")) for glob in ("a*c", "a/**", "a/*/c")] for yes in (False, True)]
    [[True, True, True], [False, True, True]]
    """
    first, star, last = pattern.partition("*")
    if in_parts or not star or "*" in last or "?" in pattern:
        return _compiled(pattern, in_parts=in_parts).fullmatch
    least = len(first) + len(last)
    return lambda text: len(text) >= least and text.startswith(first) and text.endswith(last)


def _compiled(pattern: str, *, in_parts: bool = False) -> re.Pattern[str]:
    """The first match of a text between two stars is as good as any later match. So it stands in an atomic group, which
    never looks for it again. That holds within parts, too, because a star beside a slash has no choice.
    """
    pieces = [re.escape(piece) for piece in pattern.split("*")]
    if in_parts:
        runs = [[re.escape(piece) for piece in run.split("*")] for run in _RUN.split(pattern)]
        pieces = [_joined(run, _NO_SLASH) for run in runs]
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


def overlap(one: str, other: str, *, in_parts: bool = False) -> bool:
    """Whether a text exists that matches both globs.

    >>> overlap("a*c", "ab*"), overlap("a*", "b*"), overlap("a/*", "a/b/*", in_parts=True)
    (True, False, False)
    """
    if not ends_agree(one, other):
        return False
    left, right = _steps_of(one, in_parts=in_parts), _steps_of(other, in_parts=in_parts)
    reached, pending = {(0, 0)}, [(0, 0)]
    while pending:
        at = pending.pop()
        if at == (len(left), len(right)):
            return True
        for following in _following(left, right, *at):
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


_Step = tuple[bool, str]
"""Whether it is a star, and the character of which it is one or any run: its own, _ANY, or _NO_SLASH."""


def _steps_of(pattern: str, *, in_parts: bool) -> Sequence[_Step]:
    mark = _NO_SLASH if in_parts else _ANY
    return [(part[0] == "*", _ANY if part[1:] else mark if part in "*?" else part) for part in _PARTS.findall(pattern)]


def _following(one: Sequence[_Step], other: Sequence[_Step], i: int, j: int) -> Iterator[tuple[int, int]]:
    """The positions in both globs after one more common character, or after a star that matches nothing."""
    is_star, left = one[i] if i < len(one) else (False, "")
    is_other_star, right = other[j] if j < len(other) else (False, "")
    if is_star:
        yield i + 1, j
    if is_other_star:
        yield i, j + 1
    pair = {left, right}
    if left and right and (len(pair) == 1 or _ANY in pair or (_NO_SLASH in pair and "/" not in pair)):
        yield i + (not is_star), j + (not is_other_star)
