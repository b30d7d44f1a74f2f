"""What tenants may write into a ledger, which is one ConfigMap of 1 MiB for all namespaces of a shared quota."""

import base64
import random
from fractions import Fraction

import orjson
import pytest

from tests.ledger.bookkeeping import IN_FLIGHT, Replica, uid
from tests.ledger.small_cluster import raw_pod
from webhook.ledger.context import LedgerTiming
from webhook.ledger.entries import Entries, content
from webhook.ledger.plan import MOST_DEMANDS
from webhook.ledger.verdicts import Granted, LedgerFull, QuotaRequest
from webhook.model.pod_reader import pod_from_raw
from webhook.quota.demand import MOST_UNITS, demand_of
from webhook.quota.quotas import MOST_PARTS, Demand, Limit, Measure, Quota, QuotaScope

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


def test_made_up_names_do_not_fill_a_ledger():
    names = [f"nvidia.com/M{number:062}" for number in range(4000)]
    entries = {}
    for number in range(0, len(names), MOST_PARTS):
        raw = raw_pod(1)
        amounts = dict.fromkeys(names[number : number + MOST_PARTS], 1)
        raw["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}
        entries[uid(number + 1)] = demand_of(pod_from_raw(raw), "vision", MODELS.counting)
    assert len(orjson.dumps(Entries(entries).to_raw())) < 20_000


def crowd(number, namespace="vision"):
    """A demand that no other pod has: many resources, and counts of its own."""
    counts = random.Random(number)
    names = [*(f"nvidia.com/mig-{c}c.7g.80gb" for c in range(1, 4)), "nvidia.com/OTHER", "nvidia.com/gpu"]
    gpus = tuple(sorted((name, counts.randrange(10**14)) for name in names))
    return Demand(namespace, gpus, ("A100-40GB", "A100-80GB", "A30", "B200", "L4", "L40", "L40S", "T4", "V100"))


def enter(replica, number, demand):
    return replica.ledgers.reserve(uid(number), [QuotaRequest(MODELS, demand)], replica.clock() + 5)[0]


def test_a_namespace_counts_in_so_many_ways_and_others_have_room(replica):
    """The pods of a quota that limits models only count nothing, so their number is not bounded."""
    entries = {uid(number): crowd(number) for number in range(1, MOST_DEMANDS + 1)}
    replica.store.create(MODELS.key, Entries(entries, frozenset(MODELS.patterns)), 5)
    assert enter(replica, 5000, crowd(5000)) == LedgerFull(MOST_DEMANDS + 1, MOST_DEMANDS)
    assert enter(replica, 5001, crowd(1)) == Granted()
    assert enter(replica, 5002, Demand("speech", (("nvidia.com/gpu", 1),), ("T4",))) == Granted()


def test_a_count_that_no_json_holds_breaks_no_ledger(replica):
    found = demand_of(pod_from_raw(raw_pod(9 * 10**18)), "vision", MODELS.counting)
    both = demand_of(pod_from_raw(raw_pod(10**30)), "vision", MODELS.counting)
    assert found.gpus == both.gpus == (("nvidia.com/gpu", MOST_UNITS),)
    assert enter(replica, 1, Demand("vision", both.gpus, ("T4",))) == Granted()
    assert held_bytes(replica.ledgers.of(MODELS.key).cache.entries)


@pytest.mark.parametrize(
    ("pods", "hostile"),
    [pytest.param(45_000, 0, id="45,000 pods"), pytest.param(8_000, 20, id="8,000 pods, and 20 full namespaces")],
)
def test_what_is_allowed_fits_into_a_config_map(pods, hostile):
    source = random.Random(7)
    entries = {uid(source.getrandbits(128)): Demand("a", (("nvidia.com/gpu", 1),)) for _ in range(pods)}
    for namespace in range(hostile):
        for number in range(MOST_DEMANDS):
            entries[uid(source.getrandbits(128))] = crowd(namespace * MOST_DEMANDS + number, f"n{namespace}")
    assert held_bytes(Entries(entries)) < CONFIG_MAP
