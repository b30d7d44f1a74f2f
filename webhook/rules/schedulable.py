"""A GPU pod that no node could ever run is reported with the reason, instead of staying Pending for ever.

What the pod wants is compared with the labels, taints and allocatable resources of all nodes, of `nodePools`, and of
what NodePools of Karpenter may make ([node pools](#nodepools-of-karpenter)), as if they were empty; cordons and taints
of nodes that start, are not ready or will be removed do not matter. Where an autoscaler makes nodes of new kinds of
which no NodePool tells (GKE Autopilot, auto-provisioning and ComputeClasses, Cast AI, and Karpenter if its NodePools
are not known), and where nodes start, there is one sentence of advice instead.

There is a warning if a rolling update of a workload could not end because it needs more pods (maxSurge) than the nodes
of today hold, and if its autoscaler may want more (maxReplicas). [dra.md](dra.md) says which claims, and device classes
in resources, are impossible.

These warn in every mode: a claim or template that does not exist yet, if others do; a claim that cannot be allocated
now; a RuntimeClass or PriorityClass that the cluster does not have, if it has others; a RuntimeClass whose handler some
nodes lack.

Nothing is said where no node and no pool is known, of pods in a queue or behind a scheduling gate, and of a resource
that a DeviceClass gives (`extendedResourceName`), unless ResourceSlices show that no node offers so much.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import cache, partial
from itertools import islice

from webhook.gpus.gpu_names import AUTOSCALED
from webhook.model.claims import ClaimObject, claims_of
from webhook.model.node import NodeClass, NodeClassState, makers_of
from webhook.model.pod import Pod
from webhook.model.requirements import placed, requiring
from webhook.model.selectors import Expression, Operator
from webhook.model.wording import asked, counted, cut, few, one_slip_away
from webhook.model.workloads.template import FILL_IN, is_placeholder
from webhook.rules.pending.impossible_claims import beyond_classes, impossible_claims, unknown_classes
from webhook.rules.pending.wants import TELL
from webhook.rules.pending.why_pending import why_pending
from webhook.rules.rule import Advice, Example, Facts, Rule, Violation, training_pod
from webhook.rules.rule_settings import Mode, TableSettings
from webhook.rules.runtime_class import lacking_handler

_MOST_REASONS, _MOST_CLAIMS = 8, 3
"""Most reasons, and most missing claims, that are reported for one pod."""


class Settings(TableSettings):
    """Settings of `schedulable`. Pools that scale from zero are declared in the policy's `nodePools`."""


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation | Advice]:
    """Tell why no node could ever run a GPU pod. Yields no violation if no node is known."""
    if pod.gpus or pod.resource_claims:
        yield from _missing_names(pod, facts)
    if (pod.resource_claims or pod.requests_classes) and not pod.node_name and not pod.is_held:
        yield from islice(impossible_claims(pod, facts), _MOST_REASONS)
    if not pod.gpus or pod.node_name or pod.is_held:
        return
    feasible = facts.feasible_nodes(pod)
    if len(feasible) == 1 and feasible[0].by_claim:
        yield from beyond_classes(pod, facts)
    if feasible or not facts.knows_nodes():
        yield from _on_nodes(pod, settings, feasible, facts)
        yield from _nowhere_beside(pod, facts) if feasible and pod.stands_within else ()
        return
    if pod.owner_kind != "DaemonSet":
        yield from islice(why_pending(pod, facts, settings.gpu_table), _MOST_REASONS)


def validate_claim(claim: ClaimObject, settings: Settings, facts: Facts) -> Iterator[Advice]:
    """Tell of device classes that the cluster does not have, when a claim or template is applied."""
    yield from islice(unknown_classes(claim, facts), _MOST_REASONS)


def _on_nodes(pod: Pod, settings: Settings, feasible: Sequence[NodeClass], facts: Facts) -> Iterator[Advice]:
    """That some nodes cannot start the pod, or that none takes it now, where nodes that start will, or others may."""
    if not feasible or any(map(_is_serving, feasible)):
        runtime_class = facts.runtime_class(pod.runtime_class) if pod.runtime_class else None
        serving = [*filter(_is_serving, feasible)] if runtime_class is not None else []
        if runtime_class is not None and (lacking := lacking_handler(runtime_class, serving)):
            found = f"names RuntimeClass {cut(runtime_class.name)}, and {lacking}"
            yield Advice("spec.runtimeClassName", found, f"Select nodes that have it, or {TELL}", follows_nodes=True)
        return
    starting = [one for one in feasible if one.state is NodeClassState.STARTING]
    if starting:
        taint, nodes = starting[0].transient_taint, counted(sum(one.count for one in starting), "node")
        are = "starts or is" if nodes == "1 node" else "start or are"
        found = f"waits for {nodes} that {are} maintained (taint {cut(taint)})"
        yield Advice("spec", found, "Wait; the taint goes away by itself", follows_nodes=True)
    elif maker := makers_of(feasible):
        asks = few([asked(name, count) for name, count in pod.gpus.items()])
        found, remedy = f"no node of today fits it ({asks})", f"If none comes, see which nodes {maker} may make"
        if all(one.pool for one in feasible) and (key := facts.label_to_come(pod)):
            names = {f"{name}={one.labels[name]}" for one in feasible for name in AUTOSCALED if name in one.labels}
            found += f", and {maker} makes none for {cut(key)}, a label that nodes get once they exist"
            remedy = f"Select {few(sorted(names)) if names else 'a label that autoscalers know'} instead"
        elif any(one.pool and settings.catalogue.models_at(one.labels) for one in feasible):
            return  # its node comes, as on each cluster that scales from zero
        else:
            found += f"; one that {maker} makes may"
        yield Advice("spec", found, remedy, follows_nodes=True)


def _is_serving(nodes: NodeClass) -> bool:
    return nodes.by_claim or nodes.state is NodeClassState.SERVING


def _missing_names(pod: Pod, facts: Facts) -> Iterator[Advice]:
    """Classes and claims that the pod names and the cluster does not have."""
    if pod.runtime_class and facts.runtime_class(pod.runtime_class) is None:
        yield from _missing("RuntimeClass", pod.runtime_class, facts.runtime_class_names())
    if pod.priority_class and not pod.priority_class.startswith("system-"):  # every cluster has these
        yield from _missing("PriorityClass", pod.priority_class, facts.priority_classes())
    if pod.resource_claims:
        yield from islice(_missing_claims(pod, facts), _MOST_CLAIMS)


def _missing(kind: str, name: str, known: Collection[str]) -> Iterator[Advice]:
    """That the cluster does not have the class of this name, while it has others."""
    if not known or name in known:
        return
    found = f"names {kind} {cut(name)}, which the cluster does not have; until it does, the API server rejects the pod"
    where = f"spec.{kind[0].lower()}{kind[1:]}Name"
    yield Advice(where, found, _correct(name, sorted(known)))


def _correct(name: str, known: Sequence[str]) -> str:
    """What to do about a name that is not among the `known` names."""
    if is_placeholder(name):
        return FILL_IN[1]
    meant = one_slip_away(name, known)
    return f"Did you mean {cut(meant)}? Correct the name" if meant else "Create it, or correct the name"


def _nowhere_beside(pod: Pod, facts: Facts) -> Iterator[Advice]:
    """Labels by which the pod has to stand beside others, and which no node has that it could get."""
    for key in pod.stands_within[:_MOST_REASONS]:
        has_key = Expression(key, Operator.EXISTS, ())
        if not facts.feasible_nodes(placed(pod, requiring(pod, has_key))):
            found = f"has to stand beside other pods within {cut(key)}, and no node that could run it has this label"
            remedy = "Write a topologyKey that these nodes have, such as kubernetes.io/hostname"
            remedy = FILL_IN[1] if is_placeholder(key) else remedy
            yield Advice("spec.affinity.podAffinity", found, remedy, follows_nodes=True)


def _missing_claims(pod: Pod, facts: Facts) -> Iterator[Advice]:
    """Claims and templates that the pod names and its namespace does not have; they may be created a moment later."""
    names_of = cache(partial(facts.claim_names, namespace=pod.namespace))
    for named in claims_of(pod.resource_claims):
        if not named.kind or facts.claim(named, pod.namespace) is not None:
            continue
        names = names_of(named.kind)
        if names is None:
            continue
        place = f"namespace {cut(pod.namespace)}" if pod.namespace else "its namespace"
        yield Advice(
            f"spec.resourceClaims[{cut(named.name)}]",
            f"names {named.kind} {cut(named.target)}, which {place} does not have; the pod waits until it does",
            _correct(named.target, names),
        )


RULE = Rule(
    key="schedulable",
    promise="A pod that no node could ever run is reported when it is created.",
    problem="Such a pod stays Pending, and the one event that says why is read hours later.",
    example=Example(
        mode=Mode.WARN,
        manifest=training_pod(
            "nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM-80GB}", resources="{limits: {nvidia.com/gpu: 16}}"
        ),
    ),
    settings=Settings,
    validate=validate,
    validate_claim=validate_claim,
    softens_on_update=True,
)
