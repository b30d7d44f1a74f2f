"""Which namespaces a policy file claims: exact names and globs, and whether two globs can claim the same one."""

import re
from collections import deque
from collections.abc import Iterator
from string import ascii_lowercase, digits

from webhook.model.globs import is_glob
from webhook.model.shape import shortened

MAX_NAME = 63
"""Most characters in a namespace's name (a DNS label, RFC 1123)."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_GLOB = re.compile(r"[a-z0-9*?]([a-z0-9*?-]*[a-z0-9*?])?")


def fault_in(pattern: str) -> str:
    """What keeps `pattern` from being a namespace's name or a glob of such names; empty where nothing does."""
    if is_glob(pattern):
        if len(pattern.replace("*", "")) <= MAX_NAME and len(pattern) <= 2 * MAX_NAME and _GLOB.fullmatch(pattern):
            return ""
    elif len(pattern) <= MAX_NAME and _NAME.fullmatch(pattern):
        return ""
    return (
        f'"{shortened(pattern, 80)}" cannot be a namespace; names have up to {MAX_NAME} lower-case letters, digits and '
        "inner dashes, and the only wildcards are * and ?"
    )


def overlap(one: str, other: str) -> str | None:
    """A shortest namespace name that both globs match, None where no valid name does.

    >>> overlap("vision-*", "*-test"), overlap("a-*", "b-*")
    ('vision-test', None)

    Walks the product of the two automata breadth first, over names that are valid DNS labels.
    """
    if not _ends_agree(one, other):
        return None
    alphabet = _alphabet(one + other)
    seen: set[tuple[int, int, bool]] = set()
    queue = deque((i, j, "") for i in _skip_stars(one, 0) for j in _skip_stars(other, 0))
    while queue:
        i, j, name = queue.popleft()
        dashed = name.endswith("-")
        if i == len(one) and j == len(other) and name and not dashed:
            return name
        if len(name) == MAX_NAME:
            continue
        for character in alphabet if name else alphabet[:-1]:
            for next_i in _step(one, i, character):
                for next_j in _step(other, j, character):
                    state = (next_i, next_j, character == "-")
                    if state not in seen:
                        seen.add(state)
                        queue.append((next_i, next_j, name + character))
    return None


def _ends_agree(one: str, other: str) -> bool:
    """Whether the texts before the first and after the last wildcard allow a common name; cheap, and mostly decides."""
    for left, right in ((one, other), (one[::-1], other[::-1])):
        fixed = min(len(re.split(r"[*?]", left, maxsplit=1)[0]), len(re.split(r"[*?]", right, maxsplit=1)[0]))
        if left[:fixed] != right[:fixed]:
            return False
    return True


def _alphabet(patterns: str) -> str:
    """The characters in the patterns, one that stands for all others, and the dash, last."""
    named = set(patterns) - set("*?-")
    filler = next((letter for letter in "x" + ascii_lowercase + digits if letter not in named), "")
    return "".join(sorted(named)) + filler + "-"


def _skip_stars(pattern: str, position: int) -> Iterator[int]:
    """The position, and those after the stars that stand there, because a star also matches nothing."""
    yield position
    while position < len(pattern) and pattern[position] == "*":
        position += 1
        yield position


def _step(pattern: str, position: int, character: str) -> Iterator[int]:
    """The positions after `character`."""
    if position < len(pattern):
        expected = pattern[position]
        if expected == "*":
            yield from _skip_stars(pattern, position)
        elif expected in ("?", character):
            yield from _skip_stars(pattern, position + 1)
