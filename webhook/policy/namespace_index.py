"""Which policy each name or glob of namespaces leads to; no two files may claim one namespace at the same rank."""

from dataclasses import dataclass

from webhook.model.globs import is_glob
from webhook.policy.namespace_globs import overlap
from webhook.policy.policy_set import Policy
from webhook.policy.policy_source import NamespacePattern, PolicySource
from webhook.yaml_files.file_errors import Faults


@dataclass(frozen=True, slots=True)
class _Owner:
    file: str
    place: str
    pattern: str


class NamespaceIndex:
    """Collects the claims of files. The ranks: exact name, then globs from the longest to the shortest."""

    def __init__(self, faults: Faults) -> None:
        self.policies: dict[str, Policy] = {}
        self._faults = faults
        self._names: dict[str, _Owner] = {}
        self._globs: dict[int, list[_Owner]] = {}

    def add(self, source: PolicySource, policy: Policy) -> None:
        """Record what a file claims, or a fault for each claim that an earlier file makes too."""
        for claim in source.claims:
            fault = self._fault(claim, source.file)
            if fault:
                self._faults.add(source.path, claim.line, claim.key, fault)
                continue
            self.policies[claim.pattern] = policy
            owner = _Owner(source.file, f"{source.path}:{claim.line}", claim.pattern)
            if is_glob(claim.pattern):
                self._globs.setdefault(len(claim.pattern), []).append(owner)
            else:
                self._names[claim.pattern] = owner

    def _fault(self, claim: NamespacePattern, file: str) -> str:
        if not is_glob(claim.pattern):
            owner = self._names.get(claim.pattern)
            return _twice(owner) if owner is not None else ""
        for owner in self._globs.get(len(claim.pattern), ()):
            witness = overlap(owner.pattern, claim.pattern) if owner.file != file else None
            if witness is not None and owner.pattern == claim.pattern:
                return _twice(owner)
            if witness is not None:
                return (
                    f"{claim.pattern} and {owner.pattern} of {owner.place} have the same length and can both claim a "
                    f"namespace such as {witness}; make one of them longer or narrower"
                )
        return ""


def _twice(owner: _Owner) -> str:
    return f"{owner.pattern} is claimed by {owner.place} too; keep it in one of the two files"
