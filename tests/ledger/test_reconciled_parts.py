"""What a pod counts of a divided GPU: as it was admitted, until it is on a node whose labels say what its units are."""

from dataclasses import replace
from fractions import Fraction

import pytest

from tests.ledger.bookkeeping import of_namespace, uid
from tests.ledger.reconciling import Kept
from tests.ledger.small_cluster import seen_pod
from webhook.ledger.entries import Entries
from webhook.ledger.ledger_store import counted_otherwise, demands_of, entered_demand
from webhook.ledger.verdicts import Claim
from webhook.model.node import NodeClass
from webhook.quota.quotas import Demand

VISION = of_namespace(8)
PRODUCT, REPLICAS = "nvidia.com/gpu.product", "nvidia.com/gpu.replicas"
STRATEGY = "nvidia.com/gpu.sharing-strategy"
FOUR = NodeClass({PRODUCT: "Tesla-T4-SHARED", REPLICAS: "4", STRATEGY: "time-slicing"})
TWO = NodeClass({PRODUCT: "Tesla-T4-SHARED", REPLICAS: "2", STRATEGY: "time-slicing"})
WHOLE = NodeClass({PRODUCT: "Tesla-T4", REPLICAS: "1", STRATEGY: "none"})
AT_ODDS = NodeClass({PRODUCT: "Tesla-T4-SHARED", REPLICAS: "0", STRATEGY: "none"})


def on(kind: NodeClass | None, *, number: int = 1):
    """A stored pod with two units, on a node of this kind; None for none, or one whose labels say nothing."""
    return replace(seen_pod(number, "vision", 2), kind=kind)


def used(replica: Kept) -> Fraction:
    replica.reconciler.reconcile()
    (usage,) = replica.reconciler.usage.values()
    return next(iter(usage.used.values()))


@pytest.mark.parametrize(
    ("pod", "amount"),
    [
        pytest.param(on(None), "1/2", id="waits, or is on a node whose labels say nothing"),
        pytest.param(on(FOUR), "1/2", id="is where it was expected"),
        pytest.param(on(TWO), "1", id="is on a node with larger shares"),
        pytest.param(on(WHOLE), "2", id="is on a node with whole GPUs"),
        pytest.param(on(AT_ODDS), "2", id="is on a node whose labels are at odds"),
    ],
)
def test_a_pod_counts_as_admitted_until_its_node_says_what_it_has(pod, amount) -> None:
    replica = Kept().keeping(VISION)
    admitted = Demand("vision", (("nvidia.com/gpu@1/4", 2),), ("T4",))
    assert entered_demand(on(FOUR), VISION.counting) == admitted
    replica.ask(1, Claim(VISION, admitted, enforced=True))
    replica.truth.store(pod)
    replica.view.catch_up()
    assert used(replica) == Fraction(amount)
    assert used(replica) == Fraction(amount)


def test_a_pod_that_was_expected_on_whole_gpus_counts_less_once_it_has_a_share() -> None:
    replica = Kept().keeping(VISION)
    replica.enter(1, VISION, 2)
    replica.truth.store(on(None))
    replica.view.catch_up()
    assert used(replica) == 2
    replica.truth.store(on(FOUR))
    replica.view.catch_up()
    assert used(replica) == Fraction(1, 2)


def test_a_pod_without_an_entry_gets_one_by_its_node() -> None:
    replica = Kept().keeping(VISION)
    replica.enter(7, VISION, 1)
    replica.truth.store(on(FOUR))
    replica.view.catch_up()
    replica.rounds(2)
    assert used(replica) == Fraction(3, 2)


def test_pods_that_differ_in_nothing_but_their_nodes_are_told_apart() -> None:
    pods = [on(kind, number=number) for number, kind in enumerate((FOUR, WHOLE, FOUR, TWO, None), 1)]
    found = demands_of(pods, VISION.counting)
    assert [found[one.uid].gpus[0][0].removeprefix("nvidia.com/gpu") for one in pods] == [
        "@1/4",
        "",
        "@1/4",
        "@1/2",
        "",
    ]


def test_a_pod_that_waits_keeps_the_part_of_its_units_whatever_else_changes() -> None:
    """Its author may narrow its nodes, while those that it could get at its admission are away."""
    quarter, whole = "nvidia.com/gpu@1/4", "nvidia.com/gpu"
    for entered, now, kept in (
        (Demand("vision", ((quarter, 2),)), Demand("vision", ((whole, 2),)), None),
        (Demand("vision", ((quarter, 2),)), Demand("vision", ((whole, 3),)), ((quarter, 3),)),
        (Demand("vision", ((quarter, 2),)), Demand("vision", ((whole, 2),), ("T4",)), ((quarter, 2),)),
        (Demand("vision", ((whole, 2),)), Demand("vision", ((quarter, 2),), ("T4",)), ((whole, 2),)),
        (Demand("vision", ((whole, 2),)), Demand("vision", ((quarter, 2),)), None),
    ):
        found = counted_otherwise(Entries({uid(1): entered}), {uid(1): now})
        assert found == ({uid(1): replace(now, gpus=kept)} if kept else {})
        assert counted_otherwise(Entries({uid(1): entered}), {uid(1): now}, {uid(1)}) == {uid(1): now}


def test_a_node_that_is_labelled_anew_makes_no_running_pod_count_less() -> None:
    """A device plugin that starts to share GPUs leaves running pods the whole GPUs that they have."""
    replica = Kept().keeping(VISION)
    replica.enter(1, VISION, 2)
    replica.truth.store(on(WHOLE))
    replica.view.catch_up()
    assert used(replica) == 2
    replica.truth.store(on(FOUR))
    replica.view.catch_up()
    assert used(replica) == 2
    replica.truth.store(on(WHOLE))
    replica.view.catch_up()
    assert used(replica) == 2


def test_units_of_a_running_pod_may_come_to_count_more() -> None:
    replica = Kept().keeping(VISION)
    replica.enter(1, VISION, 2)
    replica.truth.store(on(None))
    replica.view.catch_up()
    assert used(replica) == 2
    replica.truth.store(on(FOUR))
    replica.view.catch_up()
    assert used(replica) == Fraction(1, 2)
    replica.truth.store(on(TWO))
    replica.view.catch_up()
    assert used(replica) == 1


def test_a_replica_that_starts_does_not_know_what_nodes_said_before() -> None:
    quarter, whole = (Demand("vision", ((name, 2),)) for name in ("nvidia.com/gpu@1/4", "nvidia.com/gpu"))
    entered = Entries({uid(1): whole})
    assert counted_otherwise(entries=entered, demands={uid(1): quarter}, placed={uid(1)}, settled={uid(1)}) == {}
    grown = replace(quarter, gpus=(("nvidia.com/gpu@1/4", 3),))
    found = counted_otherwise(entries=entered, demands={uid(1): grown}, placed={uid(1)}, settled={uid(1)})
    assert found == {uid(1): replace(whole, gpus=(("nvidia.com/gpu", 3),))}


def test_the_first_pod_of_a_namespace_is_corrected_where_it_is_on_a_node_at_once() -> None:
    replica = Kept().keeping(VISION)
    replica.rounds(1)
    replica.enter(1, VISION, 2)
    replica.truth.store(on(FOUR))
    replica.view.catch_up()
    assert used(replica) == Fraction(1, 2)
