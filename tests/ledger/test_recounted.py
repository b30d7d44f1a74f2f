"""A pod counts what was known at its creation until it is on a node that says what its GPUs are."""

from dataclasses import replace
from fractions import Fraction

import pytest

from tests.ledger.bookkeeping import of_namespace
from tests.ledger.reconciling import Kept
from tests.ledger.small_cluster import seen_pod
from webhook.ledger.entries import Entries
from webhook.ledger.gpu_pods import NO_POD, counted_pod
from webhook.ledger.ledger_store import GpuPod, demands_of, recounted
from webhook.ledger.verdicts import QuotaRequest
from webhook.model.claims import Devices
from webhook.model.node import NodeClass
from webhook.model.pod_reader import pod_from_raw
from webhook.quota.quotas import ClaimedDevices, Demand

VISION = of_namespace(8)
PRODUCT, REPLICAS, STRATEGY = "nvidia.com/gpu.product", "nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy"
H100, T4 = NodeClass({PRODUCT: "NVIDIA-H100-80GB-HBM3"}), NodeClass({PRODUCT: "Tesla-T4"})
SILENT = NodeClass({"zone": "a"})
FOUR = NodeClass({PRODUCT: "Tesla-T4-SHARED", REPLICAS: "4", STRATEGY: "time-slicing"})
TWO = NodeClass({PRODUCT: "Tesla-T4-SHARED", REPLICAS: "2", STRATEGY: "time-slicing"})
AT_ODDS = NodeClass({PRODUCT: "Tesla-T4-SHARED", REPLICAS: "0", STRATEGY: "none"})
SELECTING = pod_from_raw(
    {
        "spec": {
            "nodeSelector": {PRODUCT: "Tesla-T4"},
            "containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 2}}}],
        }
    }
)
WHOLE, QUARTER, HALF = "nvidia.com/gpu", "nvidia.com/gpu@1/4", "nvidia.com/gpu@1/2"
BOTH = ("H100-80GB", "T4")


def corrections(entered: Demand, pod: GpuPod) -> dict[bytes, Demand]:
    return recounted(Entries({pod.uid: entered}), [pod], demands_of([pod], VISION.counting), VISION.counting)


@pytest.mark.parametrize(
    ("entered", "changes", "counted"),
    [
        pytest.param((WHOLE, ("T4",)), {}, (WHOLE, ("T4",)), id="waits"),
        pytest.param((QUARTER, BOTH), {"pod": SELECTING}, (QUARTER, BOTH), id="waits, and selects a model by now"),
        pytest.param((QUARTER, ("T4",)), {"kind": SILENT}, (QUARTER, ("T4",)), id="is on a node that does not say"),
        pytest.param((WHOLE, ("gone",)), {}, (WHOLE, None), id="waits, and no policy knows its model any more"),
        pytest.param(("example.com/old", None), {}, (WHOLE, None), id="waits, and its resource has another name now"),
        pytest.param((WHOLE, ("T4",)), {"kind": H100}, (WHOLE, ("H100-80GB",)), id="is on another model than expected"),
        pytest.param((WHOLE, BOTH), {"kind": T4}, (WHOLE, ("T4",)), id="is on one of those expected"),
        pytest.param((WHOLE, None), {"kind": T4}, (WHOLE, ("T4",)), id="is on a node, and nothing was expected"),
        pytest.param((QUARTER, ("T4",)), {"kind": FOUR}, (QUARTER, ("T4",)), id="is where it was expected"),
        pytest.param((QUARTER, ("T4",)), {"kind": TWO}, (HALF, ("T4",)), id="has larger shares"),
        pytest.param((WHOLE, ("T4",)), {"kind": FOUR}, (QUARTER, ("T4",)), id="has smaller shares"),
        pytest.param((QUARTER, ("T4",)), {"kind": T4}, (WHOLE, ("T4",)), id="has whole GPUs"),
        pytest.param((QUARTER, ("T4",)), {"kind": AT_ODDS}, (WHOLE, ("T4",)), id="has labels at odds"),
    ],
)
def test_an_entry_is_corrected_once_its_pod_is_on_a_node_that_says_its_gpus(entered, changes, counted) -> None:
    pod = replace(seen_pod(1, "vision", 2), **changes)
    before, after = (Demand("vision", ((name, 2),), models) for name, models in (entered, counted))
    assert corrections(before, pod) == ({} if before == after else {pod.uid: after})
    assert corrections(after, pod) == {}


def test_parts_of_gpus_by_annotations_stay_as_they_were_admitted() -> None:
    """Annotations of a running pod can change. Its models follow from its node."""
    raw = {"metadata": {"annotations": {"gpu-fraction": "0.1"}}, "spec": {"containers": [{"name": "a"}]}}
    pod = replace(seen_pod(1, "vision", 0), pod=counted_pod(pod_from_raw(raw)), kind=T4)
    entered = Demand("vision", (("nvidia.com/gpu@9/10", 1),))
    assert corrections(entered, pod) == {pod.uid: Demand("vision", entered.gpus, ("T4",))}


def test_a_claim_goes_on_to_count_what_it_counted() -> None:
    """Its class may be deleted, or its node gone, while devices are in use."""
    devices = Devices("gpu.nvidia.com", number=3)
    claim = GpuPod(seen_pod(1, "vision", 0).uid, "vision", "c", NO_POD, ((devices,),))
    more = ClaimedDevices("deviceclass.resource.kubernetes.io/gpu.nvidia.com", 4)
    for entered in (Demand("vision", (), None, ((more,),)), Demand("vision", ((WHOLE, 4),))):
        assert corrections(entered, claim) == {}


def test_pods_that_differ_in_nothing_but_their_nodes_are_told_apart() -> None:
    kinds = (FOUR, T4, FOUR, TWO, None)
    pods = [replace(seen_pod(number, "vision", 2), kind=kind) for number, kind in enumerate(kinds)]
    found = demands_of(pods, VISION.counting)
    assert [found[one.uid].gpus[0][0] for one in pods] == [QUARTER, WHOLE, QUARTER, HALF, WHOLE]


def test_a_reconciliation_counts_pods_by_their_nodes() -> None:
    replica = Kept().keeping(VISION)

    def used(number: int, kind: NodeClass | None) -> Fraction:
        replica.truth.store(replace(seen_pod(number, "vision", 2), kind=kind))
        replica.view.catch_up()
        replica.reconciler.reconcile()
        (usage,) = replica.reconciler.usage.values()
        return next(iter(usage.used.values()))

    replica.ask(1, QuotaRequest(VISION, Demand("vision", ((QUARTER, 2),), ("T4",))))
    assert [used(1, kind) for kind in (None, TWO, None)] == [Fraction(1, 2), 1, 1]
    assert [used(2, FOUR) for _ in range(2)] == [1, Fraction(3, 2)], "without an entry of its own at first"
