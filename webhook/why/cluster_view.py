"""The cluster around the pods of an answer: nodes, what is free on them, quotas and who holds them."""

import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from webhook.audit.object_sources import read_facts
from webhook.audit.owners import reference_of
from webhook.audit.quota_report import quotas_of_objects
from webhook.engine.running_rules import facts_under
from webhook.facts.facts import ClusterFacts
from webhook.facts.gpu_pods import COUNTING
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.discovery import PODS, ApiResource
from webhook.model.accelerators import BUILT_IN
from webhook.model.pod_reader import pod_from_raw
from webhook.model.subject import subject_of
from webhook.model.workloads import controller_of
from webhook.policy.policy_set import Policy, PolicySet
from webhook.rules import priority_class
from webhook.why.explanation import MissingAnswer
from webhook.why.held_back import gates_of
from webhook.why.node_usage import NodeState, NodeUsage, node_state
from webhook.why.observed import Raw, Surroundings, may_have_gpus, text
from webhook.why.reading import ClusterReader

_NODES = ApiResource("", "v1", "Node", "nodes", is_namespaced=False)
_MOST_GETS = 20
"""Nodes that are read one by one; from then on all are listed."""
_MOST_HOLDERS = 1_000
"""Owners whose GPUs are added up."""


class ClusterView:
    """Reads each part of the cluster once, with the rights of whoever asks.

    `policy` is what holds for the object `about`, with its exceptions at this moment by the API server's clock.
    """

    def __init__(self, server: ApiServer, reader: ClusterReader, about: Raw, policies: PolicySet | None) -> None:
        self._server = server
        self._reader = reader
        self._namespace = text(about, "metadata", "namespace")
        self.now = server.now()
        self.policies = policies
        self.policy = None if policies is None else policy_for(about, self._namespace, policies, self.now)
        self.accelerators = BUILT_IN if policies is None else policies.accelerators
        self._states: dict[str, NodeState] = {}
        self._absent: set[str] = set()
        self._facts: ClusterFacts | None = None
        self._classes = ClusterFacts()
        self._is_read = False
        self._is_reviewed = False
        self._faults: tuple[MissingAnswer, ...] = ()

    def around(self, pods: Iterable[Raw]) -> Surroundings:
        """What is known around these pods, as far as it matters to them."""
        pods = list(pods)
        waiting = [pod for pod in pods if not text(pod, "spec", "nodeName") and not gates_of(pod)]
        policies, policy = self.policies, self.policy
        if policies is not None and pods:  # an exception may be about pods by their labels and images
            policy = policy_for(pods[0], self._namespace, policies, self.now)
        around = Surroundings(policy)
        if any(map(self.has_gpus, waiting)):
            facts = self.facts()
            around = replace(around, facts=facts, usage=None if facts is None else self._usage())
        bound = {name for pod in pods if (name := text(pod, "spec", "nodeName"))}
        states = self.states(bound)
        if around.usage is None and states and len(bound) <= _MOST_GETS:
            around = replace(around, usage=self._usage_on(sorted(bound & states.keys())))
        return replace(around, states=states)

    def _usage_on(self, names: Iterable[str]) -> NodeUsage | None:
        """What the pods on these nodes request; None if pods of other namespaces may not be read."""
        usage = NodeUsage(self.accelerators)
        for name in names:
            unknown = "whether the nodes still have GPUs for all pods on them"
            for pod in self._reader.items(PODS, "", unknown, selector=f"{COUNTING},spec.nodeName={name}"):
                usage.add(pod)
            if self._reader.is_missing("list", "pods"):
                return None
        return usage

    def has_gpus(self, raw: Raw) -> bool:
        """Whether a pod may request GPUs, as far as it can be read."""
        with suppress(ValueError):
            return may_have_gpus(pod_from_raw(raw, self.accelerators, self._namespace), self.policy)
        return True

    def facts(self) -> ClusterFacts | None:
        """The facts about the cluster under the policy; None if nodes may not be read."""
        if not self._is_read:
            self._is_read = True
            states: dict[str, NodeState] = {}

            def look(raw: Raw) -> None:
                state = node_state(raw)
                states[state.name] = state

            facts, errors = read_facts(self._server, self.accelerators, look)
            self._faults = tuple(missing_of(error.message) for error in errors)
            self._classes = facts
            if states:
                self._states = states
                self._facts = facts if self.policy is None else facts_under(self.policy, facts)
        return self._facts

    def facts_of_reviews(self) -> ClusterFacts:
        """The facts for a review of the pods of a workload: also what is known where nodes may not be read."""
        found = self.facts()
        self._is_reviewed = True
        return self._classes if found is None else found

    @property
    def faults(self) -> tuple[MissingAnswer, ...]:
        """What could not be read of nodes and classes, as far as the answer depends on it."""
        counts = self._is_reviewed and self._judges_priorities
        return tuple(one for one in self._faults if counts or one.resource != _PRIORITIES)

    def is_certain(self, rule: str) -> bool:
        """Whether a refusal by a rule is certain, although some classes may not be read."""
        return rule != priority_class.RULE.key or all(one.resource != _PRIORITIES for one in self._faults)

    @property
    def _judges_priorities(self) -> bool:
        return self.policy is not None and any(one.rule is priority_class.RULE for one in self.policy.rules)

    def states(self, names: Iterable[str]) -> dict[str, NodeState] | None:
        """The states of all nodes if they were read, else of these; None if nodes may not be read.

        A node that does not exist has no state.
        """
        if self._facts is not None:
            return self._states
        unknown = "whether its node is ready, and still has its GPUs"
        for name in names:
            if name in self._states or name in self._absent or self._may_read_no_node:
                continue
            if len(self._states) + len(self._absent) == _MOST_GETS:
                self._states |= {one.name: one for one in map(node_state, self._reader.items(_NODES, "", unknown))}
            if name in self._states:
                continue
            found = self._reader.get(_NODES, "", name, unknown)
            if found is None:
                self._absent.add(name)
            else:
                self._states[name] = node_state(found)
        return None if self._may_read_no_node else self._states

    @property
    def _may_read_no_node(self) -> bool:
        return self._reader.is_missing("get", "nodes")

    def _usage(self) -> NodeUsage | None:
        """What the pods on all nodes request; None if pods of other namespaces may not be read."""
        usage = NodeUsage(self.accelerators)
        unknown = "how many GPUs are free on the nodes that fit, and who holds them"
        nodes = {} if self._facts is None else self._facts.cluster.nodes
        for pod in self._reader.items(PODS, "", unknown, selector=COUNTING):
            node = nodes.get(text(pod, "spec", "nodeName"))
            if node is not None and node.kind.gpu_resources:
                usage.add(pod)
        return None if self._reader.is_missing("list", "pods") else usage

    def with_quotas(self, around: Surroundings) -> Surroundings:
        """The surroundings with the GPU quotas of the namespace, and who holds its GPUs."""
        resource = self._reader.find("gpupolicy.dev", "GPUQuota")
        quotas = []
        if resource is not None:
            unknown = "how much of the GPU quota is used"
            quotas = quotas_of_objects(self._reader.items(resource, self._namespace, unknown))
        held = Counter[str]()
        for raw in self._reader.items(PODS, self._namespace, "who holds the GPUs of the namespace", selector=COUNTING):
            with suppress(ValueError):
                gpus = pod_from_raw(raw, self.accelerators, self._namespace).gpu_count
                if gpus and (len(held) < _MOST_HOLDERS or _owner(raw) in held):
                    held[_owner(raw)] += gpus
        holders = sorted(held.items(), key=lambda one: (-one[1], one[0]))
        return replace(around, quotas=tuple(quotas), holders=tuple(holders))


def policy_for(raw: Raw, namespace: str, policies: PolicySet, now: float) -> Policy:
    """What holds for an object, with the exceptions that are about it at `now`, in seconds since 1970."""
    return policies.in_force(namespace, lambda: subject_of(raw, text(raw, "kind")), now).policy


def _owner(raw: Raw) -> str:
    """The controller of a pod, or the pod itself, for people."""
    owner = controller_of(raw)
    if owner is None:
        return reference_of(raw).title
    return f"{text(owner, 'kind')} {text(owner, 'name')}"


_PRIORITIES = "priorityclasses.scheduling.k8s.io"
_UNKNOWN = {
    "nodes": "whether a node fits, and how many GPUs are free",
    "runtimeclasses.node.k8s.io": "which nodes RuntimeClasses select",
    _PRIORITIES: "whether the rule priorityClass refuses its pods",
    "deviceclasses.resource.k8s.io": "which DeviceClasses there are",
}
_LIST = re.compile(r"\w+: (\S+) cannot be listed")
_KINDS = re.compile(r"GET (/apis?\S*): ")


def missing_of(message: str) -> MissingAnswer:
    """The note about nodes or classes that could not be listed, from the error about them.

    Other errors are about kinds of which the API server does not say whether it has them.
    """
    fault = "" if "answered 403" in message else message
    if found := _LIST.match(message):
        return MissingAnswer("list", found[1], "", _UNKNOWN.get(found[1], f"what {found[1]} there are"), fault)
    place = _KINDS.search(message)
    unknown = "which nodes and classes the cluster has"
    return MissingAnswer("get", place[1] if place else "/apis", "", unknown, fault)
