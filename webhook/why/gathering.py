"""Reads what explains a pod or a workload, and has it explained."""

from contextlib import suppress
from dataclasses import replace

from webhook.audit.documents import Document
from webhook.audit.owners import reference_of
from webhook.audit.review_objects import ReviewContext, review_object
from webhook.doctor.installation import DoctorCluster, Installation, Place, UnavailableError, of_config_maps
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.discovery import PODS
from webhook.ledger.context import LedgerContext
from webhook.ledger.group_reader import FoundGroup
from webhook.ledger.ledger_store import MemoryStore
from webhook.ledger.ledgers import Ledgers
from webhook.ledger.static_pods import StaticPods
from webhook.model.json_parts import listed, text
from webhook.model.pod_groups import GROUP_KINDS, NamedGroup, group_of, named_groups
from webhook.model.pod_reader import pod_from_raw
from webhook.model.workloads import templates_of
from webhook.model.workloads.peaks import starts_now
from webhook.policy.policy_set import PolicySet
from webhook.rules import priority_class
from webhook.why.cluster_view import ClusterView
from webhook.why.explanation import Answer, MissingAnswer, PodsAlike, ReasonCode, gravest
from webhook.why.held_back import KAI, KUEUE, VOLCANO, entry_of, gates_of, keeper_of
from webhook.why.observed import FINISHED, ObservedPod, ObservedWorkload, QueueEntry, Raw, Surroundings
from webhook.why.pod_reasons import why_pod
from webhook.why.reading import ClusterReader, InventoryServer
from webhook.why.targets import find_target
from webhook.why.workload_pods import (
    MOST_NAMES,
    WorkloadPods,
    desired_pods,
    lacks_pods,
    owner_of,
    parts_of,
    pods_of,
    uid_of,
    whole_parts,
)
from webhook.why.workload_reasons import why_workload
from webhook.yaml_files.file_errors import FileErrors

_MOST_GROUPS = 24
"""Groups of pods whose events and queues are read; pods of further groups are explained by status and nodes alone."""
_GROUPS = {
    KAI: ("scheduling.run.ai", "pod-group-name"),
    VOLCANO: ("scheduling.volcano.sh", "scheduling.k8s.io/group-name"),
}
"""API group of PodGroups, and the annotation of pods that names theirs."""


def explain(
    server: ApiServer | InventoryServer, written: str, namespace: str, policies: PolicySet | MissingAnswer
) -> Answer:
    """The answer about a pod or workload. `policies` may be the note that says why they are not known.

    Raises TargetError if there is no such object, and ApiServerError if nobody knows.
    """
    reader = ClusterReader(server)
    resource, raw = find_target(reader, written, namespace)
    known, unknown = (None, (policies,)) if isinstance(policies, MissingAnswer) else (policies, ())
    gatherer = _Gatherer(reader, ClusterView(reader, raw, known, server.now()), namespace)
    answer = gatherer.pod(raw) if resource == PODS else gatherer.workload(raw)
    return replace(answer, missing=(*reader.missing, *unknown))


class _Gatherer:
    def __init__(self, reader: ClusterReader, view: ClusterView, namespace: str) -> None:
        self._reader = reader
        self._view = view
        self._namespace = namespace

    def pod(self, raw: Raw) -> Answer:
        return Answer(reference_of(raw), why_pod(self._observed(raw, self._view.around([raw]))))

    def workload(self, raw: Raw) -> Answer:
        parts = parts_of(raw, self._namespace, self._reader)
        found = pods_of(raw, parts, self._namespace, self._reader, self._view.states)
        parts = list(whole_parts(parts, found, self._namespace, self._reader))
        around = self._view.around(group.first for group in found.groups)
        made = [*(template.made for template in templates_of(raw)), *(group.first for group in found.groups)]
        has_gpus = not made or any(map(self._view.has_gpus, made))
        alike: dict[tuple[ReasonCode, str, bool], PodsAlike] = {}
        for number, group in enumerate(found.groups):
            pod = self._observed(group.first, around, has_gpus=has_gpus, is_brief=number >= _MOST_GROUPS)
            why = why_pod(pod)
            key = why.code, why.message, group.is_over
            known = alike.get(key, PodsAlike(why, 0, (), group.is_over))
            names = (*known.names, *group.names)[:MOST_NAMES]
            alike[key] = replace(known, count=known.count + group.count, names=names)
        seen = self._observed_workload(raw, parts, found, has_gpus=has_gpus)
        if seen.is_short or seen.is_stuck:
            around = self._view.with_quotas(around)
        pods = gravest(alike.values())
        return Answer(reference_of(raw), why_workload(seen, pods, around), pods=pods)

    def _observed(
        self, raw: Raw, around: Surroundings, *, has_gpus: bool = False, is_brief: bool = False
    ) -> ObservedPod:
        """A pod with its events and what its queue says, unless it `is_brief`."""
        seen = ObservedPod(raw, None, around, is_beside_gpus=has_gpus)
        if not is_brief:
            entry = None if seen.node else self._entry(raw)
            seen = replace(seen, events=self._reader.events([reference_of(raw)]), entry=entry)
        try:
            pod = pod_from_raw(raw, self._view.accelerators, self._namespace)
            is_alive = seen.phase not in FINISHED and not text(raw, "metadata", "deletionTimestamp")
            asks = not is_brief and is_alive and (gates_of(raw) or any(named_groups(raw)))
            refusal, lacking = self._view.refused(raw) if asks else ("", "")
            return replace(seen, pod=pod, refusal=refusal, lacking=lacking)
        except ValueError as error:
            return replace(seen, fault=str(error))

    def _observed_workload(
        self, raw: Raw, parts: list[Raw], found: WorkloadPods, *, has_gpus: bool
    ) -> ObservedWorkload:
        """A workload with its events, and what the policies would say of its pods if it lacks some."""
        makers = {owner_of(one) for one in parts}
        between = (one for one in parts if uid_of(one) in makers)
        lacking = [one for one in parts if uid_of(one) not in makers and lacks_pods(one, found)]
        abouts = dict.fromkeys(map(reference_of, (raw, *between, *lacking)))
        seen = ObservedWorkload(
            raw,
            reference_of(raw),
            tuple(parts),
            self._reader.events(abouts),
            found.alive,
            desired_pods(raw),
            frozenset(map(uid_of, lacking)),
            has_gpus=has_gpus,
            entry=self._entry(raw),
        )
        if not (seen.is_short and has_gpus):
            return seen
        return replace(seen, refusal=self._refusal(raw) or self._without_room(raw, found))

    def _without_room(self, raw: Raw, found: WorkloadPods) -> str:
        """What quotas say now of one more pod of a workload; of one that is a group, of the rest of it."""
        kind = GROUP_KINDS.get(f"{text(raw, 'kind').lower()}s.{text(raw, 'apiVersion').rpartition('/')[0]}")
        pods = [one.first for one in found.groups if kind is not None and not one.is_over][:MOST_NAMES]
        templates = templates_of(raw) if starts_now(raw) and not pods else ()
        for pod, part in [*((one, "") for one in pods), *((one.made, one.group) for one in templates)]:
            named = None if kind is None or pods else NamedGroup(kind, text(raw, "metadata", "name"), part=part)
            group = None if named is None else group_of(named, raw)
            known = None if named is None or group is None else FoundGroup(named, group, {})
            with suppress(ValueError):
                if refusal := self._view.refused(pod, known)[0]:
                    return refusal
        return ""

    def _refusal(self, raw: Raw) -> str:
        """What the policies say now of the pods that a workload makes; empty if nothing certain refuses them."""
        if self._view.policies is None:
            return ""
        facts, knows_priorities = self._view.facts_of_reviews()
        ledgers = Ledgers(LedgerContext(MemoryStore(), StaticPods()))
        context = ReviewContext(self._view.policies, facts, ledgers, now=self._view.now)
        with suppress(ValueError):
            found = review_object(Document("", 1, 0, raw), self._namespace, context).findings
            doubtful = () if knows_priorities else (priority_class.RULE.key,)
            return "\n".join(dict.fromkeys(str(one) for one in found if one.refuses and one.rule not in doubtful))
        return ""

    def _entry(self, raw: Raw) -> QueueEntry | None:
        """What its queue says of a pod or workload; None if no queue keeps it, or the queue says nothing."""
        keeper, unknown = keeper_of(raw), "why {} lets it wait"
        if keeper == KUEUE:
            resource = self._reader.find("kueue.x-k8s.io", "Workload")
            uids = {uid_of(raw), owner_of(raw)} - {""}
            workloads = self._reader.items(resource, self._namespace, unknown.format(KUEUE))
            return next((entry_of(KUEUE, found) for found in workloads if uids & _kept_for(found)), None)
        group, annotation = _GROUPS.get(keeper, ("", ""))
        name = text(raw, "metadata", "annotations", annotation)
        resource = self._reader.find(group, "PodGroup") if name else None
        if resource is None:
            return None
        with suppress(ValueError):
            found = self._reader.get(resource, self._namespace, name, unknown.format(keeper))
            return None if found is None else entry_of(keeper, found)
        return None


def _kept_for(workload: Raw) -> set[str]:
    owners = {text(owner, "uid") for owner in listed(workload, "metadata", "ownerReferences")}
    return owners | {text(workload, "metadata", "labels", "kueue.x-k8s.io/job-uid")}


def policies_of_installation(server: ApiServer, namespace: str, name: str) -> PolicySet | MissingAnswer:
    """The policies that the installation of this name mounts, or the note why they are not known."""
    installation = Installation(DoctorCluster(server), Place(namespace, name))
    resource, fault = "deployments.apps", ""
    try:
        mounted = installation.workload.policy_config_maps
        resource = "configmaps" if mounted else resource
        return of_config_maps(installation.policy_config_maps)
    except UnavailableError as error:
        fault = "" if error.is_forbidden else str(error)
    except FileErrors as errors:
        fault = f"they have mistakes: {str(errors)[:500]}"
    except (KeyError, TypeError, AttributeError):
        fault = f"Deployment {namespace}/{name} is not a Deployment of gpu-policy"
    return MissingAnswer(
        "get", resource, namespace, "which rules the policies of gpu-policy have for the namespace", fault
    )
