"""The ledgers of all quotas, and a pod that has to go by several of them."""

from collections.abc import Mapping, Sequence
from threading import Lock

from webhook.ledger.ledger import Ledger
from webhook.ledger.means import Means
from webhook.ledger.plan import Reservation
from webhook.ledger.verdicts import Claim, Exceeded, Verdict


class Ledgers:
    """One ledger for each quota that has been asked about. Threads share it."""

    def __init__(self, means: Means) -> None:
        self.means = means
        self._lock = Lock()
        self._ledgers: dict[str, Ledger] = {}

    def of(self, key: str) -> Ledger:
        """The ledger of the quota with this key."""
        with self._lock:
            ledger = self._ledgers.get(key)
            if ledger is None:
                ledger = self._ledgers[key] = Ledger(key, self.means)
            return ledger

    @property
    def known(self) -> Mapping[str, Ledger]:
        """The ledgers that have been asked about, by key."""
        with self._lock:
            return dict(self._ledgers)

    def forget(self, key: str) -> None:
        """Drop what is known of a ledger that has been removed."""
        with self._lock:
            self._ledgers.pop(key, None)

    def reserve(
        self, uid: bytes, claims: Sequence[Claim], deadline: float, *, is_dry_run: bool = False
    ) -> tuple[Verdict, ...]:
        """Enter a pod in every ledger that it concerns, and give the verdicts in the order of `claims`.

        Ledgers are written one after the other, those that seem full first. After one that refuses the pod the others
        are only asked. What was entered before stays until it is known that no such pod came, because somebody else may
        be admitting the same pod at the same time.
        """
        verdicts: dict[int, Verdict] = {}
        is_refused = False
        for index in sorted(range(len(claims)), key=lambda index: not self._seems_full(claims[index])):
            claim = claims[index]
            reservation = Reservation(uid, claim, deadline, is_dry_run or is_refused)
            verdict = verdicts[index] = self.of(claim.quota.key).reserve(reservation)
            is_refused = is_refused or (claim.enforced and isinstance(verdict, Exceeded))
        return tuple(verdicts[index] for index in range(len(claims)))

    def _seems_full(self, claim: Claim) -> bool:
        return claim.enforced and self.of(claim.quota.key).would_exceed(claim)
