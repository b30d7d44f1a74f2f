"""The quotas that hold in a namespace: its own, and the pots that it shares with others."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from webhook.model.globs import is_glob, matcher
from webhook.quota.quotas import OnLedgerFailure, Quota, QuotaScope
from webhook.rules.gpu_quota import Settings
from webhook.rules.rule_settings import Mode


@dataclass(frozen=True, slots=True)
class BoundQuota:
    """A quota and what becomes of a pod that would pass it. `origin` is the file that had the last word on it, `line`
    where in it, from 1.
    """

    quota: Quota
    mode: Mode
    on_ledger_failure: OnLedgerFailure
    origin: str
    line: int = field(default=0, compare=False)

    @classmethod
    def of(  # noqa: PLR0913, PLR0917  # all that a quota is bound with
        cls, scope: QuotaScope, name: str, patterns: tuple[str, ...], settings: Settings, origin: str, line: int
    ) -> "BoundQuota":
        """What settings of `gpuQuota` say, for the namespaces that `patterns` name."""
        quota = Quota(scope, name, patterns, settings.limits, settings.counting)
        return cls(quota, settings.mode, settings.on_ledger_failure, origin, line)


@dataclass(frozen=True, slots=True)
class Pots:
    """The pots of a file, sorted by name, and the settings of each as they were written, for hashing."""

    quotas: tuple[BoundQuota, ...] = ()
    written: tuple[Any, ...] = ()

    def sharing(self, previous: Iterable[BoundQuota]) -> "Pots":
        """The same pots, each as the object of `previous` that is equal to it, if there is one."""
        known = {bound.quota.name: bound for bound in previous}
        quotas = (known[new.quota.name] if known.get(new.quota.name) == new else new for new in self.quotas)
        return Pots(tuple(quotas), self.written)


NO_POTS = Pots()
"""What there is without a file of pots, or with an empty one."""


def pot_finder(pots: Sequence[BoundQuota]) -> Callable[[str], tuple[BoundQuota, ...]]:
    """What finds the pots that cover a namespace, in their order, by names and by globs that are compiled once."""
    named: dict[str, set[int]] = {}
    globs = []
    for index, pot in enumerate(pots):
        for pattern in pot.quota.patterns:
            if is_glob(pattern):
                globs.append((matcher(pattern), index))
            else:
                named.setdefault(pattern, set()).add(index)

    def find(namespace: str) -> tuple[BoundQuota, ...]:
        found = named.get(namespace, set()) | {index for glob, index in globs if glob.fullmatch(namespace)}
        return tuple(pots[index] for index in sorted(found))

    return find
