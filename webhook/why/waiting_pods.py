"""Why the GPU pods of a whole cluster are Pending, for audits: the same detectors, without events and queues.

Pods pass one by one. Pods of one owner that are alike are explained once. Of each namespace few are kept, so that no
namespace can keep another one from its answers; those beyond are counted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from webhook.audit.cluster_objects import NamespaceScope
from webhook.audit.documents import Document, DocumentError
from webhook.audit.owners import Owners
from webhook.audit.report import ObjectReference, PendingPods, Running
from webhook.audit.review_objects import NEVER_SENT
from webhook.engine.running_rules import facts_under
from webhook.facts.facts import ClusterFacts
from webhook.model.json_parts import text
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.model.workloads import is_pod
from webhook.policy.policy_set import PolicySet
from webhook.why.cluster_view import policy_for
from webhook.why.explanation import ReasonCode
from webhook.why.observed import NodeState, NodeUsage, ObservedPod, Raw, Surroundings, node_state
from webhook.why.pod_reasons import why_pod
from webhook.why.workload_pods import MOST_NAMES, AlikePods, likeness

MOST_GROUPS = 100
"""Groups of Pending pods that are explained in one namespace."""
_MOST_BYTES = 2**20
"""Bytes of the pods that are kept of one namespace."""
_NOT_LOOKED_AT = (
    "the namespace has more kinds of Pending pods than an audit looks at",
    "Ask for one of them: gpu-policy why POD",
)


class WaitingPods:
    """Looks at the objects of an audit as they pass, and then explains the Pending pods."""

    def __init__(self, policies: PolicySet, scope: NamespaceScope) -> None:
        self._policies = policies
        self._sees_all = not scope.namespaces and set(scope.excluded).issubset(NEVER_SENT)
        self._states: dict[str, NodeState] = {}
        self._usage = NodeUsage(policies.accelerators)
        self._groups: dict[tuple[object, ...], tuple[ObjectReference, AlikePods]] = {}
        self._sizes: Counter[str] = Counter()
        self._numbers: Counter[str] = Counter()
        self._beyond: Counter[str] = Counter()

    def add_node(self, raw: Mapping[str, Any]) -> None:
        state = node_state(raw)
        self._states[state.name] = state

    def passing(
        self, documents: Iterable[Document | DocumentError], owners: Owners, facts: ClusterFacts
    ) -> Iterator[Document | DocumentError]:
        for document in documents:
            if isinstance(document, Document) and is_pod(document.api_version, document.kind):
                self._add(document.object, owners, facts)
            yield document

    def _add(self, raw: Raw, owners: Owners, facts: ClusterFacts) -> None:
        known = facts.cluster.nodes.get(text(raw, "spec", "nodeName"))
        if known is not None and known.kind.gpu_resources:
            self._usage.add(raw)
        if text(raw, "status", "phase") != "Pending":
            return
        try:
            pod = self._read(raw)
        except ValueError:
            return  # the audit has an error about it
        if pod.gpus or pod.resource_claims or pod.requests_classes:
            self._add_pending(raw, owners)

    def _read(self, raw: Raw) -> Pod:
        return pod_from_raw(raw, self._policies.accelerators, text(raw, "metadata", "namespace"))

    def _add_pending(self, raw: Raw, owners: Owners) -> None:
        owner, namespace = owners.root_of(raw), text(raw, "metadata", "namespace")
        key = owner.identity, likeness(raw, lambda _names: self._states or None)
        if key not in self._groups:
            size = len(orjson.dumps(raw))
            if self._sizes[namespace] + size > _MOST_BYTES or self._numbers[namespace] >= MOST_GROUPS:
                self._beyond[namespace] += 1
                return
            self._sizes[namespace] += size
            self._numbers[namespace] += 1
            self._groups[key] = owner, AlikePods(raw)
        self._groups[key][1].add(raw)

    def explained(self, facts: ClusterFacts, now: float) -> tuple[PendingPods, ...]:
        """Why the pods that passed are Pending, the gravest reason first. Call it once, after the last one.

        `now` is the moment for which exceptions are judged, in seconds since 1970.
        """
        found: dict[tuple[object, ...], PendingPods] = {}
        for owner, pods in self._groups.values():
            why = why_pod(ObservedPod(pods.first, self._read(pods.first), self._around(pods.first, facts, now)))
            key = owner.identity, why.code, why.message
            running = Running(pods.count, tuple(pods.names))
            if key in found:
                known = found[key].pods
                running = Running(known.count + pods.count, (*known.names, *pods.names)[:MOST_NAMES])
            remedy = " ".join(why.remedy.splitlines())
            found[key] = PendingPods(owner, str(why.code), why.message, remedy, running)
        for namespace, count in self._beyond.items():
            reference = ObjectReference("", "Namespace", namespace, "v1")
            code, message, remedy = ReasonCode.UNKNOWN, *_NOT_LOOKED_AT
            found[reference.identity] = PendingPods(reference, str(code), message, remedy, Running(count, ()))
        return tuple(sorted(found.values(), key=lambda one: (ReasonCode(one.reason).rank, one.owner, one.message)))

    def _around(self, raw: Raw, facts: ClusterFacts, now: float) -> Surroundings:
        policy = policy_for(raw, text(raw, "metadata", "namespace"), self._policies, now)
        return Surroundings(
            policy,
            facts_under(policy, facts) if facts.knows_nodes() else None,
            self._states or None,
            self._usage if self._sees_all and self._states else None,
        )
