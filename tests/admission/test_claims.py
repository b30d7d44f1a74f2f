"""ResourceClaims that are about to be created: counted in the quotas of their namespace."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.admission.test_service_quotas import Site
from tests.facts.claim_samples import for_extended_resources, stored_claim
from webhook.admission.phases import SCHEDULER


def claim(count: int = 1, device_class: str = "gpu.nvidia.com", **metadata: Any) -> dict[str, Any]:
    raw = stored_claim("c", count, device_class)
    raw["metadata"] |= metadata
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **raw}


def said(site: Site, raw: dict[str, Any], number: int = 1, **parts: Any) -> str:
    """The refusal of a claim; empty for none."""
    response = site.ask("/claims", raw, number, **parts)
    return str(response.get("status", {}).get("message", ""))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A namespace that may use 4 GPUs, two of which are in use."""
    site = Site(tmp_path)
    yield site
    site.desk.close()


def test_a_claim_is_entered_and_one_beyond_the_quota_is_refused(site: Site) -> None:
    assert said(site, claim(1)) == ""
    assert site.entered == {1}
    refusal = said(site, claim(2), 2)
    assert "exceeded GPU quota" in refusal
    assert "requested 2, used 3 of 4 (1 free)" in refusal
    assert site.entered == {1}
    assert said(site, claim(2), 1) == "", "asked again"


def test_a_claim_that_never_fits_is_refused_without_asking_the_ledger(site: Site) -> None:
    assert "requests 5 GPUs; GPU quota" in said(site, claim(5))
    assert site.entered == set()


def test_a_claim_that_rules_refuse_is_not_entered(tmp_path: Path) -> None:
    site = Site(tmp_path, gpus=20)
    made = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "1", "controller": True}
    for raw in (claim(9), claim(9, ownerReferences=[made])):
        assert said(site, raw).startswith(
            "gpuLimits: spec.devices.requests: requests 9 GPUs; the policy allows at most 8"
        )
    assert site.entered == set()
    assert (said(site, claim(8), 2), site.entered) == ("", {2})
    site.desk.close()


def test_a_claim_for_extended_resources_is_not_judged_where_a_scheduler_makes_it(tmp_path: Path) -> None:
    site = Site(tmp_path, gpus=20)
    raw = {**claim(9), **for_extended_resources("p", stored_claim("c", 9))}
    assert said(site, raw, userInfo={"username": SCHEDULER, "groups": []}) == ""
    assert said(site, raw).startswith("gpuLimits: ")
    site.desk.close()


def test_dry_runs_leave_no_entry(site: Site) -> None:
    assert said(site, claim(2), dryRun=True) == ""
    assert "exceeded" in said(site, claim(3), dryRun=True)
    assert site.entered == set()


@pytest.mark.parametrize(
    ("user", "is_counted"),
    [
        pytest.param({"username": SCHEDULER, "groups": []}, False, id="the scheduler"),
        pytest.param(
            {"username": "system:serviceaccount:kube-system:second", "groups": ["system:serviceaccounts:kube-system"]},
            False,
            id="another scheduler",
        ),
        pytest.param({"username": "eve", "groups": ["system:authenticated"]}, True, id="anybody"),
    ],
)
def test_A58_a_claim_for_extended_resources_is_counted_unless_a_scheduler_makes_it(
    site: Site, user: dict[str, Any], *, is_counted: bool
) -> None:
    raw = for_extended_resources("p", stored_claim("c", 4))
    raw = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **raw}
    assert bool(said(site, raw, userInfo=user)) is is_counted


def test_a_scheduler_has_no_other_claims_left_out(site: Site) -> None:
    assert said(site, claim(5), userInfo={"username": SCHEDULER, "groups": []})


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(claim(9, "mrdma.google.com"), id="no GPUs"),
        pytest.param({**claim(9), "apiVersion": "example.com/v1"}, id="another group"),
        pytest.param({**claim(9), "kind": "ResourceClaimTemplate"}, id="a template"),
    ],
)
def test_nothing_else_is_counted(site: Site, raw: dict[str, Any]) -> None:
    assert said(site, raw) == ""
    assert site.entered == set()


def test_updates_change_nothing_that_counts(site: Site) -> None:
    assert said(site, claim(9), operation="UPDATE", old=claim(9)) == ""


@pytest.mark.parametrize(("mode", "is_refused"), [("deny", True), ("warn", False), ("allow", False)])
def test_a_class_that_nobody_knows_is_what_the_policy_says(tmp_path: Path, mode: str, *, is_refused: bool) -> None:
    site = Site(tmp_path, claims=mode)
    response = site.ask("/claims", claim(1, "own.example.com"))
    assert response["allowed"] is not is_refused
    assert bool(response.get("warnings")) is (mode == "warn")
    site.desk.close()


def test_malformed_claims_count_nothing_and_harm_nobody(site: Site) -> None:
    for spec in (None, 7, {}, {"devices": 7}, {"devices": {"requests": [7, {"exactly": []}, {"name": "x"}]}}):
        site.ask("/claims", {**claim(), "spec": spec}, 9)
    assert site.entered == set()
    assert UUID(int=9).int not in site.entered
