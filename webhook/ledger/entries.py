"""The entries of one ledger: what each admitted pod or resource claim requests, by its uid.

Pods of a namespace with equal demands share a text, so a pod costs the 16 bytes of its uid, which are 22 in base64.

A ConfigMap holds the entries as JSON, which is compressed where it is large.
"""

import base64
import gzip
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from operator import itemgetter
from types import MappingProxyType
from typing import Annotated, Any
from uuid import UUID

import orjson
from pydantic import BaseModel, Field, NonNegativeInt, PositiveInt, ValidationError
from pydantic.alias_generators import to_camel

from webhook.kubernetes.api_paths import segment
from webhook.ledger.remainders import Remainder, returned
from webhook.model.json_parts import mapped
from webhook.model.shape import cut_to_bytes, unzipped
from webhook.quota.quotas import ClaimedDevices, ClaimedRequest, Demand

UID_BYTES = 16
_NONE: Mapping[bytes, Remainder | None] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of one quota. Immutable: a change makes another object.

    `patterns` are the names and globs of namespaces whose pods all have an entry, also pods that are older than the
    quota.
    """

    by_uid: Mapping[bytes, Demand] = field(default_factory=dict)
    patterns: frozenset[str] = frozenset()
    counts: Mapping[Demand, int] = field(default_factory=dict, compare=False)
    """Demand -> number of pods with this demand, those that remainders hold room for included; counted here where it is
    not given.
    """
    rounds: Mapping[bytes, int] = field(default_factory=dict)
    """Uid -> how often the entry of a gated pod was renewed, because its last gate was to go once more."""
    remainders: Mapping[bytes, Remainder] = field(default_factory=dict)
    """The room for the pods of groups that are still to come, by `webhook.ledger.remainders.key_of`."""

    def __post_init__(self) -> None:
        if (self.by_uid or self.remainders) and not self.counts:
            counts = Counter[Demand]()
            for demand, uids in _by_demand(self.by_uid):
                counts[demand] += len(uids)
            for one in self.remainders.values():
                if one.left:
                    counts[one.demand] += one.left
            object.__setattr__(self, "counts", counts)

    def changed(
        self,
        added: Mapping[bytes, Demand],
        removed: Collection[bytes] = (),
        patterns: Iterable[str] | None = None,
        renewed: Collection[bytes] = (),
        remainders: Mapping[bytes, Remainder | None] = _NONE,
    ) -> "Entries":
        """The entries after a change; `self` where nothing differs. An entry that is also in `added` is not removed.

        `remainders` are the new ones by their keys, and None for those that end.
        """
        shared = {demand: demand for demand in self.counts}  # one object for equal demands
        new = {uid: shared.setdefault(demand, demand) for uid, demand in added.items()}
        new = {uid: one for uid, one in new.items() if self.by_uid.get(uid) != one}
        gone = {uid for uid in removed if uid in self.by_uid and uid not in added}
        covered = self.patterns if patterns is None else frozenset(patterns)
        remainders = {key: one for key, one in remainders.items() if self.remainders.get(key) != one}
        if not new and not gone and covered == self.patterns and not renewed and not remainders:
            return self
        by_uid = {**self.by_uid, **new}
        for uid in gone:
            del by_uid[uid]
        replaced = [self.by_uid[uid] for uid in (*gone, *new) if uid in self.by_uid]
        rounds = {uid: number for uid, number in self.rounds.items() if uid not in gone}
        rounds |= {uid: rounds.get(uid, 0) + 1 for uid in renewed if uid in by_uid}
        counts, before, held = Counter(self.counts), self.remainders, self.remainders
        counts.update(new.values())
        counts.subtract(replaced)
        if remainders or (held and gone):
            held = {key: one for key, one in {**held, **remainders}.items() if one is not None}
            remainders = {**remainders, **returned(held, {uid: self.by_uid[uid] for uid in gone}, by_uid)}
            held = {key: one for key, one in {**held, **remainders}.items() if one is not None}
            for known, times in ((before, -1), (held, 1)):
                for one in [known[key] for key in remainders if key in known]:
                    counts[one.demand] += times * one.left
                    replaced.append(one.demand)
        for demand in replaced:
            if not counts.get(demand, 1):
                del counts[demand]
        return Entries(by_uid, covered, counts, rounds, held)

    @property
    def namespaces(self) -> frozenset[str]:
        return frozenset(demand.namespace for demand in self.counts)

    def to_raw(self) -> dict[str, Any]:
        """The entries as JSON, sorted so that equal entries make equal texts.

        `kinds` lists what pods request. `entries` is namespace -> number of the kind -> uids in base64. `rounds` is
        how often entries were renewed -> their uids. `groups` are the
        remainders. Both are only there where there are some.
        """
        every = {*self.counts, *(one.demand for one in self.remainders.values())}
        kinds = sorted(set(map(kind_of, every)), key=lambda kind: orjson.dumps(kind_to_raw(kind)))
        numbers = {kind: number for number, kind in enumerate(kinds)}
        uids: dict[Demand, list[bytes]] = {}
        for demand, pods in sorted(
            _by_demand(self.by_uid), key=lambda one: (one[0].namespace, numbers[kind_of(one[0])])
        ):
            uids.setdefault(demand, []).extend(pods)
        entries: dict[str, dict[str, str]] = {}
        for demand, pods in uids.items():
            entries.setdefault(demand.namespace, {})[str(numbers[kind_of(demand)])] = _packed(pods)
        rounds: dict[str, list[bytes]] = {}
        for uid, number in sorted(self.rounds.items(), key=itemgetter(1)):
            rounds.setdefault(str(number), []).append(uid)
        groups = [
            {
                "key": _packed([key]),
                "of": one.of,
                "namespace": one.demand.namespace,
                "kind": numbers[kind_of(one.demand)],
                "size": one.size,
                "members": _packed(one.members),
                "entered": one.entered,
                "isLasting": one.is_lasting,
            }
            for key, one in sorted(self.remainders.items())
        ]
        return {
            "namespaces": sorted(self.patterns),
            "pods": len(self.by_uid),
            "kinds": [kind_to_raw(kind) for kind in kinds],
            "entries": entries,
            **({"rounds": {number: _packed(uids) for number, uids in rounds.items()}} if rounds else {}),
            **({"groups": groups} if groups else {}),
        }


def _packed(uids: Iterable[bytes]) -> str:
    return base64.b64encode(b"".join(sorted(uids))).decode("ascii")


Kind = tuple[tuple[tuple[str, int], ...], tuple[str, ...] | None, tuple[ClaimedRequest, ...]]
"""What demands of several namespaces have in common: `gpus`, `models` and `requests`."""


def kind_of(demand: Demand) -> Kind:
    """What a demand has in common with demands of other namespaces."""
    return demand.gpus, demand.models, demand.requests


def kind_to_raw(kind: Kind) -> dict[str, Any]:
    """One of the `kinds` in JSON: what pods or claims request, whatever their namespace."""
    gpus, models, requests = kind
    raw: dict[str, Any] = {"gpus": dict(gpus)}
    if models is not None:
        raw["models"] = list(models)
    if requests:
        raw["requests"] = [
            [
                {"gpu": one.resource, "number": one.number}
                | ({} if one.models is None else {"models": list(one.models)})
                for one in request
            ]
            for request in requests
        ]
    return raw


def uid_bytes(text: str) -> bytes:
    """The uid of a pod, from the text in metadata.uid. Raises ValueError where it is no UUID."""
    return UUID(text).bytes


def reservation_key(namespace: str, pod: bytes, claim: str) -> bytes:
    """The key of the entry that holds room for a claim which Kubernetes will make for a pod from a template.

    `namespace` is where the pod is, `pod` its uid, `claim` the name of the claim in the pod. The claim takes over the
    room with an entry of its own, under its own uid.
    """
    text = f"{namespace}/{claim}".encode(errors="surrogatepass")
    return sha256(pod + text).digest()[:UID_BYTES]


class _Devices(BaseModel, strict=True):
    gpu: str
    number: PositiveInt
    models: list[str] | None = None

    @property
    def value(self) -> ClaimedDevices:
        return ClaimedDevices(self.gpu, self.number, None if self.models is None else tuple(sorted(self.models)))


class _Kind(BaseModel, strict=True):
    gpus: dict[str, PositiveInt]
    models: list[str] | None = None
    requests: list[Annotated[list[_Devices], Field(min_length=1)]] = []

    @property
    def value(self) -> Kind:
        requests = tuple(tuple(one.value for one in request) for request in self.requests)
        models = None if self.models is None else tuple(sorted(self.models))
        return tuple(sorted(self.gpus.items())), models, requests


class _Group(BaseModel, strict=True, alias_generator=to_camel):
    key: str
    of: str
    namespace: str
    kind: NonNegativeInt
    size: NonNegativeInt
    members: str
    entered: int
    is_lasting: bool


class _Content(BaseModel, strict=True):
    """The JSON of a ledger: what `Entries.to_raw` makes."""

    namespaces: list[str] = []
    kinds: list[_Kind] = []
    entries: dict[str, dict[str, str]]
    rounds: dict[str, str] = {}
    groups: list[_Group] = []


def entries_from_raw(raw: object) -> Entries:
    """Read what `to_raw` gave. Raises ValueError, which names the place, for anything else."""
    try:
        content = _Content.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or DATA}: {first['msg']}") from None
    kinds = [kind.value for kind in content.kinds]
    by_uid: dict[bytes, Demand] = {}
    for namespace, pods in content.entries.items():
        segment(namespace)  # lists of its pods have to have a path
        for number, packed in pods.items():
            where = f"entries.{namespace}.{number}"
            if not number.isdecimal() or int(number) >= len(kinds):
                raise ValueError(f"{where}: no kind has this number")
            demand = Demand(namespace, *kinds[int(number)])
            by_uid.update(dict.fromkeys(_uids(packed, where), demand))
    rounds: dict[bytes, int] = {}
    for number, packed in content.rounds.items():
        if not number.isdecimal():
            raise ValueError(f"rounds.{number}: expected a number of rounds")
        rounds.update(dict.fromkeys(_uids(packed, f"rounds.{number}"), int(number)))
    remainders: dict[bytes, Remainder] = {}
    for index, one in enumerate(content.groups):
        keys, members = (list(_uids(text, f"groups.{index}")) for text in (one.key, one.members))
        if len(keys) != 1 or one.kind >= len(kinds):
            raise ValueError(f"groups.{index}: found no key, or no kind has the number {one.kind}")
        demand = Demand(segment(one.namespace), *kinds[one.kind])
        remainders[keys[0]] = Remainder(one.of, demand, one.size, frozenset(members), one.entered, one.is_lasting)
    return Entries(by_uid, frozenset(content.namespaces), rounds=rounds, remainders=remainders)


def _uids(packed: str, where: str) -> Iterator[bytes]:
    try:
        found = base64.b64decode(packed, validate=True)
    except ValueError as error:
        raise ValueError(f"{where}: uids are no base64 ({error})") from None
    if len(found) % UID_BYTES:
        raise ValueError(f"{where}: {len(found)} bytes are no whole number of uids of {UID_BYTES}")
    return (found[start : start + UID_BYTES] for start in range(0, len(found), UID_BYTES))


def _by_demand(by_uid: Mapping[bytes, Demand]) -> Iterable[tuple[Demand, list[bytes]]]:
    """Demands with their uids. A demand comes once for each object that is equal to it; most entries share one object.

    Demands are compared by identity, because hashing one takes longer than all other work for an entry.
    """
    found: dict[int, tuple[Demand, list[bytes]]] = {}
    for uid, demand in by_uid.items():
        known = found.get(id(demand))
        if known is None:
            found[id(demand)] = demand, [uid]
        else:
            known[1].append(uid)
    return found.values()


PREFIX = "gpu-quota."
"""Start of the name of a ledger's ConfigMap; the key of the quota follows, as in gpu-quota.namespace.team-vision."""
LABEL = "gpupolicy.dev/ledger"
DATA = "book.json"
"""The key in `data` of a ConfigMap that holds the entries as text."""
PACKED = "book.json.gz"
"""The key in `binaryData` that holds them where the text is large."""

SET_ASIDE = "book.broken"
"""The key in `data` that holds what was last found and could not be decoded."""

_MOST_SET_ASIDE = 64 * 1024
"""Most bytes that are set aside. Besides the longest ledger, a ConfigMap has room for twice as many."""
_LARGEST_TEXT = 600 * 1024
"""Most bytes of JSON that are written as text. A ConfigMap may have 1 MiB, and gzip makes uids a quarter shorter."""
_LARGEST_JSON = 16 * 1024**2


def content(entries: Entries, aside: str = "") -> dict[str, Any]:
    """The parts of a ConfigMap that hold the entries, and what was set aside before."""
    text = orjson.dumps(entries.to_raw())
    data = {SET_ASIDE: aside} if aside else {}
    if len(text) <= _LARGEST_TEXT:
        return {"data": {DATA: text.decode(), **data}}
    packed = {PACKED: base64.b64encode(gzip.compress(text, mtime=0)).decode("ascii")}
    return {"binaryData": packed, **({"data": data} if data else {})}


def undecodable(found: object) -> str:
    """What a ConfigMap has in place of entries, cut to what is set aside."""
    parts = {**mapped(found, "data"), **mapped(found, "binaryData")}
    text = "\n".join(f"{key}: {value}" for key, value in parts.items() if key != SET_ASIDE)
    return cut_to_bytes(text, _MOST_SET_ASIDE)


def entries_in(found: object) -> Entries:
    """The entries in a ConfigMap. Raises ValueError where it is no ledger."""
    text, packed = mapped(found, "data").get(DATA), mapped(found, "binaryData").get(PACKED)
    if isinstance(text, str):
        return entries_from_raw(orjson.loads(text))
    if isinstance(packed, str):
        try:
            unpacked = unzipped(base64.b64decode(packed, validate=True), _LARGEST_JSON)
        except (zlib.error, ValueError) as error:
            raise ValueError(f"binaryData[{PACKED}] is not gzip of a ledger: {error}") from None
        return entries_from_raw(orjson.loads(unpacked))
    raise ValueError(f"found neither data[{DATA}] nor binaryData[{PACKED}]")
