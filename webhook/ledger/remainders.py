"""Room that a ledger holds for the pods of a group that are still to come, so that a group starts whole or not at all.

The first pod of a group is entered together with this room, its remainder, in one write. Each later pod takes a unit of
it. A pod that leaves before the group is complete gives its unit back.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from hashlib import sha256

from webhook.quota.quotas import Demand

LEASE = 600
"""Seconds after its last pod for which a remainder holds room at most, unless it is lasting."""


@dataclass(frozen=True, slots=True)
class Remainder:
    """Room for the pods of one part of a group that are still to come: `left` times `demand`.

    `of` says which part of which group it is, as `webhook.model.pod_groups` spells it. `members` are the uids of the
    pods that came. `entered` is when the last of them came, in seconds since 1970. A lasting remainder has no lease:
    its pods are made one after the other.
    """

    of: str
    demand: Demand
    size: int
    members: frozenset[bytes]
    entered: int
    is_lasting: bool = False

    @property
    def left(self) -> int:
        return max(0, self.size - len(self.members))

    @property
    def group(self) -> tuple[str, str]:
        """What the remainders of all parts of its group have in common."""
        return self.demand.namespace, self.of.rpartition("/")[0]

    def has_expired(self, now: float) -> bool:
        """Whether its lease is over at `now`, in seconds since 1970."""
        return not self.is_lasting and abs(now - self.entered) > LEASE


@dataclass(frozen=True, slots=True)
class PartRequest:
    """What one part of a group needs of a quota: `size` pods with this demand. `present` are those that are stored."""

    of: str
    key: bytes
    demand: Demand
    size: int
    present: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """What the group of a pod needs of a quota. The first of the parts is the pod's own. `at` is in seconds since 1970.

    `name` is for people, such as `PodGroup ga`. A group that `has_begun` gets no room that it has not got yet.
    """

    name: str
    parts: tuple[PartRequest, ...]
    at: int = 0
    is_lasting: bool = False
    has_begun: bool = False


def key_of(uid: str, of: str) -> bytes:
    """The key of the remainder of a part of a group, from the uid of the object that was read."""
    return sha256(f"{uid}/{of}".encode(errors="surrogatepass")).digest()[:16]


def joined(
    group: GroupRequest | None, uid: bytes, before: Mapping[bytes, Remainder], gone: Set[bytes] = frozenset()
) -> dict[bytes, Remainder]:
    """The remainders that differ from those before when a pod of a group is entered, by their keys.

    Where the object has another size by now, so has the remainder; none after its lease. A complete group has none.
    Pods in `gone` are not stored any more.
    """
    changed: dict[bytes, Remainder] = {}
    if group is None:
        return changed
    for number, part in enumerate(group.parts):
        own, known = frozenset([uid] if number == 0 else ()), before.get(part.key)
        if known is not None and known.has_expired(group.at):
            changed[part.key] = replace(known, size=0, members=known.members | own)
        elif known is not None:
            entered = max(group.at, known.entered)
            changed[part.key] = replace(known, size=part.size, members=known.members | own, entered=entered)
        elif not group.has_begun:
            members = part.present - gone | own
            changed[part.key] = Remainder(part.of, part.demand, part.size, members, group.at, group.is_lasting)
    is_new = not any(part.key in before for part in group.parts)
    if is_new and not any(one.left for one in changed.values()):
        return {}
    return {key: one for key, one in changed.items() if one != before.get(key)}


def returned(
    before: Mapping[bytes, Remainder], gone: Mapping[bytes, Demand], left: Mapping[bytes, Demand]
) -> dict[bytes, Remainder | None]:
    """What becomes of remainders when the entries in `gone` go, and these are left; None for those that end.

    A pod gives its unit back if it used all of it, because what it did not use may be in use elsewhere. The remainders
    of a group end with its last pod.
    """
    changed: dict[bytes, Remainder | None] = {}
    for key, one in before.items():
        if lost := {uid for uid in one.members & gone.keys() if gone[uid] == one.demand}:
            changed[key] = replace(one, members=one.members - lost)
    now = {key: changed.get(key) or one for key, one in before.items()}
    living = {one.group for one in now.values() if any(uid in left for uid in one.members)}
    touched = {one.group for one in before.values() if one.members & gone.keys()}
    return changed | {key: None for key, one in now.items() if one.group in touched - living}
