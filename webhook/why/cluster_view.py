"""The cluster around the pods of an answer: nodes, what is free on them, quotas and who holds them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from time import monotonic
from typing import Any
from uuid import uuid4

from webhook import engine
from webhook.audit.owners import reference_of
from webhook.audit.quota_report import quotas_of_objects
from webhook.engine.quota_requests import entered, requests_of_pod
from webhook.engine.running_rules import facts_under
from webhook.facts.facts import ClusterFacts
from webhook.facts.snapshot import EMPTY, MAKING_KINDS
from webhook.kubernetes.discovery import NODES, PODS
from webhook.ledger.context import LedgerContext
from webhook.ledger.gpu_pods import COUNTING
from webhook.ledger.group_reader import FoundGroup, GroupSource, Members
from webhook.ledger.ledger_store import MemoryStore
from webhook.ledger.ledgers import Ledgers
from webhook.ledger.remainders import GroupRequest
from webhook.ledger.static_pods import StaticPods
from webhook.ledger.verdicts import QuotaRequest
from webhook.model.accelerators import BUILT_IN
from webhook.model.claims import CLAIM, GROUP, TEMPLATE
from webhook.model.json_parts import text
from webhook.model.pod_groups import NamedGroup
from webhook.model.pod_reader import pod_from_raw
from webhook.model.resource_slices import SLICE
from webhook.model.subject import subject_of
from webhook.model.workloads import controller_of
from webhook.outcome import Outcome
from webhook.policy.policy_set import Policy, PolicySet
from webhook.quota.quota_wording import is_unspecified
from webhook.quota.quotas import QuotaScope
from webhook.rules import priority_class
from webhook.why.held_back import gates_of
from webhook.why.observed import NodeState, NodeUsage, Raw, Surroundings, may_have_gpus, node_state
from webhook.why.reading import SECONDS, ClusterReader

_MOST_GETS = 20
"""Nodes that are read one by one; from then on all are listed."""


class ClusterView:
    """Reads each part of the cluster once, with the rights of whoever asks.

    `policy` is what holds for the object `about` at `now`, in seconds since 1970, with its exceptions.
    """

    def __init__(self, reader: ClusterReader, about: Raw, policies: PolicySet | None, now: float) -> None:
        self._reader = reader
        self._namespace = text(about, "metadata", "namespace")
        self.now = now
        self.policies = policies
        self.policy = None if policies is None else policy_for(about, self._namespace, policies, now)
        self.accelerators = BUILT_IN if policies is None else policies.accelerators
        self._states: dict[str, NodeState] = {}
        self._absent: set[str] = set()
        self._raws: list[Raw] = []
        self._snapshot = EMPTY.with_accelerators(self.accelerators)
        self._is_read = False

    def around(self, pods: Iterable[Raw]) -> Surroundings:
        pods = list(pods)
        policy = self.policy
        if self.policies is not None and pods:  # an exception may be about pods by their labels and images
            policy = policy_for(pods[0], self._namespace, self.policies, self.now)
        around = Surroundings(policy)
        if any(self.has_gpus(pod) for pod in pods if not text(pod, "spec", "nodeName") and not gates_of(pod)):
            around = self._around_waiting(around)
        bound = {name for pod in pods if (name := text(pod, "spec", "nodeName"))}
        states = self.states(bound)
        if around.usage is None and states and len(bound) <= _MOST_GETS:
            unknown = "whether the nodes still have GPUs for all pods on them"
            selectors = [f"{COUNTING},spec.nodeName={name}" for name in sorted(bound & states.keys())]
            around = replace(around, usage=self._usage(selectors, states, unknown))
        known = ClusterFacts(self._snapshot.with_nodes(self._raws))
        return replace(around, states=states, on_nodes=known if policy is None else facts_under(policy, known))

    def _around_waiting(self, around: Surroundings) -> Surroundings:
        self._read_facts()
        if not self._snapshot.nodes:
            return around
        facts = ClusterFacts(self._snapshot)
        with_gpus = {name for name, node in self._snapshot.nodes.items() if node.kind.gpu_resources}
        usage = self._usage([COUNTING], with_gpus, "how many GPUs are free on the nodes that fit, and who holds them")
        return replace(around, facts=facts if self.policy is None else facts_under(self.policy, facts), usage=usage)

    def _usage(self, selectors: Iterable[str], nodes: Iterable[str], unknown: str) -> NodeUsage | None:
        """What the selected pods request on these nodes; None if pods of other namespaces may not be read."""
        usage, nodes = NodeUsage(self.accelerators), set(nodes)
        for selector in selectors:
            for pod in self._reader.items(PODS, "", unknown, selector=selector):
                if text(pod, "spec", "nodeName") in nodes:
                    usage.add(pod)
        return None if self._reader.is_missing("list", "pods") else usage

    def has_gpus(self, raw: Raw) -> bool:
        with suppress(ValueError):
            return may_have_gpus(pod_from_raw(raw, self.accelerators, self._namespace), self.policy)
        return True

    def _read_facts(self) -> None:
        """Read nodes, and the classes and claims that say which nodes fit."""
        if self._is_read:
            return
        self._is_read = True
        snapshot = self._snapshot.with_nodes(self._all_nodes("whether a node fits, and how many GPUs are free"))
        classes = self._all("node.k8s.io", "RuntimeClass", "which nodes RuntimeClasses select")
        snapshot = snapshot.with_classes("runtime_classes", classes or ())
        snapshot = snapshot.with_classes(
            "device_classes", self._all(GROUP, "DeviceClass", "which DeviceClasses there are")
        )
        for part, (kind, path, *_) in MAKING_KINDS.items():
            snapshot = snapshot.with_classes(part, self._all(path.split("/")[2], kind) or ())
        for kind in (CLAIM, TEMPLATE):
            snapshot = snapshot.with_claims(kind, self._all(GROUP, kind) or ())
        self._snapshot = snapshot.with_slices(self._all(GROUP, SLICE))

    def _all(self, group: str, kind: str, unknown: str = "") -> list[dict[str, Any]] | None:
        """The objects of a kind in the whole cluster; None if not all of them are known."""
        resource = self._reader.find(group, kind)
        found = list(self._reader.items(resource, "", unknown))
        lacks = ("get", f"/apis/{group}") if resource is None else ("list", str(resource))
        return None if self._reader.is_missing(*lacks) else found

    def facts_of_reviews(self) -> tuple[ClusterFacts, bool]:
        """The facts for a review of the pods of a workload, and whether the rule `priorityClass` can be certain."""
        self._read_facts()
        if self.policy is None or all(one.rule is not priority_class.RULE for one in self.policy.rules):
            return ClusterFacts(self._snapshot), True
        classes = self._all("scheduling.k8s.io", "PriorityClass", "whether the rule priorityClass refuses its pods")
        return ClusterFacts(self._snapshot.with_classes("priority_classes", classes or ())), classes is not None

    def states(self, names: Iterable[str]) -> dict[str, NodeState] | None:
        """The states of all nodes if they were read, else of these; None if nodes may not be read.

        A node that does not exist has no state.
        """
        unknown = "whether its node is ready, and still has its GPUs"
        for name in names:
            if self._snapshot.nodes or self._may_read_no_node or name in self._states or name in self._absent:
                continue
            if len(self._states) + len(self._absent) == _MOST_GETS:
                list(self._all_nodes(unknown))
            if name not in self._states:
                found = self._reader.get(NODES, "", name, unknown)
                if found is None:
                    self._absent.add(name)
                else:
                    self._states[name] = node_state(found)
                    self._raws.append(found)
        return None if self._may_read_no_node and not self._snapshot.nodes else self._states

    def _all_nodes(self, unknown: str) -> Iterator[Raw]:
        """The nodes of the cluster, each after its state was taken."""
        for raw in self._reader.items(NODES, "", unknown):
            state = node_state(raw)
            self._states[state.name] = state
            yield raw

    @property
    def _may_read_no_node(self) -> bool:
        return self._reader.is_missing("get", "nodes")

    @cached_property
    def _stored(self) -> tuple[Ledgers, "_ReadGroups"] | None:
        """The pods that the quotas of the namespace count, and groups; None without quotas, or without rights."""
        quotas = () if self.policies is None else self.policies.quotas_for(self._namespace)
        if not quotas:
            return None
        self._read_facts()
        facts, claims = ClusterFacts(self._snapshot), self._all(GROUP, CLAIM) or ()
        place = "" if any(one.quota.scope is QuotaScope.SHARED for one in quotas) else self._namespace
        raws = self._reader.items(PODS, place, "how much of the GPU quotas is free", selector=COUNTING)
        pods = StaticPods(raws, lambda: self.now, accelerators=self.accelerators, claims=claims, known=facts)
        ledgers = Ledgers(LedgerContext(MemoryStore(), pods))
        for one in quotas:
            ledgers.of(one.quota.key).prepare(one.quota, monotonic() + SECONDS)  # pods are counted once
        is_missing = self._reader.is_missing("list", "pods", place)
        return None if is_missing else (ledgers, _ReadGroups(self._reader, pods.members))

    def refused(self, raw: Raw, group: FoundGroup | None = None) -> tuple[str, str]:
        """Why quotas would refuse a pod that is new, or loses its gates now, or the rest of the group of another one.

        Besides, how many pods of the group are there; both are empty if nothing lacks. `group` is the pod's, if it is
        known. Raises ValueError for a malformed pod.
        """
        if self.policies is None or self._stored is None:
            return "", ""
        (ledgers, groups), is_gated = self._stored, bool(gates_of(raw))
        held = self.policies.in_force(self._namespace, lambda: subject_of(raw), self.now)
        started: Raw = {**raw, "spec": {key: one for key, one in raw["spec"].items() if key != "schedulingGates"}}
        facts, is_stored = ClusterFacts(self._snapshot), bool(text(raw, "metadata", "uid"))
        if not is_stored:
            started = engine.mutate(started, held.policy, facts, namespace=self._namespace).object
        pod = pod_from_raw(started, self.accelerators, self._namespace)
        wanted = requests_of_pod(pod, self._namespace, held.quotas, facts_under(held.policy, facts), starts=is_gated)
        asked = [one for one in wanted.requests if not (is_gated and is_unspecified(one[1].demand, one[1].quota))]
        wanted = replace(wanted, requests=tuple(asked), findings=())  # a queue may select the model yet
        if group is None and wanted.made_alike is not None:
            group = groups.of(started, self._namespace, SECONDS)
        requests = wanted.together(group)
        lacking = next(filter(None, (_lacking(one.group) for one in requests)), "")
        if is_stored and not is_gated:
            if not lacking:
                return "", ""
            requests = [one if one.group is None else _of_next(one, one.group) for one in requests]
        verdicts = ledgers.reserve(uuid4().bytes, requests, monotonic() + SECONDS, is_dry_run=True)
        outcome, seen = Outcome(held.policy, started), ledgers.context.pods.seen
        return entered(outcome, self._namespace, wanted, lambda _: verdicts, seen).refusal, lacking

    def with_quotas(self, around: Surroundings) -> Surroundings:
        """The surroundings with the GPU quotas of the namespace, and who holds its GPUs."""
        resource = self._reader.find("gpupolicy.dev", "GPUQuota")
        quotas = quotas_of_objects(self._reader.items(resource, self._namespace, "how much of the GPU quota is used"))
        held = Counter[str]()
        for raw in self._reader.items(PODS, self._namespace, "who holds the GPUs of the namespace", selector=COUNTING):
            with suppress(ValueError):
                gpus = pod_from_raw(raw, self.accelerators, self._namespace).gpu_count
                owner = controller_of(raw)
                whose = reference_of(raw).title if owner is None else f"{text(owner, 'kind')} {text(owner, 'name')}"
                held[whose] += 0 if gates_of(raw) else gpus
        holders = sorted((+held).items(), key=lambda one: (-one[1], one[0]))
        return replace(around, quotas=tuple(quotas), holders=tuple(holders))


def policy_for(raw: Raw, namespace: str, policies: PolicySet, now: float) -> Policy:
    """What holds for an object, with the exceptions that are about it at `now`, in seconds since 1970."""
    return policies.in_force(namespace, lambda: subject_of(raw, text(raw, "kind")), now).policy


# Quotas


class _ReadGroups(GroupSource):
    """The groups that pods name, read with the rights of whoever asks."""

    def __init__(self, reader: ClusterReader, members: Members) -> None:
        super().__init__(members)
        self._reader = reader

    def _object(self, named: NamedGroup, namespace: str, until: float) -> Raw | None:  # noqa: ARG002  # as all reading
        resource = self._reader.find(named.kind.group, named.kind.kind)
        if resource is None or resource.version not in named.kind.versions:
            return None
        with suppress(ValueError):  # no name of an object
            return self._reader.get(resource, namespace, named.name, f"how many pods {named.called} needs")
        return None


def _lacking(group: GroupRequest | None) -> str:
    """How many pods of a group are there; empty if all are, or were once."""
    if group is None or group.has_begun:
        return ""
    there, needed = sum(min(len(one.present), one.size) for one in group.parts), sum(one.size for one in group.parts)
    return f"{there} of the {needed} pods of {group.name} are there" if there < needed else ""


def _of_next(request: QuotaRequest, group: GroupRequest) -> QuotaRequest:
    """The request of the next pod that a group lacks."""
    parts = sorted(group.parts, key=lambda one: len(one.present) >= one.size)
    return replace(request, demand=parts[0].demand, reserved=(), group=replace(group, parts=tuple(parts)))
