"""What quotas read of claims, and which of them count."""

from typing import Any

import pytest

from tests.facts.claim_samples import for_extended_resources, made_for, owner, stored_claim
from tests.facts.pod_samples import stored, uid
from tests.quota.claim_samples import Classes
from webhook.facts.gpu_pods import stored_from_raw
from webhook.facts.stored_claims import counted_once, owner_of, reservation_of
from webhook.facts.stored_claims import stored_claim as read
from webhook.ledger.entries import reservation_key
from webhook.ledger.ledger_store import GpuPod, entered_demand
from webhook.quota.quotas import Counting


def gpu_pod(raw: dict[str, Any]) -> GpuPod:
    found = stored_from_raw(raw).gpu_pod
    assert found is not None
    return found


def claim(raw: dict[str, Any]) -> GpuPod:
    found = read(raw).gpu_pod
    assert found is not None
    return found


def units(found: GpuPod) -> int:
    demand = entered_demand(found, Counting())
    return sum(demand.units.values()) if demand else 0


def test_a_claim_is_read_with_its_owner_and_what_it_requests() -> None:
    found = claim(made_for("p", stored_claim("c", 3)))
    assert (found.uid, found.namespace, found.name, found.called) == (uid("claim c"), "team-a", "c", "claim c")
    assert found.takes_over == reservation_key(uid("p"), "gpus")
    assert units(found) == 3


def test_a_claim_for_what_is_no_gpu_is_not_kept() -> None:
    assert read(stored_claim("nic", device_class="mrdma.google.com")).gpu_pod is None
    assert read({"metadata": {"uid": stored_claim("c")["metadata"]["uid"]}}).gpu_pod is None
    with pytest.raises(ValueError, match="UUID"):
        read({"metadata": {"name": "c"}})


@pytest.mark.parametrize(
    "references",
    [
        pytest.param(None, id="none"),
        pytest.param([7], id="no map"),
        pytest.param([{**owner("p"), "controller": False}], id="not the controller"),
        pytest.param([{**owner("p"), "kind": "Job", "apiVersion": "batch/v1"}], id="no pod"),
        pytest.param([{**owner("p"), "uid": "x"}], id="no uid"),
    ],
)
def test_a_claim_without_a_pod_that_owns_it_takes_nothing_over(references: object) -> None:
    raw = made_for("p", stored_claim("c"))
    raw["metadata"]["ownerReferences"] = references
    assert owner_of(raw) == reservation_of(raw) == b""


def test_what_the_entry_of_a_pod_counts_is_not_counted_again_by_the_claim_for_it() -> None:
    pods = [gpu_pod(stored("p", gpus=2))]
    special = [claim(for_extended_resources("p", stored_claim(name, 2))) for name in ("a", "b")]
    orphan = claim(for_extended_resources("gone", stored_claim("c", 5)))
    found = list(counted_once(pods, [*special, orphan], Classes()))
    assert [one.uid for one in found] == [uid("p"), uid("claim b"), uid("gone")]
    assert [one.name for one in found] == ["p", "b", "c"], "one claim for each pod, whoever makes more"
    assert [units(one) for one in found] == [2, 2, 5]


def test_classes_are_looked_up_once_they_are_known() -> None:
    own = claim(stored_claim("own", 2, "own.example.com"))
    assert [units(one) for one in counted_once([], [own], None)] == [0]
    assert [units(one) for one in counted_once([], [own], Classes({"own.example.com": "nvidia.com/gpu"}))] == [2]
