"""The command `gpu-policy plan`: what a driver upgrade breaks, and what it opens."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from webhook.commands.inputs import echo, fail, inventory_of, load_policies, manifests_of, on_progress
from webhook.commands.options import BY_SUFFIX, ImageResults, SourceOptions, option, takes

if TYPE_CHECKING:
    from webhook.audit.documents import Document, DocumentError
    from webhook.audit.object_sources import ObjectSource
    from webhook.facts.facts import ClusterFacts
    from webhook.policy.policy_set import PolicySet
    from webhook.upgrades.changed_cluster import ChangedCluster
    from webhook.upgrades.driver_plan import DriverPlan

PLAN_FORMATS = ("text", "json", "html", "markdown", "sarif")


class PlanOptions(SourceOptions, ImageResults):
    """Raises ValueError where options contradict each other."""

    format: str = option("Format of the plan.", None, otherwise=BY_SUFFIX, type=click.Choice([*PLAN_FORMATS, "yaml"]))
    set: tuple[str, ...] = option(
        "Nodes, and the driver that they will have, such as 'pool=a100=580.95.05' or 'pool in (a,b)=580'. SELECTOR is "
        "key=value or key in (a,b) of node labels, POOL a NodePool, or a node pool that a policy declares; repeatable.",
        metavar="SELECTOR|POOL=DRIVER",
    )
    retire: tuple[str, ...] = option("Nodes that will be gone; repeatable.", metavar="SELECTOR|POOL")
    add: Path | None = option(
        "File with nodes that will come, as `kubectl get nodes -o yaml` prints them.", metavar="FILE"
    )
    matrix: bool = option(
        "Also judge every driver branch on every kind of nodes, and name the newest that breaks nobody."
    )
    policies: Path | None = option(
        "Directory of policy files, for settings of cudaDriver, node pools, exceptions and rows of CUDA tables. "
        "Without it the defaults of cudaDriver apply everywhere."
    )
    strict: bool = option("The same as --fail-on unknown.")
    fail_on: str = option(
        "Exit with status 1 if a workload breaks; also if it may (unknown); also if it loses nodes (loses); or never.",
        "breaks",
        type=click.Choice(["breaks", "unknown", "loses", "never"]),
    )

    def __post_init__(self) -> None:
        if self.cluster == (self.inventory is not None):
            fail("name either --cluster or an --inventory")
        if (self.kubeconfig or self.context) and not self.cluster:
            fail("--kubeconfig and --context need --cluster")
        if self.strict and self.fail_on == "never":
            fail("--strict and --fail-on never contradict each other; leave one of them out")
        SourceOptions.__post_init__(self)


@click.command()
@takes(PlanOptions)
def plan(asked: PlanOptions) -> None:
    """Say what other drivers on nodes would break, and what they would open.

    Judges every workload with GPUs twice, on the nodes as they are and as they will be: by the templates of workloads,
    and by pods whose workload is not known. Manifests that are named are judged, too; they replace objects of the same
    name. A ClusterPolicy or NVIDIADriver of GPU Operator among them says what changes, as --set does.

    Exit status: 0 nothing breaks, 1 something does (or what --fail-on says), 2 some input cannot be used (2 takes
    precedence over 1).
    """
    from webhook.upgrades.driver_plan import WorkloadChange, rendered_plan

    found = _plan(asked)
    asked.write(partial(rendered_plan, found))
    for fault in found.errors:
        echo(str(fault), is_error=True)
    least = {"breaks": WorkloadChange.BREAKS, "unknown": WorkloadChange.UNKNOWN, "loses": WorkloadChange.LOSES_NODES}
    fail_on = "unknown" if asked.strict and asked.fail_on == "breaks" else asked.fail_on
    sys.exit(found.exit_status(least.get(fail_on)))


def _plan(asked: PlanOptions) -> "DriverPlan":
    from webhook.audit.documents import Document
    from webhook.facts.driver_objects import is_driver_object
    from webhook.upgrades.workload_planner import PlanRequest, plan_of, policies_without_files

    images = asked.images(asked.image_results)
    policies = policies_without_files() if asked.policies is None else load_policies(asked.policies)
    manifests = manifests_of(asked.paths, is_strict=False)
    drivers = [one for one in manifests if isinstance(one, Document) and is_driver_object(one.object)]
    if not (drivers or asked.set or asked.retire or asked.add or asked.matrix):
        unread = [str(one) for one in manifests if not isinstance(one, Document)]
        options = "say what changes: --set, --retire or --add; or ask for --matrix"
        fail("\n".join([*unread, f"{options}; or name a manifest of a ClusterPolicy or NVIDIADriver"]))
    source = (
        _of_cluster(asked, policies, manifests)
        if asked.inventory is None
        else _of_inventory(asked.inventory, policies, manifests, asked.default_namespace)
    )
    now = datetime.now(UTC) if source.now is None else datetime.fromtimestamp(source.now, UTC)
    cluster = _changed(source.background.facts, policies, asked, now, drivers)
    request = PlanRequest(cluster, policies, now, asked.default_namespace, str(asked.add or ""), asked.matrix)
    return plan_of(request, source.documents, source.owners, images)


def _of_inventory(
    path: Path, policies: "PolicySet", manifests: "list[Document | DocumentError]", namespace: str
) -> "ObjectSource":
    """The pods and all objects but nodes and classes of an inventory, and manifests; owners come first."""
    from webhook.audit.documents import Document
    from webhook.audit.object_sources import Background, of_files
    from webhook.model.workloads import is_pod

    objects: list[Document] = []

    def keep(kind: str, raw: Any) -> None:
        version = raw.get("apiVersion", "v1" if kind == "Pod" else "") if isinstance(raw, dict) else ""
        if version:
            objects.append(Document("", len(objects) + 1, 0, {**raw, "apiVersion": version, "kind": kind}))

    found = inventory_of(path, policies.accelerators, keep)
    everything = [*manifests, *_unreplaced(objects, manifests, namespace)]
    documents = sorted(everything, key=lambda one: isinstance(one, Document) and is_pod(one.api_version, one.kind))
    source = of_files(documents, namespace, Background(found.facts))
    kept = {id(one) for one in documents}
    for one in objects:
        if id(one) not in kept:
            source.owners.learn(one.object)  # its ReplicaSets and pods are still its own
    return source


def _of_cluster(
    asked: PlanOptions, policies: "PolicySet", manifests: "list[Document | DocumentError]"
) -> "ObjectSource":
    from webhook.audit.object_sources import of_cluster

    source = of_cluster(asked.server, asked.scope, on_progress, None, policies.accelerators)
    documents = chain(manifests, _unreplaced(source.documents, manifests, asked.default_namespace))
    return replace(source, documents=documents)


def _unreplaced(
    objects: "Iterable[Document | DocumentError]", manifests: "list[Document | DocumentError]", namespace: str
) -> "Iterator[Document | DocumentError]":
    """The objects that no manifest of the same kind, namespace and name replaces."""
    from webhook.audit.documents import Document

    replaced = {_identity(one, namespace) for one in manifests if isinstance(one, Document)}
    for one in objects:
        if not isinstance(one, Document) or _identity(one, namespace) not in replaced:
            yield one


def _identity(document: "Document", namespace: str) -> tuple[str, ...]:
    from webhook.audit.documents import own_namespace
    from webhook.model.json_parts import part

    name = part(document.object, "metadata", "name")
    where = own_namespace(document) or namespace
    return (document.api_version.rpartition("/")[0], document.kind, where, str(name or id(document)))


def _changed(
    facts: "ClusterFacts", policies: "PolicySet", asked: PlanOptions, now: datetime, drivers: "list[Document]"
) -> "ChangedCluster":
    """The cluster with what --set, --retire, --add and driver objects say; exits with status 2 and every mistake."""
    from webhook.facts.driver_objects import OF_SNAPSHOT, driver_object_from
    from webhook.upgrades.changed_cluster import ChangedCluster, declared_pools
    from webhook.upgrades.node_changes import KnownNodes, NodeChange, UnusableChangesError, changes_of, wanted_by

    faults: list[str] = []
    declared = declared_pools(policy.at(now.timestamp()) for policy in policies.policies)
    known = KnownNodes(
        facts.cluster.nodes, (*declared, *facts.cluster.made), policies.accelerators, policies.cuda.tables
    )
    changes: tuple[NodeChange, ...] = ()
    before = facts.cluster
    for document in drivers:
        facts = replace(facts, cluster=facts.cluster.with_class(OF_SNAPSHOT[document.kind], document.object))
    for document in drivers:
        try:
            one = driver_object_from(document.object)
            wanted = wanted_by(one, before.driver_object(document.object), facts, known)
        except ValueError as error:
            faults.append(str(document.error(str(error))))
            continue
        notes = wanted.notes or (() if wanted.changes or wanted.left_out else ("gives no node another driver",))
        for note in filter(None, (*notes, wanted.left_out)):
            said = str(document.error(f"{one.title}: {note}"))
            if not wanted.changes and (wanted.notes or (wanted.left_out and one.selector and not asked.set)):
                faults.append(said)
            else:
                echo(f"note: {said}", is_error=True)
        changes = tuple(dict.fromkeys((*changes, *wanted.changes)))
    try:
        changes += changes_of(asked.set, asked.retire, known)
        for note in filter(None, (change.note for change in changes)):
            echo(f"note: {note}", is_error=True)
    except UnusableChangesError as error:
        faults += error.messages
    added = asked.add
    coming = None if added is None else inventory_of(added, policies.accelerators).facts
    if coming is not None:
        if not coming.cluster.nodes:
            faults.append(f"--add {added}: has no node; name what `kubectl get nodes -o yaml` prints")
        for name in sorted(coming.cluster.nodes.keys() & facts.cluster.nodes.keys())[:3]:
            faults.append(f"--add {added}: the cluster has a node {name} already; give the new one another name")
    if faults:
        fail("\n".join(faults))
    return ChangedCluster(facts, changes, declared, coming, policies.cuda.tables, policies.accelerators)
