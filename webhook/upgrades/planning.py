"""From objects and planned changes to a plan."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from webhook.audit.documents import Document, DocumentError
from webhook.audit.owners import Owners
from webhook.audit.review_objects import LookedUpImages
from webhook.policy.policy_set import PolicySet
from webhook.upgrades.branch_matrix import branch_matrix
from webhook.upgrades.changed_cluster import ChangedCluster
from webhook.upgrades.driver_plan import DriverPlan
from webhook.upgrades.plan_pools import planned_pools
from webhook.upgrades.workload_planner import WorkloadPlanner


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What to plan: the cluster with its changes, the policies, and how.

    `namespace` is that of manifests that name none. `added` names the file of the nodes that come. `created` is in UTC,
    with time zone.
    """

    cluster: ChangedCluster
    policies: PolicySet
    created: datetime
    namespace: str = "default"
    added: str = ""
    has_matrix: bool = False


_AT_A_TIME = 200


def plan_of(
    request: PlanRequest,
    documents: Iterable[Document | DocumentError],
    owners: Owners,
    images: LookedUpImages | None = None,
) -> DriverPlan:
    """The plan for these objects, of which owners come before what they own.

    With `images` the images that are asked about are looked up in batches, before the objects are judged.
    """
    cluster, policies, now = request.cluster, request.policies, request.created.timestamp()
    if images is not None:
        cluster = replace(cluster, facts=cluster.facts.with_images(images))
        asking = WorkloadPlanner(policies, cluster, owners, request.namespace, now)
        documents = _looked_up(documents, asking, images)
    planner = WorkloadPlanner(policies, cluster, owners, request.namespace, now)
    for document in documents:
        planner.add(document)
    matrix = branch_matrix(cluster, planner.judged(), now) if request.has_matrix else None
    return DriverPlan(
        request.created,
        planner.workloads(),
        planned_pools(cluster, request.added, now),
        planner.unknown_images(),
        matrix,
        tuple(planner.errors),
    )


def _looked_up(
    documents: Iterable[Document | DocumentError], asking: WorkloadPlanner, images: LookedUpImages
) -> Iterator[Document | DocumentError]:
    """The documents, each after the images were looked up that judging it asks about."""
    documents = iter(documents)
    while batch := list(islice(documents, _AT_A_TIME)):
        for document in batch:
            asking.add(document)
        images.look_up()
        yield from batch
