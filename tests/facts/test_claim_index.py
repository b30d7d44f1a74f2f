"""The requests of claims are kept, within bounds that tenants cannot exceed."""

import sys
from typing import Any

import pytest

from tests.facts.samples import claim
from webhook.facts.claim_index import LONGEST_CLASSES, MOST_DEVICES, MOST_IN_NAMESPACE, ClaimTable
from webhook.facts.facts import ClusterFacts
from webhook.facts.snapshot import EMPTY, Snapshot
from webhook.model.claims import CLAIM, TEMPLATE, TOO_LARGE, Devices, PodResourceClaim, claim_of_kind

GPU = ((Devices("gpu.nvidia.com"),),)
UNREADABLE = ((),)


def template(name: str, *classes: str, **parts: Any) -> dict[str, Any]:
    return claim(name, TEMPLATE, *classes, **parts)


def of_templates(*raws: Any) -> ClaimTable:
    return ClaimTable.of(TEMPLATE, raws)


@pytest.mark.parametrize("kind", [CLAIM, TEMPLATE])
def test_a_claim_is_known_by_its_kind_namespace_and_name(kind: str) -> None:
    facts = ClusterFacts(EMPTY.with_claims(kind, [claim("t", kind, "gpu.nvidia.com")]))
    assert facts.claim(PodResourceClaim("c", kind, "t"), "team") == GPU
    other = {CLAIM: TEMPLATE, TEMPLATE: CLAIM}[kind]
    for named, namespace in (
        (PodResourceClaim("c", other, "t"), "team"),
        (PodResourceClaim("c", kind, "u"), "team"),
        (PodResourceClaim("c", kind, "t"), "elsewhere"),
        (PodResourceClaim("c"), "team"),
    ):
        assert facts.claim(named, namespace) is None


def test_the_names_of_a_namespace_are_told_where_all_of_them_are_known() -> None:
    facts = ClusterFacts(EMPTY.with_claims(TEMPLATE, [template("b", "nic"), template("a", "nic")]))
    assert facts.claim_names(TEMPLATE, "team") == ["a", "b"]
    assert facts.claim_names(TEMPLATE, "elsewhere") == []
    assert facts.claim_names(CLAIM, "team") is None
    assert ClusterFacts(EMPTY.with_claims(TEMPLATE, [])).claim_names(TEMPLATE, "team") == []


def test_a_file_without_claims_need_not_have_all_and_neither_need_the_input_of_an_audit() -> None:
    assert ClusterFacts.of(templates=[template("a", "nic")]).claim_names(TEMPLATE, "team") == ["a"]
    snapshot = Snapshot.of()
    assert ClusterFacts(snapshot).claim_names(TEMPLATE, "team") is None
    read = claim_of_kind(TEMPLATE, template("a", "nic"))
    assert read is not None
    assert ClusterFacts(snapshot.with_more_claims([("team", read)])).claim_names(TEMPLATE, "team") is None


def test_a_namespace_that_once_had_too_many_may_have_others() -> None:
    table = of_templates(*(template(f"t{i}", "nic") for i in range(MOST_IN_NAMESPACE)))
    assert len(table.names("team") or ()) == MOST_IN_NAMESPACE
    late = table.with_claim(TEMPLATE, template("late", "nic"))
    assert late.with_claim(TEMPLATE, template("later", "nic")) is late
    assert late.without("team", "t0").names("team") is None
    assert late.names("other") == []


def test_changes_are_followed_and_what_changes_nothing_gives_the_same_snapshot() -> None:
    snapshot = EMPTY.with_claim(TEMPLATE, template("a", "gpu.nvidia.com")).with_claim(TEMPLATE, template("b", "nic"))
    assert snapshot.with_claim(TEMPLATE, template("a", "gpu.nvidia.com", labels={"x": "y"})) is snapshot
    assert snapshot.without_claim(TEMPLATE, "team", "c") is snapshot
    assert snapshot.without_claim(CLAIM, "team", "a") is snapshot
    changed = ClusterFacts(snapshot.without_claim(TEMPLATE, "team", "a"))
    assert changed.claim(PodResourceClaim("c", TEMPLATE, "a"), "team") is None
    assert changed.claim(PodResourceClaim("c", TEMPLATE, "b"), "team") is not None
    assert ClusterFacts(snapshot).claim(PodResourceClaim("c", TEMPLATE, "a"), "team") == GPU
    assert len(of_templates(template("a", "x")).without("team", "a")) == 0


def test_a_claim_that_a_pod_owns_is_known_because_any_author_may_write_that() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": True}
    made = {"ownerReferences": [owner], "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"}}
    assert ClaimTable.of(CLAIM, [claim("p-gpu-x", CLAIM, "gpu.nvidia.com", **made)]).get("team", "p-gpu-x") == GPU


def test_claims_that_ask_for_the_same_share_what_is_remembered_of_it() -> None:
    table = of_templates(*(template(f"t{number}", "gpu.nvidia.com") for number in range(100)))
    assert len({id(table.get("team", f"t{number}")) for number in range(100)}) == 1


def test_a_namespace_fills_its_own_place_only() -> None:
    many = [template(f"t{number}", "gpu.nvidia.com") for number in range(MOST_IN_NAMESPACE + 10)]
    table = of_templates(*many, template("t", "gpu.nvidia.com", namespace="other"))
    assert len(table) == MOST_IN_NAMESPACE + 1
    assert table.get("other", "t") == GPU
    late = f"t{MOST_IN_NAMESPACE}"
    assert table.get("team", late) is None
    assert table.with_claim(TEMPLATE, many[MOST_IN_NAMESPACE]) is table
    room = table.without("team", "t0").with_claim(TEMPLATE, many[MOST_IN_NAMESPACE])
    assert room.get("team", late) == GPU
    assert room.with_claim(TEMPLATE, template(late, "nic")).get("team", late) == ((Devices("nic"),),)


@pytest.mark.parametrize(
    ("classes", "found"),
    [
        pytest.param(["gpu.nvidia.com"] * MOST_DEVICES, GPU * MOST_DEVICES, id="as many requests as Kubernetes takes"),
        pytest.param([f"{number:02d}" + "x" * 251 for number in range(32)], TOO_LARGE, id="long names"),
        pytest.param(["x" * (LONGEST_CLASSES + 1)], TOO_LARGE, id="one name longer than any"),
        pytest.param([], UNREADABLE, id="no request"),
    ],
)
def test_of_a_claim_that_asks_for_too_much_nothing_is_certain(classes: list[str], found: Any) -> None:
    assert of_templates(template("t", *classes)).get("team", "t") == found


def of_alternatives(*classes: str, number: int = 5) -> Any:
    """What is kept of a template with so many requests, each with these alternatives."""
    raw = template("t")
    alternatives = [
        {"name": f"a{place}", "deviceClassName": name, "count": place + 1} for place, name in enumerate(classes)
    ]
    raw["spec"]["spec"]["devices"]["requests"] = [
        {"name": f"r{n}", "firstAvailable": alternatives} for n in range(number)
    ]
    return of_templates(raw).get("team", "t")


def test_alternatives_count_against_the_bound_as_well() -> None:
    assert of_alternatives(*(f"class-{place}" for place in range(8))) == TOO_LARGE
    assert of_alternatives(*(f"class-{place}" for place in range(8)), number=4) != TOO_LARGE


def test_alternatives_that_differ_in_their_number_only_are_kept_as_the_largest() -> None:
    assert of_alternatives(*["gpu.nvidia.com"] * 8) == ((Devices("gpu.nvidia.com", 8, fewest=1),),) * 5


@pytest.mark.parametrize(
    "raw",
    [None, {}, {"metadata": []}, {"metadata": {"name": 7}}, {"metadata": {"name": ""}}, {"spec": "x"}, [], "t"],
    ids=["null", "empty", "a list", "a number", "no name", "no metadata", "a list of nothing", "a text"],
)
def test_what_makes_no_sense_is_left_out(raw: Any) -> None:
    assert len(of_templates(raw)) == 0
    assert EMPTY.with_claim(TEMPLATE, raw) is EMPTY


def test_the_largest_claim_that_is_remembered_takes_a_few_kilobytes() -> None:
    classes = [f"{number:02d}" + "x" * 14 for number in range(MOST_DEVICES)]
    found = of_templates(template("t", *classes)).get("team", "t")
    assert found is not None
    devices = [one for request in found for one in request]
    size = sys.getsizeof(found) + sum(map(sys.getsizeof, found)) + sum(map(sys.getsizeof, devices))
    assert size + sum(sys.getsizeof(one.device_class) for one in devices) < 10_000
