"""ResourceClaims that are about to be created: counted in the quotas of their namespace."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.admission.quota_desk import Site
from tests.facts.claim_samples import for_extended_resources, made_for, stored_claim
from tests.golden import each
from webhook.admission.claim_phase import SCHEDULER


def claim(count: int = 1, device_class: str = "gpu.nvidia.com", **metadata: Any) -> dict[str, Any]:
    raw = stored_claim("c", count, device_class)
    raw["metadata"] |= metadata
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **raw}


def said(site: Site, raw: dict[str, Any], number: int = 1, **parts: Any) -> str:
    """The refusal of a claim; empty for none."""
    response = site.ask("/claims", raw, number, **parts)
    return str(response.get("status", {}).get("message", ""))


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


def extending(number: int, count: int) -> dict[str, Any]:
    """A claim for extended resources of the pod with the uid of this number."""
    raw = for_extended_resources("p", stored_claim("c", count))
    raw["metadata"]["ownerReferences"][0]["uid"] = str(UUID(int=number))
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **raw}


BY_SCHEDULER = {"username": SCHEDULER, "groups": []}


def test_a_claim_for_extended_resources_takes_the_entry_of_its_pod_over(site: Site) -> None:
    assert site.validate(2, 5) == ""
    assert said(site, extending(5, 2), 7, userInfo=BY_SCHEDULER) == ""
    assert site.entered == {7}


@each(
    "user, raw",
    {
        "of anybody": ({"username": "eve", "groups": ["system:authenticated"]}, extending(5, 2)),
        "made from a template with the annotation": (
            {"username": "system:serviceaccount:kube-system:resource-claim-controller", "groups": []},
            made_for("p", extending(5, 2)),
        ),
        "both": (BY_SCHEDULER, made_for("p", extending(5, 2))),
        "larger than its pod": (BY_SCHEDULER, extending(5, 3)),
        "of a pod that has no entry": (BY_SCHEDULER, extending(6, 2)),
    },
)
def test_any_other_claim_for_extended_resources_has_to_fit(
    site: Site, user: dict[str, Any], raw: dict[str, Any]
) -> None:
    assert site.validate(2, 5) == ""
    assert "exceeded GPU quota" in said(site, raw, 7, userInfo=user)
    assert site.entered == {5}


def test_a_scheduler_goes_on_while_ledgers_are_away(tmp_path: Path) -> None:
    site = Site(tmp_path, has_ledgers=False)
    assert "cannot be reached" in said(site, claim(1))
    assert said(site, extending(5, 1), userInfo={"username": SCHEDULER, "groups": []}) == ""
    site.desk.close()


def test_a_scheduler_has_no_other_claims_left_out(site: Site) -> None:
    assert said(site, claim(5), userInfo={"username": SCHEDULER, "groups": []})


@each(
    "raw",
    {
        "no GPUs": claim(9, "mrdma.google.com"),
        "another group": {**claim(9), "apiVersion": "example.com/v1"},
        "a template": {**claim(9), "kind": "ResourceClaimTemplate"},
    },
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
