"""Which model a pod counts as: those it was admitted with, until it is on a node that says its model."""

from dataclasses import replace

import pytest

from tests.ledger.bookkeeping import of_namespace
from tests.ledger.small_cluster import seen_pod
from webhook.ledger.entries import Entries
from webhook.ledger.ledger_store import counted_otherwise, demands_of
from webhook.model.node import NodeClass
from webhook.model.pod_reader import pod_from_raw
from webhook.quota.quotas import Demand

VISION = of_namespace(8)
PRODUCT = "nvidia.com/gpu.product"
H100, T4 = NodeClass({PRODUCT: "NVIDIA-H100-80GB-HBM3"}), NodeClass({PRODUCT: "Tesla-T4"})
SELECTING = pod_from_raw(
    {
        "spec": {
            "nodeSelector": {PRODUCT: "Tesla-T4"},
            "containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 2}}}],
        }
    }
)


@pytest.mark.parametrize(
    ("entered", "changes", "counted"),
    [
        pytest.param(("T4",), {}, ("T4",), id="waits, as it was admitted"),
        pytest.param(("T4",), {"kind": H100}, ("H100-80GB",), id="is on another GPU than was expected"),
        pytest.param(("H100-80GB", "T4"), {"kind": T4}, ("T4",), id="is on one of those that were expected"),
        pytest.param(None, {"kind": T4}, ("T4",), id="is on a node, and nothing was expected"),
        pytest.param(("T4",), {"kind": NodeClass({})}, ("T4",), id="is on a node that does not say"),
        pytest.param(("H100-80GB", "T4"), {"pod": SELECTING}, ("T4",), id="waits, and selects one by now"),
        pytest.param(("gone",), {}, None, id="was admitted under a model that no policy knows any more"),
    ],
)
def test_a_pod_counts_as_the_models_of_its_admission_until_its_node_says_its_own(entered, changes, counted) -> None:
    pod = replace(seen_pod(1, "vision", 2), **changes)
    admitted = Demand("vision", (("nvidia.com/gpu", 2),), entered)
    demands = demands_of([pod], VISION.counting)
    found = counted_otherwise(Entries({pod.uid: admitted}), demands, models=VISION.counting.catalogue.every_model)
    assert found.get(pod.uid, admitted).models == counted
