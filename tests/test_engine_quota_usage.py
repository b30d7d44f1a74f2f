"""What people see of a quota: exact numbers of every limit, in the namespaces whose pods it counts."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from webhook.engine.quota_usage import QuotaUsage, quota_usages, statuses
from webhook.ledger.reconciler import Usage
from webhook.policy.directory import contents_of
from webhook.policy.loader import build
from webhook.quota.quotas import Limit, Measure, Quota, QuotaScope
from webhook.rules.rule_settings import Mode

GPUS = Limit(Measure.GPUS, "", Fraction(8))
H100 = Limit(Measure.MODEL, "H100", Fraction(4))
T4 = Limit(Measure.MODEL, "T4", Fraction(16))
SLICES = Limit(Measure.RESOURCE, "nvidia.com/mig-1g.10gb", Fraction(14))


def stands(
    *limits: Limit,
    used: Mapping[Limit, Fraction] | None,
    patterns: tuple[str, ...] = ("team-vision",),
    namespaces: tuple[str, ...] = (),
) -> QuotaUsage:
    scope = QuotaScope.NAMESPACE if patterns == ("team-vision",) else QuotaScope.SHARED
    name = "team-vision" if scope is QuotaScope.NAMESPACE else "research"
    return QuotaUsage(Quota(scope, name, patterns, limits), Mode.ENFORCE, used, namespaces, "17")


def test_a_namespace_sees_every_limit_of_its_quota_with_exact_numbers() -> None:
    used = {GPUS: Fraction(6), H100: Fraction(17, 7), SLICES: Fraction(3)}
    assert statuses([stands(GPUS, H100, T4, SLICES, used=used)]) == {
        ("team-vision", "namespace.team-vision"): {
            "quota": "team-vision",
            "scope": "namespace",
            "mode": "enforce",
            "ledger": "17",
            "gpus": {"hard": "8", "used": "6"},
            "byModel": [
                {"name": "H100", "hard": "4", "used": "2 3/7"},
                {"name": "T4", "hard": "16", "used": "0"},
            ],
            "models": "H100 2 3/7 of 4, T4 0 of 16",
            "byResource": [{"name": "nvidia.com/mig-1g.10gb", "hard": "14", "used": "3"}],
            "resources": "nvidia.com/mig-1g.10gb 3 of 14",
        }
    }


def test_what_claims_count_stands_beside_the_limits_that_they_count_against() -> None:
    used, by_claims = {GPUS: Fraction(6), H100: Fraction(2)}, {GPUS: Fraction(3, 7), H100: Fraction(0)}
    (status,) = statuses([replace(stands(GPUS, H100, used=used), by_claims=by_claims)]).values()
    assert status is not None
    assert status["gpus"] == {"hard": "8", "used": "6", "byClaims": "3/7"}
    assert status["byModel"] == [{"name": "H100", "hard": "4", "used": "2"}]


@pytest.mark.parametrize(
    ("units", "shown"),
    [
        pytest.param(9, {"hard": "8", "used": "6", "units": "9"}, id="shares and slices"),
        pytest.param(6, {"hard": "8", "used": "6"}, id="whole GPUs"),
        pytest.param(None, {"hard": "8", "used": "6"}, id="nobody has counted"),
    ],
)
def test_units_stand_beside_gpus_where_they_are_others(units: int | None, shown: dict[str, str]) -> None:
    usage = replace(stands(GPUS, H100, used={GPUS: Fraction(6), H100: Fraction(2)}), units=units)
    (status,) = statuses([usage]).values()
    assert status is not None
    assert status["gpus"] == shown
    assert status["byModel"] == [{"name": "H100", "hard": "4", "used": "2"}]


def test_what_is_not_limited_is_not_spoken_of() -> None:
    (status,) = statuses([stands(H100, used={})]).values()
    assert status is not None
    assert not {"gpus", "byResource", "resources"} & status.keys()


@pytest.mark.parametrize(
    ("patterns", "namespaces", "seen"),
    [
        pytest.param(("team-vision",), (), {"team-vision"}, id="a namespace's own, nothing in use"),
        pytest.param(("a", "b"), ("b",), {"a", "b"}, id="a shared quota of names, also those without pods"),
        pytest.param(("r-*",), (), set(), id="a glob, nothing in use"),
        pytest.param(("r-*",), ("r-1", "r-2"), {"r-1", "r-2"}, id="a glob, where pods count"),
        pytest.param(("a", "r-*"), ("r-1", "old"), {"a", "r-1"}, id="not where it no longer holds"),
    ],
)
def test_a_quota_is_seen_where_it_holds(patterns: tuple[str, ...], namespaces: tuple[str, ...], seen: set[str]) -> None:
    found = statuses([stands(GPUS, used={}, patterns=patterns, namespaces=namespaces)])
    assert {namespace for namespace, _ in found} == seen


def test_what_nobody_knows_is_said_to_be_unknown_and_not_to_be_zero() -> None:
    assert statuses([stands(GPUS, used=None)]) == {("team-vision", "namespace.team-vision"): None}


def test_a_namespace_sees_the_sum_of_a_shared_quota_and_no_other_namespace() -> None:
    found = statuses([stands(GPUS, used={GPUS: Fraction(5)}, patterns=("a", "b"), namespaces=("a", "b"))])
    assert found["a", "shared.research"] == found["b", "shared.research"]
    assert "'b'" not in str(found["a", "shared.research"])


# From what ledgers tell


HEAD = "apiVersion: gpupolicy.dev/v1alpha1\n"
FILES = {
    "_default.yaml": f"{HEAD}kind: GPUPolicy\nmetadata: {{name: _default}}\nspec: {{rules: {{}}}}\n",
    "r-2.yaml": f"{HEAD}kind: GPUPolicy\nmetadata: {{name: r-2}}\n"
    "spec: {rules: {gpuQuota: {mode: warn, gpus: 2}}}\n",
    "_quotas.yaml": f"{HEAD}kind: GPUSharedQuotas\nmetadata: {{name: _quotas}}\n"
    "spec: {quotas: [{name: research, namespaces: ['r-*'], mode: audit, gpus: 4}]}\n",
}
POLICIES = build(contents_of(Path("policies"), {name: text.encode() for name, text in FILES.items()}))
BOUND = {bound.quota.key: bound for bound in POLICIES.quotas_for("r-2")}


def usage(quota: Quota, *namespaces: str) -> Usage:
    return Usage(quota, dict.fromkeys(quota.limits, Fraction(1)), 1, frozenset(namespaces), "21")


def test_the_mode_of_a_quota_and_the_namespaces_that_policies_name_come_from_the_policies() -> None:
    found = quota_usages({key: usage(bound.quota, "r-1") for key, bound in BOUND.items()}, POLICIES)
    assert {one.quota.key: (one.mode, one.version, set(one.namespaces)) for one in found} == {
        "namespace.r-2": (Mode.WARN, "21", {"r-1", "r-2"}),
        "shared.research": (Mode.AUDIT, "21", {"r-1", "r-2"}),
    }


def test_a_shared_quota_is_seen_in_a_namespace_that_a_policy_names_before_it_has_pods() -> None:
    shared_quota = BOUND["shared.research"].quota
    assert {
        namespace for namespace, _ in statuses(quota_usages({shared_quota.key: usage(shared_quota)}, POLICIES))
    } == {"r-2"}


def test_a_quota_that_the_policies_do_not_have_any_more_is_left_out() -> None:
    gone = Quota(QuotaScope.SHARED, "gone", ("a",), (GPUS,))
    unlimited = Quota(QuotaScope.NAMESPACE, "b", ("b",), (GPUS,))
    assert quota_usages({gone.key: usage(gone), unlimited.key: usage(unlimited)}, POLICIES) == []
