"""The objects of an audit, from files or from a cluster, with everything that is needed to review them.

Nodes, classes, resource claims and slices of a live cluster are read once, before its objects.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain
from typing import Any

from webhook.audit.cluster_objects import SECONDS, ClusterObjects, Listing, NamespaceScope, Progress
from webhook.audit.documents import Document, DocumentError
from webhook.audit.owners import Owners
from webhook.audit.review_objects import ReviewContext, scalers_in, with_input_claims
from webhook.facts.facts import ClusterFacts, ImageSource
from webhook.facts.snapshot import EMPTY, MAKING_KINDS
from webhook.kubernetes.api_errors import ApiServerError
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.discovery import NODES, Discovery
from webhook.kubernetes.paged_list import Gets, RetryingReader
from webhook.ledger.context import LedgerContext
from webhook.ledger.gpu_pods import COUNTING
from webhook.ledger.group_reader import GroupReader, GroupSource
from webhook.ledger.ledger_store import GpuPod, MemoryStore, Pods
from webhook.ledger.ledgers import Ledgers
from webhook.ledger.pod_source import PODS, PodLists, PodsAndClaims
from webhook.ledger.static_pods import StaticPods
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.claims import CLAIM, GROUP, TEMPLATE
from webhook.model.resource_slices import SLICE
from webhook.model.workloads import RUNTIMES, TRAINER, is_made_or_ending, is_pod, templates_of
from webhook.model.workloads.peaks import SCALERS, Scaler
from webhook.policy.policy_set import PolicySet


def read_facts(
    server: Gets,
    accelerators: Accelerators = BUILT_IN,
    on_node: Callable[[Mapping[str, Any]], object] = lambda _node: None,
) -> tuple[ClusterFacts, tuple[DocumentError, ...]]:
    """What rules may ask about the cluster, and errors for parts that could not be read.

    `on_node` is called with each node, for callers that look at more of nodes than rules may ask.
    """
    reader = RetryingReader(server)
    discovery = Discovery(reader)
    errors: list[DocumentError] = []
    ignored: list[DocumentError] = []

    def read(group: str, kind: str, faults: list[DocumentError]) -> Iterator[dict[str, Any]]:
        """The objects of a kind as they arrive; none if the cluster has no such kind, or does not say."""
        try:
            resource = NODES if kind == "Node" else discovery.find(group, kind)
        except ApiServerError as error:
            faults.append(DocumentError("", 0, None, str(error)))
            return
        for found in Listing(reader, resource, NamespaceScope()).read() if resource is not None else ():
            if isinstance(found, DocumentError):
                faults.append(found)
            else:
                yield found

    def all_of(kind: str, faults: list[DocumentError]) -> list[dict[str, Any]] | None:
        """The objects of a kind about devices; None if they cannot be listed."""
        own: list[DocumentError] = []
        found = list(read(GROUP, kind, own))
        faults += own
        return None if own else found

    snapshot = EMPTY.with_accelerators(accelerators).with_nodes(_watched(read("", "Node", errors), on_node))
    snapshot = snapshot.with_classes("runtime_classes", read("node.k8s.io", "RuntimeClass", errors))
    snapshot = snapshot.with_classes("priority_classes", read("scheduling.k8s.io", "PriorityClass", errors))
    snapshot = snapshot.with_classes("device_classes", all_of("DeviceClass", errors))
    for kind in (CLAIM, TEMPLATE):
        snapshot = snapshot.with_claims(kind, read(GROUP, kind, ignored))
    snapshot = snapshot.with_slices(all_of(SLICE, ignored))
    for part, (kind, path, *_) in MAKING_KINDS.items():
        snapshot = snapshot.with_classes(part, read(path.split("/")[2], kind, ignored))
    for kind in RUNTIMES:
        snapshot = snapshot.with_runtimes(read(TRAINER, kind, ignored))
    return ClusterFacts(snapshot), tuple(dict.fromkeys(errors))


def _watched(raws: Iterable[dict[str, Any]], look: Callable[[Mapping[str, Any]], object]) -> Iterator[dict[str, Any]]:
    for raw in raws:
        look(raw)
        yield raw


@dataclass(frozen=True, slots=True)
class Background:
    """What is known about the cluster that objects are in, or that files are meant for.

    `pods` count against quotas before the objects do. `counted` are the pods of an inventory, for the quotas of the
    report; None without an inventory.
    """

    facts: ClusterFacts = field(default_factory=ClusterFacts)
    pods: Pods = field(default_factory=StaticPods)
    counted: Iterable[GpuPod] | None = None
    groups: Callable[[Iterable[Mapping[str, Any]], str], GroupSource] | None = None
    """The groups among objects, whose namespace is given where they name none, and those of the cluster."""


@dataclass(frozen=True, slots=True)
class ObjectSource:
    """The objects, to be read once. `owners` knows the owners of an object before the object comes.

    The pods of a cluster count against their quotas already.
    """

    documents: Iterable[Document | DocumentError]
    owners: Owners
    background: Background = field(default_factory=Background)
    namespace: str = ""
    """The namespace of objects that name none."""
    is_cluster: bool = False
    scope: NamespaceScope = field(default_factory=NamespaceScope)
    """The namespaces of the cluster that are audited."""
    now: float | None = None
    """The API server's clock in seconds since 1970; None for objects of files."""
    scalers: Mapping[str, Sequence[Scaler]] = field(default_factory=dict)
    """Namespace -> what scales workloads there, where all objects are known before."""
    groups: GroupSource | None = None
    """The groups that pods start together with; None where it is not known which pods of a group are stored."""
    unsent: Callable[[], int] = lambda: 0
    """How many objects so far were left out of `documents` because the webhook is never asked about them."""

    def context(
        self, policies: PolicySet, directory: str, images: ImageSource | None = None, *, now: float | None = None
    ) -> ReviewContext:
        """These policies with ledgers of their own; `images` answers questions about images.

        `now` is the moment for which exceptions are judged, in seconds since 1970; by default it is now.
        """
        ledgers = Ledgers(LedgerContext(MemoryStore(), self.background.pods, groups=self.groups))
        moment = next((one for one in (now, self.now) if one is not None), time.time())
        facts = replace(self.background.facts.with_images(images), is_thorough=True)
        return ReviewContext(policies, facts, ledgers, moment, directory=directory, scalers=self.scalers)


def of_files(documents: Sequence[Document | DocumentError], namespace: str, background: Background) -> ObjectSource:
    """The objects of files; `namespace` is the namespace of objects that name none."""
    owners, facts = Owners(namespace), with_input_claims(background.facts, documents, namespace)
    for document in documents:
        if isinstance(document, Document):
            makes_pods = bool(templates_of(document.object)) or is_pod(document.api_version, document.kind)
            owners.learn(document.object, is_audited=makes_pods)
    scalers = scalers_in(documents, namespace)
    groups = background.groups
    if isinstance(background.pods, StaticPods):
        groups = partial(GroupSource, background.pods.members)
    raws = (document.object for document in documents if isinstance(document, Document))
    found = None if groups is None else groups(raws, namespace)
    background = replace(background, facts=facts)
    return ObjectSource(documents, owners, background, namespace, scalers=scalers, groups=found)


def of_cluster(  # noqa: PLR0913  # all that is known of the cluster
    server: ApiServer,
    scope: NamespaceScope,
    on_progress: Callable[[Progress], None],
    facts: ClusterFacts | None = None,
    accelerators: Accelerators = BUILT_IN,
    *,
    on_node: Callable[[Mapping[str, Any]], object] = lambda _node: None,
    reads_scalers: bool = False,
) -> ObjectSource:
    """The objects of a cluster. They are read while they are iterated; `on_progress` is called with the progress.

    `facts` are known facts about the cluster; without them its nodes and classes are read first, and `on_node` is
    called with each node. With `reads_scalers` the source knows what scales workloads.
    """
    errors: tuple[DocumentError, ...] = ()
    if facts is None:
        facts, errors = read_facts(server, accelerators, on_node)
    objects = ClusterObjects(server, scope, on_progress)
    found = list(objects.of_kinds(SCALERS if reads_scalers else ()))
    faults = [one for one in found if isinstance(one, DocumentError)]
    scaling = [one for one in found if isinstance(one, Document) and not is_made_or_ending(one.object)]  # by another
    return ObjectSource(
        chain(errors, faults, objects),
        objects.owners,
        Background(facts),
        is_cluster=True,
        scope=scope,
        now=server.now(),
        scalers=scalers_in(scaling, ""),
        unsent=lambda: objects.unsent,
    )


def read_background(
    server: ApiServer, accelerators: Accelerators = BUILT_IN
) -> tuple[Background, tuple[DocumentError, ...]]:
    """The cluster that files are meant for, and errors for parts that could not be read."""
    facts, errors = read_facts(server, accelerators)
    lists = PodLists(server, server.now)

    @cache
    def stored(namespace: str) -> StaticPods:
        raws = lists.objects(PODS, [namespace], SECONDS, COUNTING)
        return StaticPods(raws, server.now, accelerators=accelerators)

    groups = partial(GroupReader, server, lambda namespace, group: stored(namespace).members(namespace, group))
    pods = PodsAndClaims(server, accelerators=accelerators)
    return Background(facts, pods, groups=groups), errors
