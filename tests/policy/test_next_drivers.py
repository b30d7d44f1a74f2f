"""The next driver of a pool: from its day on, and what is told before."""

from datetime import UTC, datetime

import yaml

from tests.policy.test_node_pools import H100, declare
from webhook.policy.show import explain

UPGRADE = (
    H100
    + """  next: {driver: "595.71.05", from: "2026-12-01"}
"""
)
DECEMBER = datetime(2026, 12, 1, tzinfo=UTC).timestamp()


def driver_of(policy) -> str:
    (pool,) = policy.node_pools
    return dict(pool.labels)["nvidia.com/cuda.driver-version.full"]


def test_a_pool_has_its_driver_until_the_day_of_the_next_one_and_the_next_one_from_then_on(policies) -> None:
    declare(policies, "_default", UPGRADE)
    default = policies.load().default
    assert [driver_of(default.at(DECEMBER + seconds)) for seconds in (-1, 0)] == ["550.54.15", "595.71.05"]
    assert default.at(DECEMBER - 1) is default
    assert default.at(DECEMBER) is default.at(2 * DECEMBER), "made once"
    declare(policies, "_default", H100.replace("550.54.15", "595.71.05"))
    assert default.at(DECEMBER).node_pools == policies.load().default.node_pools


def test_several_changes_come_one_after_the_other(policies) -> None:
    later = UPGRADE.replace("h100-spot", "h100-later").replace('"2026-12-01"', "2026-12-01T18:30+01:00")
    declare(policies, "_default", UPGRADE + later)
    default = policies.load().default
    assert [pool.next.day for pool in default.node_pools] == ["1 December 2026", "1 December 2026, 17:30 UTC"]
    hours = {hours: default.at(DECEMBER + 3600 * hours).node_pools for hours in (-1, 17, 18)}
    assert {at: [pool.next is None for pool in pools] for at, pools in hours.items()} == {
        -1: [False, False],
        17: [True, False],
        18: [True, True],
    }


def test_existing_nodes_belong_to_a_pool_by_what_is_written_but_not_by_their_driver(policies) -> None:
    """They may have the next driver already, or another one than is declared."""
    branch = '{driver: "595", from: "2026-12-01"}'
    other = f'- {{name: b, labels: {{nvidia.com/cuda.driver.major: "550"}}, next: {branch}}}'
    declare(policies, "_default", UPGRADE + other)
    first, second = policies.load().default.node_pools
    assert dict(first.next.members) == {
        "cloud.google.com/gke-nodepool": "h100-spot",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    }
    assert second.next.members == ()
    assert dict(second.at(DECEMBER).labels)["nvidia.com/cuda.driver.major"] == "595"


def test_a_day_that_has_passed_is_told_to_whoever_checks_the_files(policies) -> None:
    """Of each file once, and not to replicas, which would tell it at every reload."""
    declare(policies, "_default", UPGRADE)
    policies.policy("team-a")
    declare(policies, "team-b", UPGRADE.replace("h100-spot", "own"))
    assert policies.load(now=DECEMBER - 1).notices == ()
    since = "has driver 595.71.05 since 1 December 2026; write it as driver, and remove next"
    assert [notice.replace(f"{policies.path}/", "") for notice in policies.load(now=DECEMBER).notices] == [
        f"_default.yaml: spec.nodePools: h100-spot {since}",
        f"team-b.yaml: spec.nodePools: own {since}",
    ]
    assert policies.load().notices == ()


def test_a_next_driver_is_a_part_of_the_hash_and_is_shown(policies) -> None:
    declare(policies, "_default", H100)
    without = policies.load()
    declare(policies, "_default", UPGRADE)
    upgrade = policies.load()
    assert without.default.hash != upgrade.default.hash
    text = explain(upgrade, "team-a")
    (shown,) = yaml.safe_load(text)["spec"]["nodePools"]
    assert shown["next"] == {"driver": "595.71.05", "from": "2026-12-01T00:00Z"}
