"""Metrics of nodes: bounded, equal on all replicas, counted once for each state of the cluster."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tests.golden import each
from webhook.admission.metrics import MOST_PAIRS, OTHER, Metrics, count_nodes, show_nodes
from webhook.cuda.cuda_tables import SHIPPED
from webhook.cuda.drivers import Branch
from webhook.facts.snapshot import EMPTY, Snapshot
from webhook.model.versions import parse_version

NOVEMBER_2026 = datetime(2026, 11, 25, tzinfo=UTC).timestamp()


def node(name: str, product: str = "", driver: str = "", resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    """A node with these labels of GPU Feature Discovery, as the API server gives it."""
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/cuda.driver-version.full": driver}
    return {
        "metadata": {"name": name, "labels": {key: value for key, value in labels.items() if value}},
        "status": {"capacity": {resource: "1"}},
    }


def shown(metrics: Metrics, name: str) -> Mapping[tuple[str, ...], float]:
    """The series of a metric: their labels, and their values."""
    families = {family.name: family for family in metrics.registry.collect()}
    return {tuple(sample.labels.values()): sample.value for sample in families[name].samples}


def metrics_of(*nodes: object, now: float = NOVEMBER_2026) -> Metrics:
    """The metrics of a replica whose cluster has these nodes."""
    metrics, snapshot = Metrics(), Snapshot.of(nodes)
    show_nodes(metrics.registry, lambda: snapshot, lambda: SHIPPED, lambda: now)
    return metrics


def test_nodes_count_by_gpu_and_driver() -> None:
    metrics = metrics_of(
        node("a", "NVIDIA-L4", "535.183.01"),
        node("b", "NVIDIA-L4", "535.183.01"),
        node("c", "NVIDIA-L4", "580.95.05"),
        node("d", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "580.95.05", "nvidia.com/mig-1g.5gb"),
    )
    assert shown(metrics, "gpu_policy_nodes") == {
        ("NVIDIA-L4", "535.183.01"): 2,
        ("NVIDIA-L4", "580.95.05"): 1,
        ("NVIDIA-A100-SXM4-40GB", "580.95.05"): 1,
    }


@each(
    "labels, pair",
    {
        "no labels": ({}, ("unknown", "unknown")),
        "no driver": ({"product": "NVIDIA-L4"}, ("NVIDIA-L4", "unknown")),
        "a driver in words": ({"product": "NVIDIA-L4", "driver": "new"}, ("NVIDIA-L4", "unknown")),
        "no GPU": ({"driver": "535.183.01"}, ("unknown", "535.183.01")),
    },
)
def test_what_a_node_does_not_say_is_unknown(labels: Mapping[str, str], pair: tuple[str, str]) -> None:
    assert shown(metrics_of(node("a", **labels)), "gpu_policy_nodes") == {pair: 1}


def test_nodes_without_nvidia_gpus_do_not_count() -> None:
    """A label alone makes no GPU, and other vendors have other drivers."""
    metrics = metrics_of(node("a", "NVIDIA-L4", "535.183.01", "cpu"), node("b", "MI300X", "6.3", "amd.com/gpu"))
    assert shown(metrics, "gpu_policy_nodes") == {}
    assert shown(metrics, "gpu_policy_nodes_of_ended_branch") == {}


def test_labels_that_somebody_makes_up_cannot_make_the_series_grow() -> None:
    """Every kubelet may write the labels of its node."""
    made_up = [node(f"n{number}", "NVIDIA-L4", f"580.{number}") for number in range(3 * MOST_PAIRS)]
    counts = count_nodes(Snapshot.of([*made_up, *(node(f"r{number}", "NVIDIA-T4") for number in range(9))]), SHIPPED)
    assert len(counts.by_pair) == MOST_PAIRS + 1
    assert counts.by_pair["NVIDIA-T4", "unknown"] == 9
    assert counts.by_pair[OTHER, OTHER] == 2 * MOST_PAIRS + 1
    assert counts.by_branch == {580: 3 * MOST_PAIRS}


def test_replicas_that_saw_the_nodes_in_another_order_show_the_same() -> None:
    nodes = [node(f"n{number}", "NVIDIA-L4", f"580.{number}") for number in range(2 * MOST_PAIRS)]
    assert count_nodes(Snapshot.of(nodes), SHIPPED) == count_nodes(Snapshot.of(reversed(nodes)), SHIPPED)


def test_only_branches_that_have_certainly_ended_are_shown() -> None:
    """535 ended in June 2026, 575 in an unknown month. Nobody knows the end of 615, and 9999 is no branch."""
    drivers = ("535.183.01", "575.57.08", "580.95.05", "615.71.09", "9999.1")
    nodes = [node(driver, "NVIDIA-L4", driver) for driver in drivers]
    assert shown(metrics_of(*nodes), "gpu_policy_nodes_of_ended_branch") == {("535",): 1, ("575",): 1}


def test_a_branch_ends_while_the_replica_runs_and_no_node_changes() -> None:
    clock = [datetime(2028, 6, 30, 23, 59, tzinfo=UTC).timestamp()]
    metrics, snapshot = Metrics(), Snapshot.of([node("a", "Tesla-V100-SXM2-16GB", "580.95.05")])
    show_nodes(metrics.registry, lambda: snapshot, lambda: SHIPPED, lambda: clock[0])
    assert shown(metrics, "gpu_policy_nodes_of_ended_branch") == {}
    clock[0] += 60
    assert shown(metrics, "gpu_policy_nodes_of_ended_branch") == {("580",): 1}


def test_the_tables_of_the_platform_say_when_a_branch_ends() -> None:
    tables = [SHIPPED]
    metrics, snapshot = Metrics(), Snapshot.of([node("a", "NVIDIA-L4", "535.183.01")])
    show_nodes(metrics.registry, lambda: snapshot, lambda: tables[0], lambda: NOVEMBER_2026)
    assert shown(metrics, "gpu_policy_nodes_of_ended_branch") == {("535",): 1}
    tables[0] = SHIPPED.merged({})
    object.__setattr__(
        tables[0], "drivers", SHIPPED.drivers.merged([Branch(535, parse_version("12.2"), "", "2027-06", "a contract")])
    )
    assert shown(metrics, "gpu_policy_nodes_of_ended_branch") == {}


def test_nothing_is_shown_before_the_cluster_has_been_read() -> None:
    metrics = Metrics()
    found: list[Snapshot] = []
    show_nodes(metrics.registry, lambda: found[0] if found else None, lambda: SHIPPED, lambda: NOVEMBER_2026)
    assert shown(metrics, "gpu_policy_nodes") == {}
    found.append(Snapshot.of([node("a", "NVIDIA-L4", "535.183.01")]))
    assert shown(metrics, "gpu_policy_nodes") == {("NVIDIA-L4", "535.183.01"): 1}


def test_nodes_are_counted_again_only_after_a_change() -> None:
    """Anybody who may reach the port can scrape as often as they like."""
    current = [EMPTY.with_nodes([node("a", "NVIDIA-L4", "535.183.01")])]
    metrics, before = Metrics(), count_nodes.cache_info().misses
    show_nodes(metrics.registry, lambda: current[0], lambda: SHIPPED, lambda: NOVEMBER_2026)
    for number in range(1, 4):
        for _ in range(5):
            metrics.page()
        assert count_nodes.cache_info().misses == before + number
        current.append(current.pop(0).with_node(node(f"b{number}", "NVIDIA-L4", "580.95.05")))
