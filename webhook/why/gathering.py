"""Reads what explains a pod or a workload, and has it explained."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from webhook.audit.documents import Document
from webhook.audit.owners import reference_of
from webhook.audit.review_objects import ReviewContext, review_object
from webhook.facts.static_pods import StaticPods
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.discovery import PODS
from webhook.ledger.context import LedgerContext
from webhook.ledger.ledger_store import MemoryStore
from webhook.ledger.ledgers import Ledgers
from webhook.model.json_parts import part
from webhook.model.pod_reader import pod_from_raw
from webhook.model.workloads import controller_of, templates_of
from webhook.policy.policy_set import PolicySet
from webhook.why.cluster_view import ClusterView
from webhook.why.explanation import Answer, Explanation, MissingAnswer, PodsAlike, ReasonCode, gravest
from webhook.why.held_back import KAI, KUEUE, VOLCANO, entry_of, keeper_of
from webhook.why.observed import ObservedPod, ObservedWorkload, QueueEntry, Raw, Surroundings, text
from webhook.why.pod_counts import MOST_READ, desired_pods, lacking_parts
from webhook.why.pod_reasons import why_pod
from webhook.why.reading import ClusterReader
from webhook.why.targets import find_target
from webhook.why.workload_pods import FINISHED, PodGroups, grouped, parts_of
from webhook.why.workload_reasons import why_workload

_NEWEST_PARTS = 3
"""Objects between a workload and its pods whose events are read, although they lack no pods."""
_MOST_REFUSALS = 20
_GROUPS = {
    KAI: ("scheduling.run.ai", "pod-group-name"),
    VOLCANO: ("scheduling.volcano.sh", "scheduling.k8s.io/group-name"),
}
"""API group of PodGroups, and the annotation of pods that names theirs."""
_KUEUE_API, _JOB = "kueue.x-k8s.io", "kueue.x-k8s.io/job-uid"


def explain(server: ApiServer, written: str, namespace: str, policies: PolicySet | MissingAnswer) -> Answer:
    """The answer about a pod or workload. `policies` may be the note that says why they are not known.

    Raises TargetError if there is no such object, and ApiServerError if nobody knows.
    """
    reader = ClusterReader(server)
    target = find_target(reader, written, namespace)
    known = None if isinstance(policies, MissingAnswer) else policies
    gatherer = _Gatherer(reader, ClusterView(server, reader, target.raw, known), namespace)
    answer = gatherer.pod(target.raw) if target.resource == PODS else gatherer.workload(target.raw)
    unknown = (policies,) if isinstance(policies, MissingAnswer) else ()
    return replace(answer, missing=tuple(dict.fromkeys((*reader.missing, *gatherer.view.faults, *unknown))))


class _Gatherer:
    def __init__(self, reader: ClusterReader, view: ClusterView, namespace: str) -> None:
        self._reader = reader
        self.view = view
        self._namespace = namespace

    def pod(self, raw: Raw) -> Answer:
        return Answer(reference_of(raw), why_pod(self._observed(raw), self.view.around([raw])))

    def workload(self, raw: Raw) -> Answer:
        parts = list(parts_of(raw, self._namespace, self._reader))
        found = grouped(raw, parts, self._namespace, self._reader, self.view.states, briefly=self._briefly)
        around = self.view.around(group.first for group in found.groups)
        has_gpus = self._has_gpus(raw, found)
        pods = [
            PodsAlike(
                why_pod(replace(self._observed(one.first), is_beside_gpus=has_gpus), around),
                one.count,
                tuple(one.names),
                is_over=text(one.first, "status", "phase") in FINISHED,
            )
            for one in found.groups
        ]
        pods += found.others
        seen = self._observed_workload(raw, parts, found, has_gpus=has_gpus)
        if seen.is_short or seen.is_stuck:
            around = self.view.with_quotas(around)
        ordered = gravest(_merged(pods))
        return Answer(reference_of(raw), why_workload(seen, ordered, around), pods=ordered)

    def _observed(self, raw: Raw) -> ObservedPod:
        """A pod with its events and what its queue says."""
        events = self._reader.events([reference_of(raw)])
        entry = None if text(raw, "spec", "nodeName") else self._entry(raw)
        try:
            pod = pod_from_raw(raw, self.view.accelerators, self._namespace)
        except ValueError as error:
            return ObservedPod(raw, None, events, entry, str(error))
        return ObservedPod(raw, pod, events, entry)

    def _briefly(self, raw: Raw) -> Explanation:
        """The reason of a pod as far as the pod itself and its node tell."""
        states = self.view.states([node] if (node := text(raw, "spec", "nodeName")) else [])
        pod = None
        with suppress(ValueError):
            pod = pod_from_raw(raw, self.view.accelerators, self._namespace)
        seen = ObservedPod(raw, pod, fault="it has another shape than a pod", is_beside_gpus=True)
        return why_pod(seen, Surroundings(self.view.policy, states=states))

    def _has_gpus(self, raw: Raw, found: PodGroups) -> bool:
        """Whether any pod that a workload has or makes requests GPUs."""
        made = [template.made for template in templates_of(raw)]
        return not (made or found.groups) or any(map(self.view.has_gpus, (*made, *(one.first for one in found.groups))))

    def _observed_workload(
        self, raw: Raw, parts: Sequence[Raw], found: PodGroups, *, has_gpus: bool
    ) -> ObservedWorkload:
        """A workload with its events, and what the policies would say of its pods if it lacks some."""
        reference = reference_of(raw)
        seen = ObservedWorkload(
            raw, reference, tuple(parts), pods=found.alive, desired=desired_pods(raw), has_gpus=has_gpus
        )
        asks = seen.desired is None or seen.is_short
        lacking = list(islice(lacking_parts(parts, found, self._whole if asks else _unread), MOST_READ))
        abouts = dict.fromkeys(reference_of(one) for one in (raw, *parts[:_NEWEST_PARTS], *_between(parts), *lacking))
        seen = replace(
            seen,
            events=self._reader.events(abouts),
            lacking=frozenset(text(one, "metadata", "uid") for one in lacking),
            entry=self._entry(raw),
        )
        return replace(seen, refusal=self._refusal(raw)) if seen.is_short and has_gpus else seen

    def _whole(self, raw: Raw) -> Raw | None:
        """The object of which only metadata is known; None if it is gone, or cannot be read."""
        resource = self._reader.find(text(raw, "apiVersion").rpartition("/")[0], text(raw, "kind"))
        if resource is None:
            return None
        unknown = f"how many pods its {resource.name} want"
        return self._reader.get(resource, self._namespace, text(raw, "metadata", "name"), unknown)

    def _refusal(self, raw: Raw) -> str:
        """What the policies say now of the pods that a workload makes; empty if nothing refuses them."""
        if self.view.policies is None:
            return ""
        ledgers = Ledgers(LedgerContext(MemoryStore(), StaticPods()))
        context = ReviewContext(self.view.policies, self.view.facts_of_reviews(), ledgers, now=self.view.now)
        with suppress(ValueError):
            found = review_object(Document("", 1, 0, raw), self._namespace, context)
            refused = [str(one) for one in found.findings if one.refuses and self.view.is_certain(one.rule)]
            return "\n".join(list(dict.fromkeys(refused))[:_MOST_REFUSALS])
        return ""

    def _entry(self, raw: Raw) -> QueueEntry | None:
        """What its queue says of a pod or workload; None if no queue keeps it, or the queue says nothing."""
        keeper = keeper_of(raw)
        if keeper == KUEUE:
            return self._of_kueue(raw)
        if not keeper:
            return None
        group, annotation = _GROUPS[keeper]
        resource, name = self._reader.find(group, "PodGroup"), text(raw, "metadata", "annotations", annotation)
        if resource is None or not name:
            return None
        with suppress(ValueError):
            found = self._reader.get(resource, self._namespace, name, f"why {keeper} lets it wait")
            return None if found is None else entry_of(keeper, found)
        return None

    def _of_kueue(self, raw: Raw) -> QueueEntry | None:
        """What the Workload says that Kueue keeps for this object or its owner."""
        resource = self._reader.find(_KUEUE_API, "Workload")
        if resource is None:
            return None
        uids = {text(raw, "metadata", "uid"), text(controller_of(raw), "uid")} - {""}
        for found in self._reader.items(resource, self._namespace, "why Kueue lets it wait"):
            owners = part(found, "metadata", "ownerReferences")
            owned = {text(owner, "uid") for owner in (owners if isinstance(owners, list) else ())}
            if uids & (owned | {text(found, "metadata", "labels", _JOB)}):
                return entry_of(KUEUE, found)
        return None


def _unread(raw: Raw) -> None:
    """What is known of an object that nobody reads."""


def _between(parts: Sequence[Raw]) -> Iterator[Raw]:
    """The first parts that make other parts, such as the JobSet of a TrainJob."""
    makers = {text(controller_of(one), "uid") for one in parts}
    return islice((one for one in parts if text(one, "metadata", "uid") in makers), _NEWEST_PARTS)


def _merged(pods: Iterable[PodsAlike]) -> list[PodsAlike]:
    """Pods with one reason and message together."""
    found: dict[tuple[ReasonCode, str, bool], PodsAlike] = {}
    for one in pods:
        key = one.explanation.code, one.explanation.message, one.is_over
        known = found.get(key, replace(one, count=0, names=()))
        found[key] = replace(known, count=known.count + one.count, names=(*known.names, *one.names)[:5])
    return list(found.values())
