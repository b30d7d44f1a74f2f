"""The namespaces that policy files claim, by exact names and globs. No two files may claim one at the same rank."""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from string import ascii_lowercase, digits

from webhook.model.globs import ends_agree, is_glob
from webhook.model.shape import shortened
from webhook.yaml_files.file_errors import Faults, KeyPath

MAX_NAME = 63
"""Characters that the name of a namespace may have (a DNS label, RFC 1123)."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_GLOB = re.compile(r"[a-z0-9*?]([a-z0-9*?-]*[a-z0-9*?])?")


def fault_in(pattern: str) -> str:
    """Why `pattern` is no name of a namespace and no glob of such names; empty if it is one."""
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
    """A shortest valid name of a namespace that both globs match; None if there is none.

    >>> overlap("vision-*", "*-test"), overlap("a-*", "b-*")
    ('vision-test', None)

    Walks the product of the two automata breadth first, over names that are valid DNS labels.
    """
    if not ends_agree(one, other):
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


def _alphabet(patterns: str) -> str:
    """The characters in the patterns, one character for all others, and the dash at the end."""
    named = set(patterns) - set("*?-")
    filler = next((letter for letter in "x" + ascii_lowercase + digits if letter not in named), "")
    return "".join(sorted(named)) + filler + "-"


def _skip_stars(pattern: str, position: int) -> Iterator[int]:
    """The position, and the positions after each star that starts there, because a star also matches no character."""
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


@dataclass(frozen=True, slots=True)
class NamespacePattern:
    """A name or glob of namespaces that a file claims, and its place: path of the file, line from 1, key."""

    pattern: str
    path: str
    line: int
    key: KeyPath


class ClaimedNamespaces:
    """Collects the claims of files. The ranks: exact name, then globs from the longest to the shortest."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._names: dict[str, NamespacePattern] = {}
        self._globs: dict[int, list[NamespacePattern]] = {}

    def add(self, claims: Iterable[NamespacePattern]) -> Iterator[str]:
        """The names and globs that one file claims. A claim that an earlier file has made is a fault instead."""
        for claim in claims:
            if fault := self._fault(claim):
                self._faults.add(claim.path, claim.line, claim.key, fault)
                continue
            yield claim.pattern
            if is_glob(claim.pattern):
                self._globs.setdefault(len(claim.pattern), []).append(claim)
            else:
                self._names[claim.pattern] = claim

    def _fault(self, claim: NamespacePattern) -> str:
        if not is_glob(claim.pattern):
            owner = self._names.get(claim.pattern)
            return _twice(owner) if owner is not None else ""
        for owner in self._globs.get(len(claim.pattern), ()):
            witness = overlap(owner.pattern, claim.pattern) if owner.path != claim.path else None
            if witness is not None and owner.pattern == claim.pattern:
                return _twice(owner)
            if witness is not None:
                return (
                    f"{claim.pattern} and {owner.pattern} of {owner.path}:{owner.line} have the same length and can "
                    f"both claim a namespace such as {witness}; make one of them longer or narrower"
                )
        return ""


def _twice(owner: NamespacePattern) -> str:
    return f"{owner.pattern} is claimed by {owner.path}:{owner.line} too; keep it in one of the two files"
