"""A plan foretells what an audit says after the upgrade: for 400 workloads on 40 nodes, whatever they choose.

`make test` has a quarter of the workloads. The rule cudaDriver does not ask which nodes are large enough. So each
workload is audited in a cluster that has only the nodes with room for it.
"""

from itertools import groupby, product
from typing import Any

import pytest

from tests.audit.audits import audited
from tests.build import policies
from tests.upgrades.generated import DRIVERS, Cluster, cluster, gpu_node
from tests.upgrades.plans import by_name, changed, planned
from webhook.audit.report import AuditFinding, Level
from webhook.facts.facts import ClusterFacts
from webhook.upgrades.driver_plan import DriverPlan, RunsOn, WorkloadChange

SEEDS = range(2)
POLICIES = {
    "strict": {"tolerations": {}, "cudaDriver": {"unknown": "deny", "images": {"registry.corp/known:*": "12.4"}}},
    "with models": {
        "tolerations": {},
        "gpuTypes": {"denied": ["H100"]},
        "cudaDriver": {"unknown": "deny", "forwardCompat": "deny"},
    },
    "tolerating nothing": {"cudaDriver": {"unknown": "deny"}},
}
CHANGES: tuple[dict[str, Any], ...] = (
    {"sets": ("pool=a=590.44.01",)},
    {"sets": ("pool in (a,b)=470.82.01", "pool=c=580.95.05")},
    {"sets": ("zone=x=550.54.15",), "retired": ("zone=y",)},
    {"retired": ("pool=c",)},
)
COMBINED = [
    pytest.param(SEEDS[at % 2], options, rules, id=f"{options}-{name}")
    for at, (options, (name, rules)) in enumerate(product(CHANGES, POLICIES.items()))
]


def applied(before: Cluster, options: dict[str, Any]) -> Cluster:
    """The cluster after the options were really done to its nodes, one after the other."""
    drivers: dict[str, str] = {}
    gone: list[str] = []
    for text in options.get("sets", ()):
        selector, _, driver = text.rpartition("=")
        drivers |= dict.fromkeys(_named(before, selector), driver)
    for text in options.get("retired", ()):
        gone += _named(before, text)
    return before.upgraded(drivers, gone)


def _named(before: Cluster, selector: str) -> list[str]:
    key, _, value = selector.replace(" in (", "=").rstrip(")").partition("=")
    labels = ((raw["metadata"]["name"], raw["metadata"]["labels"]) for raw in before.nodes)
    return [name for name, own in labels if own.get(key) in value.split(",")]


def told(plan: DriverPlan) -> dict[str, tuple[object, ...]]:
    return {
        name: (one.after.verdict, one.after.nodes, one.after.of, one.after.unknown)
        for name, one in by_name(plan).items()
    }


def unplaced(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objects, pods without their nodes: an audit judges pods where they are, and plans judge where they may be."""
    return [
        {**raw, "spec": {key: value for key, value in raw["spec"].items() if key != "nodeName"}}
        if raw["kind"] == "Pod"
        else raw
        for raw in objects
    ]


def driver_findings(objects: list[dict[str, Any]], facts: ClusterFacts, rules: dict[str, Any]) -> list[AuditFinding]:
    report = audited(*unplaced(objects), using=policies(rules), facts=facts)
    assert report.errors == ()
    return [one for one in report.findings if one.level is Level.REFUSE]


def size_of(raw: dict[str, Any]) -> dict[str, int]:
    """The GPUs, CPUs and GiB of memory that each pod of an object requests."""
    spec = raw["spec"] if raw["kind"] == "Pod" else raw["spec"]["template"]["spec"]
    limits = spec["containers"][0]["resources"]["limits"]
    gpus = int(limits.get("nvidia.com/gpu", "0"))
    return {"gpus": gpus, "cpu": int(limits["cpu"]), "memory": int(limits["memory"].removesuffix("Gi"))}


def findings_by_size(now: Cluster, rules: dict[str, Any]) -> list[AuditFinding]:
    """What audits refuse, each of objects of one size on the nodes with room for them."""
    sized = sorted(((size_of(raw), raw) for raw in now.objects), key=lambda one: sorted(one[0].items()))
    return [
        found
        for size, objects in groupby(sized, key=lambda one: one[0])
        for found in driver_findings([raw for _, raw in objects], now.with_room(**size).facts, rules)
    ]


def unseen(now: Cluster) -> set[str]:
    """The workloads of which cudaDriver says nothing if they have no node: without CUDA, or with claimed GPUs."""
    return {raw["metadata"]["name"] for raw in now.objects if "busybox" in str(raw) or "resourceClaims" in str(raw)}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_with_the_drivers_of_today_changes_nothing(seed: int) -> None:
    """Not even for images about which nothing is known."""
    now = cluster(seed)
    sets = {
        f"kubernetes.io/hostname={raw['metadata']['name']}={driver}"
        for raw in now.nodes
        if (driver := raw["metadata"]["labels"].get("nvidia.com/cuda.driver-version.full")) is not None
    }
    assert len(sets) > 15
    plan = planned(now.objects, changed(now.facts, sorted(sets)))
    assert len(plan.workloads) > 50
    assert {one.change for one in plan.workloads} == {WorkloadChange.SAME}
    assert all(one.before == one.after for one in plan.workloads)


@pytest.mark.parametrize(("seed", "options", "rules"), COMBINED)
def test_the_facts_of_a_plan_are_those_after_the_upgrade(
    seed: int, options: dict[str, Any], rules: dict[str, Any]
) -> None:
    """So an audit on them finds the same, and another plan begins where this one ends."""
    now = cluster(seed)
    then = applied(now, options)
    plan = changed(now.facts, **options, policies=policies(rules))
    found = driver_findings(now.objects, plan.after, rules)
    assert found == driver_findings(now.objects, then.facts, rules)
    assert found
    again = planned(now.objects, changed(then.facts, policies=policies(rules)), policies(rules))
    foretold = told(planned(now.objects, plan, policies(rules)))
    assert {name: foretold[name] for name in told(again)} == told(again)
    gone = {name: foretold[name][0] for name in foretold.keys() - told(again).keys()}
    assert set(gone.values()) <= {RunsOn.NO_NODES}
    assert gone.keys() <= unseen(now)


@pytest.mark.parametrize(("seed", "options", "rules"), COMBINED)
def test_an_audit_after_the_upgrade_refuses_what_the_plan_foretells(
    seed: int, options: dict[str, Any], rules: dict[str, Any]
) -> None:
    """The audit refuses what cannot run, what may not run, and what has no nodes, and nothing else about nodes."""
    now = cluster(seed)
    plan = planned(now.objects, changed(now.facts, **options, policies=policies(rules)), policies(rules))
    found = findings_by_size(applied(now, options), rules)
    findings = [one for one in found if "can give only" not in one.message]  # a claim, whatever the drivers
    refused = {one.owner.name for one in findings}
    rows = by_name(plan)
    silent = {name for name, one in rows.items() if one.after.verdict is RunsOn.NO_NODES and name in unseen(now)}
    runs = {name for name, one in rows.items() if one.after.verdict in (RunsOn.RUNS, RunsOn.COMPAT_ONLY)}
    assert (rows.keys() & refused) - silent == rows.keys() - runs - silent
    assert runs
    messages = {name: [one.message for one in findings if one.owner.name == name] for name in refused}
    for one in plan.at(WorkloadChange.BREAKS):
        if one.after.verdict is RunsOn.CANNOT_RUN and "gpuTypes" not in rules:
            reason = one.reason.partition("; too small for what it requests: ")[0]
            assert any(message.startswith(reason) for message in messages[one.owner.name])


@pytest.mark.parametrize(("seed", "options"), [(at % 2, options) for at, options in enumerate(CHANGES)], ids=str)
def test_what_breaks_is_refused_in_the_whole_cluster_too(seed: int, options: dict[str, Any]) -> None:
    """There, cudaDriver keeps pods off nodes, and schedulable finds that the others are too small."""
    rules: dict[str, Any] = {"tolerations": {}, "schedulable": {}, "cudaDriver": {}}
    now = cluster(seed)
    rows = by_name(planned(now.objects, changed(now.facts, **options, policies=policies(rules)), policies(rules)))
    refused = {one.owner.name for one in driver_findings(now.objects, applied(now, options).facts, rules)}
    stuck = {name for name, one in rows.items() if one.after.verdict in (RunsOn.CANNOT_RUN, RunsOn.NO_NODES)}
    claiming = {raw["metadata"]["name"] for raw in now.objects if "resourceClaims" in str(raw)}
    assert stuck - claiming == refused & rows.keys() - claiming
    assert stuck


@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_that_come_make_up_for_nodes_that_go(seed: int) -> None:
    """A pool that is replaced node by node, with the same GPUs and drivers, changes nothing for anybody."""
    now = cluster(seed)
    old = [
        raw
        for raw in now.nodes
        if raw["metadata"]["labels"]["pool"] == "a" and raw["status"]["capacity"].get("nvidia.com/gpu")
    ]
    others = [raw for raw in now.nodes if raw not in old and raw["metadata"]["labels"]["pool"] != "a"]
    now = Cluster(
        [*old, *others],
        [one for one in now.slices if any(raw["metadata"]["name"] == one["spec"]["nodeName"] for raw in others)],
        now.objects,
    )
    new = [{**raw, "metadata": {**raw["metadata"], "name": f"new-{raw['metadata']['name']}"}} for raw in old]
    plan = planned(now.objects, changed(now.facts, retired=["pool=a"], added=ClusterFacts.of(new)))
    assert {one.change for one in plan.workloads} == {WorkloadChange.SAME}
    assert old


def selects_drivers(raw: dict[str, Any]) -> bool:
    return "nvidia.com/cuda.driver" in str(raw)


@pytest.mark.parametrize(
    ("seed", "rules"), [(0, {"tolerations": {}, "cudaDriver": {}}), (1, {"cudaDriver": {}})], ids=["all", "none"]
)
def test_the_matrix_counts_what_a_plan_for_each_kind_of_nodes_breaks(seed: int, rules: dict[str, Any]) -> None:
    """Each cell is what a whole plan says that gives the last driver of the branch to these nodes alone."""
    now = cluster(seed, nodes=8, workloads=60)
    objects = [raw for raw in now.objects if not selects_drivers(raw)]
    facts, using = now.facts, policies(rules)
    matrix = planned(objects, changed(facts, policies=using), using, has_matrix=True).matrix
    assert matrix is not None
    for row in matrix.pools:
        kinds = _of_kind(now, row.product or "", row.driver or "")
        assert row.nodes == len(kinds)
        safe = [cell.branch for cell in row.branches if cell.drives and not cell.breaks and not cell.unknown]
        assert row.newest == max(safe, default=None)
        for cell in row.branches:
            sets = [f"kubernetes.io/hostname in ({','.join(kinds)})={cell.branch}.999"]
            plan = planned(objects, changed(facts, sets, policies=using), using)
            assert cell.breaks == len(plan.at(WorkloadChange.BREAKS)), row.name
            assert cell.unknown == len(plan.at(WorkloadChange.UNKNOWN)), row.name
            assert cell.loses_nodes == len(plan.at(WorkloadChange.LOSES_NODES)), row.name


@pytest.mark.parametrize("seed", SEEDS)
def test_what_another_branch_does_to_pods_that_select_drivers_is_unknown(seed: int) -> None:
    """On nodes that they may land on; with the branch of today they stay where they are."""
    now = cluster(seed, nodes=8, workloads=60)
    objects = [raw for raw in now.objects if selects_drivers(raw)]
    matrix = planned(objects, changed(now.facts), has_matrix=True).matrix
    assert matrix is not None
    assert any(cell.unknown for row in matrix.pools for cell in row.branches)
    for row in matrix.pools:
        others = {
            (cell.breaks, cell.loses_nodes)
            for cell in row.branches
            if not f"{row.driver}.".startswith(f"{cell.branch}.")
        }
        assert others <= {(0, 0)}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_matrix_has_the_branches_that_get_releases_and_that_of_the_nodes(seed: int) -> None:
    matrix = planned([], changed(cluster(seed).facts), has_matrix=True).matrix
    assert matrix is not None
    living = {branch.branch for branch in matrix.branches if not branch.has_ended}
    assert 470 not in living
    assert 580 in living
    for row in matrix.pools:
        own = {int(row.driver.split(".")[0])} if row.driver else set()
        assert [cell.branch for cell in row.branches] == sorted(living | own)
        assert own <= {branch.branch for branch in matrix.branches}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_matrix_is_about_the_nodes_of_today_whatever_else_is_planned(seed: int) -> None:
    now = cluster(seed, nodes=12, workloads=60)
    new = [gpu_node(f"new{at}", "NVIDIA-B200", DRIVERS[4], ("driver-version",), pool="z") for at in range(3)]
    plain = planned(now.objects, changed(now.facts), has_matrix=True).matrix
    other = changed(now.facts, ["zone=x=590.44.01"], ["zone=y"], ClusterFacts.of(new))
    assert planned(now.objects, other, has_matrix=True).matrix == plain


def _of_kind(now: Cluster, product: str, driver: str) -> list[str]:
    slices = {
        one["spec"]["nodeName"]: one["spec"]["devices"][0]["attributes"]["driverVersion"]["version"]
        for one in now.slices
    }
    found = []
    for raw in now.nodes:
        labels, name = raw["metadata"]["labels"], raw["metadata"]["name"]
        full = labels.get("nvidia.com/cuda.driver-version.full") or ".".join(
            filter(None, (labels.get(f"nvidia.com/cuda.driver.{part}") for part in ("major", "minor", "rev")))
        )
        if labels["nvidia.com/gpu.product"] == product and (full or slices.get(name, "")) == driver:
            found.append(name)
    return found
