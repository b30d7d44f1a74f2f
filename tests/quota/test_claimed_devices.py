"""What claims count: by class, by model, and by their worst alternative."""

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from tests.quota.claim_samples import Classes, claimed, exactly, first_of
from webhook.model.accelerators import Accelerators, Declared, Vendor
from webhook.model.claims import TOO_LARGE, Requests
from webhook.quota.amounts import Usage, amounts
from webhook.quota.demand import MOST_UNITS, PodDemand, claim_demand, is_uncounted
from webhook.quota.quotas import CLASSES_CONTEXT, Counting, DeclaredClass, Demand, Quota, QuotaScope
from webhook.rules.gpu_quota import Settings

ALL = {"allocationMode": "All", "count": 0}
H100, T4 = "NVIDIA H100 80GB HBM3", "Tesla T4"


def quota(classes: dict[str, DeclaredClass] | None = None, **settings: Any) -> Quota:
    """The quota of a namespace, by the settings of a policy."""
    written = json.dumps({"mode": "enforce", **settings})
    read = Settings.model_validate_json(written, by_alias=True, context={CLASSES_CONTEXT: classes or {}})
    return Quota(QuotaScope.NAMESPACE, "team", ("team",), read.limits, read.counting)


def counted(of: Quota, claim: Requests) -> dict[str, Fraction]:
    """Limit -> what a claim counts against it; `gpus` for GPUs of every kind."""
    demand = claim_demand(claim, "team", of.counting)
    return {limit.name or "gpus": amount for limit, amount in amounts(demand, of).items()} if demand else {}


GPUS = quota(gpus=100)
COUNTING = GPUS.counting


@pytest.mark.parametrize(
    ("requests", "number"),
    [
        pytest.param([exactly()], 1, id="no count"),
        pytest.param([exactly(3)], 3, id="count"),
        pytest.param([exactly(3), exactly(2)], 5, id="two requests"),
        pytest.param([exactly(1), exactly(device_class="mrdma.google.com")], 1, id="beside a network card"),
        pytest.param([exactly(2, "gpu.amd.com"), exactly(2, "gpu.intel.com")], 4, id="other vendors"),
        pytest.param([exactly(4, adminAccess=True), exactly(1)], 1, id="adminAccess reserves nothing"),
        pytest.param([exactly(**ALL)], 32, id="all, and nobody knows how many that are"),
        pytest.param([exactly(10**12 * 1000)], MOST_UNITS, id="as many as fit into 64 bits"),
        pytest.param([first_of(exactly(1), exactly(4), exactly(2))], 4, id="the largest alternative"),
        pytest.param([first_of(exactly(1), exactly(4, "mig.nvidia.com"))], 4, id="of any class"),
        pytest.param([first_of(exactly(2), exactly(9, "mrdma.google.com"))], 2, id="alternative to a network card"),
        pytest.param([first_of(exactly(2, adminAccess=True), exactly(1))], 1, id="alternative to monitoring"),
    ],
)
def test_a_claim_counts_the_most_that_the_scheduler_could_allocate(requests: list[Any], number: int) -> None:
    assert counted(GPUS, claimed(*requests)) == {"gpus": number}


def test_the_part_of_claims_is_what_their_requests_count_whatever_their_pods_request_besides() -> None:
    limited = quota(gpus=100, byModel={"H100": 100, "T4": 100}, byResource={"nvidia.com/gpu": 100})
    claim = claim_demand(claimed(first_of(exactly(2, product=T4), exactly(1, product=H100))), "team", COUNTING)
    assert claim is not None
    both = replace(claim, gpus=(("nvidia.com/gpu", 4),), models=("T4",))
    counts = {claim: 3, both: 1, replace(both, gpus=(("nvidia.com/gpu", 1),)): 1, replace(both, requests=()): 7}
    usage = Usage.of(counts, limited)
    assert {limit.name or "gpus": amount for limit, amount in usage.by_claims.items()} == {
        "gpus": 10,
        "H100": 5,
        "T4": 10,
        "nvidia.com/gpu": 10,
    }
    assert {limit.name or "gpus": amount for limit, amount in usage.used.items()} == {
        "gpus": 10 + 4 + 1 + 28,
        "H100": 5,
        "T4": 10 + 4 + 1 + 28,
        "nvidia.com/gpu": 10 + 4 + 1 + 28,
    }


def test_units_are_counted_whatever_part_of_a_gpu_they_are_in_the_namespaces_of_the_quota() -> None:
    request = claim_demand(claimed(first_of(exactly(2), exactly(3, "mig.nvidia.com"))), "team", COUNTING)
    assert request is not None
    counts = {
        request: 2,
        Demand("team", (("nvidia.com/gpu@1/4", 3), ("nvidia.com/mig-1g.10gb", 2))): 3,
        Demand("elsewhere", (("nvidia.com/gpu", 5),)): 7,
    }
    assert Usage.of(counts, GPUS).units == 2 * 3 + 3 * 5


def test_all_devices_of_a_node_are_as_many_as_the_largest_node_has() -> None:
    known = Classes(most={"gpu.nvidia.com": 8})
    assert counted(GPUS, claimed(exactly(**ALL), classes=known)) == {"gpus": 8}
    large = Classes(most={"gpu.nvidia.com": 72})
    assert counted(GPUS, claimed(exactly(**ALL), classes=large)) == {"gpus": 32}
    none = Classes(most={"gpu.nvidia.com": 0})
    assert counted(GPUS, claimed(exactly(**ALL), classes=none)) == {"gpus": 32}, "a node may come for it"


def test_a_claim_that_is_too_large_to_be_kept_counts_as_the_most_that_a_claim_gets() -> None:
    assert counted(GPUS, TOO_LARGE) == {"gpus": 32}


def test_a_class_gives_gpus_by_its_extended_resource_or_by_the_policy() -> None:
    own = claimed(exactly(2, "own.example.com"))
    assert counted(GPUS, own) == {}
    known = Classes({"own.example.com": "nvidia.com/gpu"})
    assert counted(GPUS, claimed(exactly(2, "own.example.com"), classes=known)) == {"gpus": 2}
    said = quota({"own.example.com": DeclaredClass("H100", Fraction(1, 2))}, gpus=100, byModel={"H100": 9, "T4": 9})
    assert counted(said, own) == {"gpus": 1, "H100": 1, "T4": 0}


def test_models_follow_from_the_policy_or_from_the_selector_and_are_any_without() -> None:
    models = quota(byModel={"H100": 9, "T4": 9})
    assert counted(models, claimed(exactly(2))) == {"H100": 2, "T4": 2}
    assert counted(models, claimed(exactly(2, product=T4), exactly(1, product=H100))) == {"H100": 1, "T4": 2}
    assert counted(models, claimed(exactly(2, product="NVIDIA X9"))) == {"H100": 2, "T4": 2}
    either = first_of(exactly(1, product=H100), exactly(3, product=T4))
    assert counted(models, claimed(either)) == {"H100": 1, "T4": 3}
    declared = quota({"gpu.nvidia.com": DeclaredClass("H100", None)}, byModel={"H100": 9, "T4": 9})
    assert counted(declared, claimed(exactly(2, product=T4))) == {"H100": 2, "T4": 0}
    assert counted(models, claimed(exactly(2, "gpu.amd.com"))) == {"H100": 0, "T4": 0}


def test_devices_of_a_class_count_against_what_they_may_be_by_other_names() -> None:
    by_resource = quota(byResource={"nvidia.com/gpu": 9, "nvidia.com/mig-1g.10gb": 9, "amd.com/gpu": 9})
    assert counted(by_resource, claimed(exactly(2))) == {
        "nvidia.com/gpu": 2,
        "nvidia.com/mig-1g.10gb": 0,
        "amd.com/gpu": 0,
    }
    assert counted(by_resource, claimed(exactly(2, "mig.nvidia.com")))["nvidia.com/mig-1g.10gb"] == 2
    named = quota(byResource={"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 9})
    assert counted(named, claimed(exactly(2))) == {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 2}


def test_equal_claims_have_equal_demands_in_whatever_order_they_are_written() -> None:
    one = claim_demand(claimed(exactly(1), exactly(2, "gpu.amd.com")), "team", Counting())
    other = claim_demand(claimed(exactly(2, "gpu.amd.com"), exactly(1)), "team", Counting())
    assert one == other is not None


def test_a_pod_has_its_own_gpus_and_those_of_its_claims() -> None:
    own = Demand("team", (("nvidia.com/gpu", 2),), ("T4",))
    of_claim = claim_demand(claimed(exactly(3)), "team", Counting())
    demand = PodDemand(own, (("c", of_claim),)).all
    assert demand is not None
    assert (demand.gpus, demand.models) == (own.gpus, own.models)
    models = quota(gpus=9, byModel={"H100": 9, "T4": 9})
    found = {limit.name: amount for limit, amount in amounts(demand, models).items()}
    assert found == {"": 5, "H100": 3, "T4": 5}
    assert (PodDemand(None).all, PodDemand(own).all) == (None, own)


@pytest.mark.parametrize(
    ("requests", "is_open"),
    [
        pytest.param(claimed(exactly(1)), False, id="known GPUs"),
        pytest.param(claimed(exactly(1, "mrdma.google.com")), False, id="known others"),
        pytest.param(claimed(exactly(1), exactly(1, "own.example.com")), True, id="an unknown class"),
        pytest.param(claimed(first_of(exactly(1), exactly(1, "own.example.com"))), True, id="as an alternative"),
        pytest.param(claimed(exactly(1, "own.example.com", adminAccess=True)), False, id="for monitoring"),
        pytest.param(claimed(exactly(-1)), True, id="unreadable"),
        pytest.param(TOO_LARGE, True, id="too large"),
    ],
)
def test_what_cannot_be_counted_is_known(requests: Requests, *, is_open: bool) -> None:
    assert is_uncounted(requests, Counting()) is is_open


def test_a_class_that_the_policy_declares_to_be_something_else_is_nothing_to_count() -> None:
    declared = Accelerators((Declared("deviceclass.resource.kubernetes.io/nic.example.com", Vendor.OTHER, None),))
    assert not is_uncounted(claimed(exactly(1, "nic.example.com")), Counting(accelerators=declared))


def _of_memory(size: str, count: int = 1, **more: Any) -> dict[str, Any]:
    return exactly(count, capacity={"requests": {"memory": size}}, **more)


@pytest.mark.parametrize(
    ("request_", "number"),
    [
        pytest.param(_of_memory("20Gi"), Fraction(1, 4), id="a quarter"),
        pytest.param(_of_memory("20Gi", 3), Fraction(3, 4), id="three of them"),
        pytest.param(_of_memory("lots"), 1, id="no amount"),
        pytest.param(_of_memory("20Gi", device_class="mig.nvidia.com"), 1, id="of an unknown whole"),
        pytest.param(first_of(_of_memory("20Gi"), _of_memory("40Gi")), Fraction(1, 2), id="the larger alternative"),
    ],
)
def test_a_part_of_the_memory_of_a_device_counts_as_that_part(request_: Any, number: Fraction) -> None:
    known = Classes(memory={"gpu.nvidia.com": 80 * 2**30})
    assert counted(GPUS, claimed(request_, classes=known)) == {"gpus": number}
    weighed = quota(gpus=100, weights={"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "1/3"})
    if number < 1:
        assert counted(weighed, claimed(request_, classes=known))["gpus"].denominator in (1, 3)
