"""Plans as tests make them, of objects and nodes as values."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from webhook.audit.documents import Document
from webhook.audit.object_sources import Background, of_files
from webhook.audit.review_objects import LookedUpImages
from webhook.facts.facts import ClusterFacts
from webhook.model.workloads import is_pod
from webhook.policy.policy_set import PolicySet
from webhook.upgrades.changed_cluster import ChangedCluster, declared_pools
from webhook.upgrades.driver_plan import DriverPlan, PlannedWorkload
from webhook.upgrades.node_changes import KnownNodes, changes_of
from webhook.upgrades.workload_planner import PlanRequest, plan_of, policies_without_files

CREATED = datetime(2026, 3, 9, 6, 30, tzinfo=UTC)
DEFAULTS = policies_without_files()


def changed(
    facts: ClusterFacts,
    sets: Sequence[str] = (),
    retired: Sequence[str] = (),
    added: ClusterFacts | None = None,
    policies: PolicySet = DEFAULTS,
) -> ChangedCluster:
    pools = declared_pools(policy.at(CREATED.timestamp()) for policy in policies.policies)
    every = (*pools, *facts.cluster.made)
    known = KnownNodes(facts.cluster.nodes, every, policies.accelerators, policies.cuda.tables)
    return ChangedCluster(
        facts, changes_of(sets, retired, known), pools, added, policies.cuda.tables, policies.accelerators
    )


def planned(
    objects: Iterable[Any],
    cluster: ChangedCluster,
    policies: PolicySet = DEFAULTS,
    *,
    has_matrix: bool = False,
    is_file: bool = False,
    images: LookedUpImages | None = None,
) -> DriverPlan:
    """The plan for objects of a cluster, or of a file; `images` asks registries."""
    source = "f.yaml" if is_file else ""
    documents = [Document(source, number, 0, raw) for number, raw in enumerate(objects, start=1)]
    documents.sort(key=lambda one: is_pod(one.api_version, one.kind))
    found = of_files(documents, "default", Background(cluster.facts))
    request = PlanRequest(cluster, policies, CREATED, has_matrix=has_matrix)
    return plan_of(request, found.documents, found.owners, images)


def by_name(plan: DriverPlan) -> dict[str, PlannedWorkload]:
    """The rows of a plan by the name of the workload."""
    return {one.owner.name: one for one in plan.workloads}
