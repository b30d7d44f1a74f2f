"""The namespaces that policy files claim, by exact names and globs. No two files may claim one at the same rank."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

from webhook.model.globs import is_glob, overlap
from webhook.model.shape import shortened
from webhook.yaml_files.camel_model import readable
from webhook.yaml_files.file_errors import Faults, KeyPath

MAX_NAME = 63
"""Characters that the name of a namespace may have (a DNS label, RFC 1123)."""
DNS_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_GLOB = re.compile(r"[a-z0-9*?]([a-z0-9*?-]*[a-z0-9*?])?")


def fault_in(pattern: str) -> str:
    """Why `pattern` is no name of a namespace and no glob of such names; empty if it is one."""
    if is_glob(pattern):
        if len(pattern.replace("*", "")) <= MAX_NAME and len(pattern) <= 2 * MAX_NAME and _GLOB.fullmatch(pattern):
            return ""
    elif re.fullmatch(DNS_LABEL, pattern):
        return ""
    return (
        f'"{shortened(pattern, 80)}" cannot be a namespace; names have up to {MAX_NAME} lower-case letters, digits and '
        "inner dashes, and the only wildcards are * and ?"
    )


def _check(pattern: str) -> None:
    if fault := fault_in(pattern):
        raise ValueError(fault)


NamespaceGlob = Annotated[str, AfterValidator(readable(_check))]
"""The name of a namespace, or a glob of such names."""


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
            self._names[claim.pattern] = claim
            if is_glob(claim.pattern):
                self._globs.setdefault(len(claim.pattern), []).append(claim)

    def _fault(self, claim: NamespacePattern) -> str:
        if owner := self._names.get(claim.pattern):
            return f"{owner.pattern} is claimed by {owner.path}:{owner.line} too; keep it in one of the two files"
        for owner in self._globs.get(len(claim.pattern), ()) if is_glob(claim.pattern) else ():
            if owner.path != claim.path and overlap(owner.pattern, claim.pattern):
                return (
                    f"{claim.pattern} and {owner.pattern} of {owner.path}:{owner.line} have the same length and can "
                    "both claim one namespace; make one of them longer or narrower"
                )
        return ""
