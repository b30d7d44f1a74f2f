"""The facts that rules ask about the cluster, and their sources.

`ClusterFacts` answers from a snapshot of the cluster, the node pools of a policy, and image information. Node pools
are matched as nodes are, each pool as if it were one node. The nodes of a pool have no names yet, so a pod that is
bound to a node by name fits no pool.

A `FactsSource` gives the facts of this moment and says how far to trust them: a live cluster, or `StaticFacts`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Protocol

from webhook.facts.driver_objects import coming_nodes
from webhook.facts.made_pools import BY_NODE_POOLS, WHOLE_GPUS, known_pools
from webhook.facts.node_index import Mask, NodeTable, changing_nodes, pool_table
from webhook.facts.slice_index import SliceTable
from webhook.facts.snapshot import EMPTY, Snapshot
from webhook.gpus.gpu_names import AMD_PRODUCT, AUTOSCALED, INTEL_PRODUCT, NVIDIA_PRODUCT
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.claims import PodResourceClaim, Requests
from webhook.model.image import NOT_LOOKED_UP, ImageInfo
from webhook.model.node import ChangingNodes, NodeClass, NodePool, PriorityClass, RuntimeClass
from webhook.model.pod import Pod
from webhook.model.requirements import (
    demand_of,
    is_compared,
    is_extended,
    living_terms,
    may_get_new_node,
    selector_of,
)
from webhook.model.resource_slices import NVIDIA, DeviceClass
from webhook.model.selectors import Expression, Operator


class ImageSource(Protocol):
    """A source of image information."""

    def info(self, text: str, asker: str = "") -> ImageInfo:
        """What is known about an image at this moment; never waits. `asker` is who asks, such as a namespace."""
        ...


_NodesFor = Callable[[NodeTable, Pod, RuntimeClass | None], Mask]
_MOST_ASKED = 16
"""Answers about pods that are kept, as many as one review needs."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What a rule may ask about the cluster. Answers come from memory and never wait.

    Threads may ask at the same time. Once a snapshot was asked alike, an answer takes as long with 5,000 nodes as with
    10; the time grows with the number of node pools. Without `images` no registry is asked. `asker` is who asks about
    images, such as a namespace. `transient` are globs of the keys of taints that go away by themselves. `is_still`
    leaves out nodes that an autoscaler may make.
    """

    cluster: Snapshot = EMPTY
    images: ImageSource | None = None
    asker: str = ""
    pools: NodeTable | None = None
    transient: tuple[str, ...] = ()
    is_still: bool = False
    changing: tuple[NodePool, ...] = ()
    """The node pools that will get another driver."""
    is_thorough: bool = False
    """Whether rules also say what is for reports only, and not for the answer to `kubectl apply`."""
    _asked: dict[tuple[object, int], tuple[Pod, tuple[NodeClass, ...]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """The last answers about pods, by question and id of the pod: several rules ask the same of one pod."""

    @property
    def table(self) -> NodeTable:
        return self.cluster.table.without_taints(self.transient) if self.transient else self.cluster.table

    @classmethod
    def of(
        cls, *objects: Iterable[object], accelerators: Accelerators = BUILT_IN, **others: Iterable[object]
    ) -> "ClusterFacts":
        return cls(Snapshot.of(*objects, accelerators=accelerators, **others))

    def with_pools(self, pools: tuple[NodePool, ...], accelerators: Accelerators = BUILT_IN) -> "ClusterFacts":
        """These facts with node pools as further nodes, which count as 0 nodes each: these, and those of NodePools."""
        pools = known_pools(pools, self.cluster.made) if self.cluster.made else pools
        changing = tuple([pool for pool in pools if pool.next is not None])
        return replace(self, pools=pool_table(pools, accelerators) if pools else None, changing=changing)

    def with_images(self, images: ImageSource | None, asker: str = "") -> "ClusterFacts":
        return replace(self, images=images, asker=asker)

    def runtime_class(self, name: str) -> RuntimeClass | None:
        return self.cluster.runtime_classes.get(name)

    def runtime_class_names(self) -> Collection[str]:
        """Empty where RuntimeClasses are not known."""
        return self.cluster.runtime_classes.keys()

    def matching_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        """Classes of the nodes that the pod, as it is, could be scheduled to; empty if none is known.

        Taken into account: nodeName, nodeSelector, required node affinity (expressions and fields), taints against
        tolerations, and that the node has (or once had) capacity of every GPU resource the pod asks for. Transient
        taints (`node.kubernetes.io/*`), cordons and free capacity are not. What the RuntimeClass that the pod names
        adds to it (node selector and tolerations) counts as if it stood in the pod.
        """
        return self._classes(NodeTable.matching_nodes, pod)

    def changing_nodes(self, pod: Pod) -> Sequence[ChangingNodes]:
        """The matching nodes whose driver will change: pool by pool on a day to come, then object by object.

        They are the existing nodes with the labels of the pool, and the pool itself. Objects of GPU Operator mean
        existing nodes.
        """
        drivers = self.cluster.driver_objects
        if not self.changing and not drivers:
            return ()
        table, runtime_class = self.table, self.cluster.runtime_classes.get(pod.runtime_class or "")
        coming = coming_nodes(drivers, table, pod, runtime_class) if drivers else ()
        if self.pools is None:
            return tuple(coming)
        return (*changing_nodes(self.changing, self.pools, table, pod, runtime_class), *coming)

    def divides_gpus(self) -> bool:
        """Whether any known node or node pool may divide its GPUs: in the MIG strategy single, by time-slicing or MPS.

        Asked before anything else about shares, because most clusters have none.
        """
        return self.cluster.table.divides_gpus or (self.pools is not None and self.pools.divides_gpus)

    def selected_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        """Classes of the nodes that match the pod if their taints are left out: tolerations may come later."""
        return self._classes(NodeTable.selected_nodes, pod)

    def node_class(self, name: str) -> NodeClass | None:
        node = self.cluster.nodes.get(name)
        return None if node is None else node.kind

    def feasible_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        """Classes of the matching nodes with room for everything that the pod requests, if no other pod ran there.

        The amounts of `webhook.model.requirements.demand_of(pod)` are compared: GPUs and other extended resources with
        what a node has (or once had, while its device plugin is away), cpu and memory with what pods may use. An
        unknown amount, as in a node pool, is enough.
        """
        return self._classes(NodeTable.feasible_nodes, pod)

    def label_to_come(self, pod: Pod) -> str:
        """A label that the pod requires and nodes get once they exist, so that Karpenter makes none for it."""
        known = {one.key for template in self.cluster.node_pools.values() for one in template.stated}
        required = (one.key for one in _required_of(pod) if one.key.startswith(_LATER) and not one.accepts(None))
        return next((key for key in required if key not in known), "")

    def knows_nodes(self) -> bool:
        """Whether any node is known; pools alone do not count."""
        return bool(self.cluster.nodes)

    def gpu_resources(self) -> frozenset[str]:
        of_nodes = self.cluster.table.gpu_resources
        return of_nodes if self.pools is None else of_nodes | self.pools.gpu_resources

    def largest(self, resource: str, pod: Pod | None = None) -> int | None:
        """The largest amount of a resource on one node: among the matching nodes of the pod, or among all nodes.

        cpu is in millicores, memory in bytes. 0 if no node has the resource, None if a node has an unknown amount.
        """
        runtime_class = self.cluster.runtime_classes.get(pod.runtime_class or "") if pod is not None else None
        amounts: set[int | None] = {0}
        for table in filter(None, (self.table, self.pools)):
            among = table.everything if pod is None else table.matching_nodes(pod, runtime_class)
            if among and not is_compared(resource):
                return None
            amounts |= {amount for (amount,) in table.amounts_in(among, (resource,))}
        return None if None in amounts else max(filter(None, amounts), default=0)

    def resources(self) -> frozenset[str]:
        """The names of the resources that some node lists; pools are left out."""
        return self.cluster.table.resources

    def amounts_on(self, pod: Pod, resources: tuple[str, ...]) -> Collection[tuple[int | None, ...]]:
        """What the feasible nodes of a pod have of these resources, each combination once; pools are left out.

        Units are as in `largest`; None stands for an unknown amount. Devices but GPUs that are away do not count.
        """
        runtime_class = self.cluster.runtime_classes.get(pod.runtime_class or "")
        return self.table.amounts_in(self.table.feasible_nodes(pod, runtime_class), resources, now=True)

    def most_pods(self, pod: Pod) -> int | None:
        """How many such pods the feasible nodes hold by their GPUs, if nothing else ran there.

        None where nodes are made on demand or unknown, and where GPUs are claimed.
        """
        classes, gpus = self.feasible_nodes(pod), tuple(pod.gpus)
        if not classes or not gpus or pod.resource_claims or any(not one.count for one in classes):
            return None
        runtime_class = self.cluster.runtime_classes.get(pod.runtime_class or "")
        return self.table.rooms(self.table.feasible_nodes(pod, runtime_class), pod.gpus)

    def label_values(self, key: str) -> Sequence[str]:
        of_pools = () if self.pools is None else self.pools.label_values(key)
        return sorted({*self.cluster.table.label_values(key), *of_pools})

    def priority_classes(self) -> Mapping[str, PriorityClass]:
        """The PriorityClasses by name; empty where they are not known."""
        return self.cluster.priority_classes

    def claim(self, named: PodResourceClaim, namespace: str) -> Requests | None:
        """What a resource claim requests which a pod of the namespace names; None where the claim is not known.

        Replicas hear of claims at different moments: one that is not known may exist. So an injection that follows from
        claims is never missed, and only what a known claim says refuses a pod.
        """
        table = self.cluster.claims.get(named.kind)
        return None if table is None else table.get(namespace, named.target)

    def claim_names(self, kind: str, namespace: str) -> Sequence[str] | None:
        """The names of the ResourceClaims, or ResourceClaimTemplates, of a namespace, sorted; None if there may be
        others.
        """
        table = self.cluster.claims.get(kind)
        return None if table is None else table.names(namespace)

    def extended_resource(self, device_class: str) -> str:
        """The extended resource that a DeviceClass gives; empty if it gives none, or is not known."""
        found = (self.cluster.device_classes or {}).get(device_class)
        return "" if found is None else found.extended

    def device_classes(self) -> Sequence[str] | None:
        """The names of the DeviceClasses, sorted; None where there may be others."""
        return sorted(self.cluster.device_classes) if self.cluster.device_classes else None

    def _counted_slices(self, device_class: str) -> tuple[DeviceClass, SliceTable] | None:
        """A DeviceClass and the slices of all nodes; None where another node may offer devices of the class."""
        found, slices = (self.cluster.device_classes or {}).get(device_class), self.cluster.slices
        has_pools = self.pools is not None and bool(self.pools.gpu_resources)
        return None if found is None or not found.driver or slices is None or has_pools else (found, slices)

    def most_devices(self, device_class: str) -> int | None:
        """The largest number of devices of a DeviceClass that one node offers, or once offered; None if unknown.

        Selectors that nobody reads are left out, so a node may have fewer, and never more. At 0, nodes may come.
        """
        known = self._counted_slices(device_class)
        return None if known is None else known[1].most(known[0].driver, known[0].type)

    def part_of_device(self, device_class: str, memory: int) -> Fraction:
        """The largest part of a device of a DeviceClass that so many bytes of its memory are; 1 where nobody knows."""
        known = self._counted_slices(device_class)
        return Fraction(1) if known is None else known[1].part(known[0].driver, known[0].type, memory)

    def untainted_devices(self, device_class: str, tolerated: Collection[str]) -> tuple[int, Set[str]] | None:
        """The most devices of one node now, without devices with taints beyond `tolerated`; and all such taints.

        Taints are keys; an empty key tolerates all. None where the number is unknown, or no node offers any.
        """
        known = self._counted_slices(device_class)
        if known is None or not known[1].most(known[0].driver, known[0].type):
            return None
        return known[1].untainted(known[0].driver, known[0].type, tolerated)

    def gpus_given(self, device_class: str, pod: Pod) -> Sequence[Mapping[str, str]]:
        """All GPUs that a DeviceClass can give a pod, each as labels of a node with it; empty where that is unknown."""
        found = (self.cluster.device_classes or {}).get(device_class, DeviceClass())
        slices, nodes, products = self.cluster.slices, self.matching_nodes(pod), frozenset({found.product})
        if not found.product:
            if slices is None or not slices.most(found.driver, found.type):
                return ()
            products = slices.products(found.driver, found.type)
            here = {"" if one.by_slices is None else one.by_slices.product for one in nodes if not one.by_claim}
            if here and "" not in here and found.is_for_nvidia_containers:  # all of them offer what they say
                products &= here
        by_name = [{NVIDIA_PRODUCT: "-".join(product.split())} for product in sorted(products)]
        return by_name if found.product else [*by_name, *[one.labels for one in nodes if one.may_offer]]

    def nodes_offering(self, device_class: str, pod: Pod) -> Sequence[NodeClass]:
        """Classes of the matching nodes, and of pools, with NVIDIA GPUs for containers by ResourceSlices.

        Empty unless it is certain that the DeviceClass is for such GPUs, and that no other node offers any.
        """
        found, slices = (self.cluster.device_classes or {}).get(device_class), self.cluster.slices
        if found is None or not found.is_for_nvidia_containers or slices is None or not slices.is_local(NVIDIA):
            return ()
        among = self.matching_nodes(pod)
        return tuple(one for one in among if one.by_slices is not None or (not one.count and one.gpu_resources))

    def image(self, reference: str) -> ImageInfo:
        """What is known about an image, by its reference in a container; asking may have its registry asked."""
        return NOT_LOOKED_UP if self.images is None else self.images.info(reference, self.asker)

    def _classes(self, nodes_for: _NodesFor, pod: Pod) -> tuple[NodeClass, ...]:
        question = nodes_for, id(pod)
        known = self._asked.get(question)
        if known is None:
            if len(self._asked) >= _MOST_ASKED:
                self._asked.clear()
            known = self._asked[question] = pod, self._found(nodes_for, pod)
        return known[1]

    def _found(self, nodes_for: _NodesFor, pod: Pod) -> tuple[NodeClass, ...]:
        table = self.table if self.transient else self.cluster.table
        runtime_class = self.cluster.runtime_classes.get(pod.runtime_class) if pod.runtime_class else None
        found = table.classes(nodes_for(table, pod, runtime_class))
        may_claim = self.cluster.device_classes is None or self.cluster.device_classes
        if may_claim and (claimable := self._claimable_devices(pod)):
            found = (*found, NodeClass({}, (), claimable, count=0, by_claim=True))
        if self.pools is not None:
            found = (*found, *self.pools.classes(nodes_for(self.pools, pod, runtime_class)))
        may_come = table.makers or table.is_of_gke
        if not self.is_still and may_come and may_get_new_node(pod) and (maker := self._other_maker(table, pod)):
            resources = frozenset([gpu.resource for gpu in pod.accelerators])
            found = (*found, NodeClass(_gpu_names(pod, found), (), resources, count=0, made_by=maker))
        return found

    def _other_maker(self, table: NodeTable, pod: Pod) -> str:
        """An autoscaler that may make nodes of which no NodePool tells; empty for none.

        NodePools tell of whole GPUs, and not how device plugins divide them. Which priority of a ComputeClass applies,
        and which taints its nodes get, is GKE's to say.
        """
        wanted = {*pod.node_selector, *(one.key for term in living_terms(pod) for one in term.expressions)}
        if table.is_of_gke and _COMPUTE_CLASS in wanted:
            return "GKE"
        resources = (gpu.resource for gpu in pod.accelerators)
        are_known = self.pools is not None or not self.cluster.made
        are_told = bool(self.cluster.node_pools) and are_known and WHOLE_GPUS.issuperset(resources)
        return next((one for one in table.makers if not (are_told and one in BY_NODE_POOLS)), "")

    def _claimable_devices(self, pod: Pod) -> frozenset[str]:
        """The extended resources in the pod's requests that belong to a DeviceClass, or may; most pods have none.

        The scheduler claims such devices on nodes that do not list them. It never sees a pod that names its node.
        """
        classes = self.cluster.device_classes
        if pod.node_name:
            return frozenset()
        requested = frozenset(filter(is_extended, demand_of(pod)))
        if classes is None or not requested:
            return requested
        return requested.intersection(one.extended for one in classes.values())


_NAMES = frozenset((NVIDIA_PRODUCT, AMD_PRODUCT, INTEL_PRODUCT, *AUTOSCALED))
"""Labels whose values are always the model of the GPU. What people write into labels of their own may mean more."""


_COMPUTE_CLASS = "cloud.google.com/compute-class"
"""The label by which pods ask GKE for nodes of a ComputeClass.

Source: https://docs.cloud.google.com/kubernetes-engine/docs/concepts/about-custom-compute-classes
"""

_LATER = ("nvidia.com/", "amd.com/", "gpu.intel.com/", "feature.node.kubernetes.io/")
"""Prefixes of labels that software gives nodes once they exist."""


def _required_of(pod: Pod) -> list[Expression]:
    """What every node of a pod has to meet, whichever of its terms it meets."""
    of_terms = [set(term.expressions) for term in living_terms(pod)]
    return [*selector_of(pod), *(sorted(set.intersection(*of_terms)) if of_terms else ())]


def _gpu_names(pod: Pod, classes: Sequence[NodeClass]) -> dict[str, str]:
    """The labels that name the GPU of a node made for this pod: by its selection, and what all such nodes have."""
    names = {
        one.key: one.values[0]
        for one in _required_of(pod)
        if one.key in _NAMES and one.operator == Operator.IN and len(one.values) == 1
    }
    existing = [one.labels for one in classes if one.count] if names else []
    shared = set.intersection(*(set(labels.items()) for labels in existing)) if existing else ()
    return names | {key: value for key, value in shared if key in _NAMES}


@dataclass(frozen=True, slots=True)
class FactsStatus:
    """How far the facts can be trusted at one moment.

    `loaded`: every list has been read once. `stale`: a watch has failed for longer than the bound although the API
    server answers, so the fault is on this side. `age_seconds`: the time since the oldest part of the facts was
    confirmed; a healthy watch confirms its part at least every two minutes. `server_reachable`: the API server answers
    HTTP, with whatever status. `detail` is for people.
    """

    loaded: bool
    stale: bool
    age_seconds: float
    server_reachable: bool
    detail: str

    @property
    def ready(self) -> bool:
        """Whether reviews may be answered. They are, on the last known facts, while the API server does not answer."""
        return self.loaded and not self.stale


class FactsSource(Protocol):
    """Facts that may change. Call `start` once, after the process has forked; `close` ends the threads."""

    @property
    def facts(self) -> ClusterFacts | None: ...

    def status(self, now: float) -> FactsStatus:
        """How far the facts can be trusted at `now`, in seconds of time.monotonic()."""
        ...

    def now(self) -> float:
        """The time in seconds since 1970, by the clock of the cluster."""
        ...

    def start(self) -> None: ...

    def close(self) -> None:
        """Stop following, within 2 seconds; the facts stay."""
        ...
