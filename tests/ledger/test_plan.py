"""How many bytes of a ledger a namespace may take: tenants write the demands, and a shared quota has 1 MiB for all."""

import base64
import random
from fractions import Fraction

import orjson
import pytest

from tests.ledger.bookkeeping import IN_FLIGHT, Replica, shared_quota, uid
from tests.ledger.small_cluster import raw_pod
from webhook.ledger.context import LedgerTiming
from webhook.ledger.entries import MOST_RESOURCES, Entries, content
from webhook.ledger.plan import MOST_BYTES, bytes_by_namespace
from webhook.ledger.verdicts import Claim, Granted, LedgerFull
from webhook.model.pod_reader import pod_from_raw
from webhook.quota.demand import MOST_UNITS, demand_of
from webhook.quota.quotas import Demand, Limit, Measure, Quota, QuotaScope

CONFIG_MAP = 1024**2
MODELS = Quota(QuotaScope.SHARED, "models", ("vision", "speech"), (Limit(Measure.MODEL, "H100", Fraction(8)),))
"""A shared quota that counts nothing of what pods for other models ask for."""


@pytest.fixture
def replica():
    return Replica(timing=LedgerTiming(in_flight=IN_FLIGHT, longest_pause=0.0), is_bounded=True)


def held_bytes(held):
    """The bytes of the ConfigMap, as the API server measures it."""
    parts = content(held)
    texts = [text.encode() for text in parts.get("data", {}).values()]
    return sum(map(len, texts + [base64.b64decode(text) for text in parts.get("binaryData", {}).values()]))


def test_A44_made_up_names_do_not_fill_a_ledger():
    names = [f"nvidia.com/M{number:062}" for number in range(4000)]
    entries = {}
    for number in range(0, len(names), MOST_RESOURCES):
        raw = raw_pod(1)
        amounts = dict.fromkeys(names[number : number + MOST_RESOURCES], 1)
        raw["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}
        entries[uid(number + 1)] = demand_of(pod_from_raw(raw), "vision", MODELS.counting)
    assert len(orjson.dumps(Entries(entries).to_raw())) < 20_000


def crowd(number, namespace="vision"):
    """A demand that no other pod has: many resources, and counts of its own."""
    gpus = [(f"nvidia.com/mig-{c}c.7g.80gb", 10**9 + number * 16 + c) for c in range(1, 4)]
    gpus += [("nvidia.com/OTHER", 10**12 + number), ("nvidia.com/gpu", 10**12 + number)]
    models = ("A100-40GB", "A100-80GB", "A30", "B200", "L4", "L40", "L40S", "T4", "V100")
    return Demand(namespace, tuple(sorted(gpus)), models)


def test_A44_a_namespace_fills_its_share_of_a_ledger_and_others_have_room(replica):
    """The pods of a shared quota that limits models only count nothing, so their number is not bounded."""
    entries = {uid(number): crowd(number) for number in range(1, 3000)}
    replica.store.create(MODELS.key, Entries(entries, frozenset(MODELS.patterns)), 5)

    def enter(number, demand):
        return replica.ledgers.reserve(uid(number), [Claim(MODELS, demand)], replica.clock() + 5)[0]

    refused = enter(5000, crowd(5000))
    assert isinstance(refused, LedgerFull)
    assert refused.bytes > refused.most == MOST_BYTES // 2
    assert enter(5001, Demand("speech", (("nvidia.com/gpu", 1),), ("T4",))) == Granted()
    assert held_bytes(replica.ledgers.of(MODELS.key).cache.held.entries) < CONFIG_MAP


def test_A44_a_count_that_no_json_holds_breaks_no_ledger(replica):
    found = demand_of(pod_from_raw(raw_pod(9 * 10**18)), "vision", MODELS.counting)
    both = demand_of(pod_from_raw(raw_pod(10**30)), "vision", MODELS.counting)
    assert found.gpus == both.gpus == (("nvidia.com/gpu", MOST_UNITS),)
    claim = Claim(MODELS, Demand("vision", both.gpus, ("T4",)))
    assert replica.ledgers.reserve(uid(1), [claim], replica.clock() + 5) == (Granted(),)
    assert held_bytes(replica.ledgers.of(MODELS.key).cache.held.entries)


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param(
            lambda size: {uid(n): Demand("a", (("nvidia.com/gpu", 1),)) for n in _uids(size // 22)}, id="pods"
        ),
        pytest.param(lambda size: {uid(n): crowd(n % 10**9) for n in _uids(size // 330)}, id="demands"),
    ],
)
def test_A44_what_is_allowed_fits_into_a_config_map(entries):
    held = Entries(entries(MOST_BYTES))
    assert 0.8 * MOST_BYTES < sum(bytes_by_namespace(held.counts).values()) < 1.1 * MOST_BYTES
    assert held_bytes(held) < CONFIG_MAP


def _uids(count):
    """Numbers that look like uids, which cannot be compressed."""
    source = random.Random(7)  # noqa: S311  # the same each time
    return [source.getrandbits(128) for _ in range(count)]


def test_A44_the_bytes_that_are_added_up_are_those_of_the_text():
    held = Entries({uid(number): crowd(number) for number in range(1, 500)})
    text = len(orjson.dumps(held.to_raw()))
    assert text <= sum(bytes_by_namespace(held.counts).values()) <= 1.2 * text


def test_pods_of_a_whole_cluster_in_one_namespace_have_room(replica):
    pods = {uid(n): Demand("vision", (("nvidia.com/gpu", 1),)) for n in _uids(20_000)}
    wide = shared_quota(10**6, "vision", "speech")
    replica.store.create(wide.key, Entries(pods, frozenset(wide.patterns)), 5)
    claim = Claim(wide, Demand("vision", (("nvidia.com/gpu", 1),)))
    assert replica.ledgers.reserve(uid(1), [claim], replica.clock() + 5) == (Granted(),)
