"""What quotas read of claims, and which of them count."""

from typing import Any

import pytest

from tests.facts.claim_samples import for_extended_resources, made_for, owner, stored_claim
from tests.facts.pod_samples import stored, uid
from tests.quota.claim_samples import Classes
from webhook.ledger.entries import reservation_key
from webhook.ledger.gpu_pods import counted_once, owner_of, reservation_of, stored_from_raw
from webhook.ledger.gpu_pods import stored_claim as read
from webhook.ledger.ledger_store import GpuPod, entered_demand
from webhook.quota.amounts import Usage
from webhook.quota.quotas import Counting, Quota, QuotaScope


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
    return Usage.of({demand: 1}, Quota(QuotaScope.NAMESPACE, "", ("*",), ())).units if demand else 0


def test_a_claim_is_read_with_its_owner_and_what_it_requests() -> None:
    found = claim(made_for("p", stored_claim("c", 3)))
    assert (found.uid, found.namespace, found.name, found.called) == (uid("claim c"), "team-a", "c", "claim c")
    assert found.takes_over == reservation_key("team-a", uid("p"), "gpus")
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


def test_a_claim_for_extended_resources_stands_for_its_pod() -> None:
    pods = [gpu_pod(stored("p", gpus=2)), gpu_pod(stored("p", gpus=2)), gpu_pod(stored("q", gpus=1))]
    special = [claim(for_extended_resources("p", stored_claim(name, 2))) for name in ("a", "b")]
    orphan = claim(for_extended_resources("gone", stored_claim("c", 5)))
    found = list(counted_once(pods, [*special, orphan], Classes()))
    assert sorted(one.name for one in found) == ["a", "b", "c", "q"], "one claim for each pod, whoever makes more"
    assert sum(map(units, found)) == 2 + 2 + 5 + 1
    assert [one.pod is pods[0].pod for one in found].count(True) == 1


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(for_extended_resources("p", stored_claim("c", 30)), id="for more than the pod requests"),
        pytest.param(for_extended_resources("p", stored_claim("c", 1, namespace="other")), id="in another namespace"),
        pytest.param(made_for("p", for_extended_resources("p", stored_claim("c", 1))), id="made from a template"),
    ],
)
def test_other_claims_count_beside_the_pod_whatever_they_say(raw: dict[str, Any]) -> None:
    pods = [gpu_pod(stored("p", gpus=2))]
    found = list(counted_once(pods, [claim(raw)], Classes()))
    assert {one.name for one in found} == {"p", "c"}
    assert sum(map(units, found)) == 2 + raw["spec"]["devices"]["requests"][0]["exactly"]["count"]


def test_classes_are_looked_up_once_they_are_known() -> None:
    own = claim(stored_claim("own", 2, "own.example.com"))
    assert [units(one) for one in counted_once([], [own], None)] == [0]
    assert [units(one) for one in counted_once([], [own], Classes({"own.example.com": "nvidia.com/gpu"}))] == [2]
