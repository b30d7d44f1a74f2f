"""Looks at pods and workloads one by one, and says what a plan changes for each owner.

A workload is judged by its templates, and its running pods only count their GPUs. Pods whose owner nobody knows are
judged as they are, without their node, because they will be placed anew. So are the running pods of a template that
could be scheduled nowhere without further tolerations: something that the plan does not know has completed them. Pods
that are alike are judged once, whoever owns them. Objects are not kept.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any

from webhook import engine
from webhook.audit.auditing import error_about, is_passed_over
from webhook.audit.documents import Document, DocumentError, own_namespace
from webhook.audit.owners import Owners
from webhook.audit.report import ObjectReference, SourceLine
from webhook.cuda.cuda_tables import context_of
from webhook.cuda.need import Need
from webhook.facts.facts import ClusterFacts
from webhook.model.accelerators import Accelerators
from webhook.model.claims import TOO_LARGE, claims_of
from webhook.model.json_parts import mapped
from webhook.model.pod import Pod
from webhook.model.pod_reader import owner_kind, pod_from_raw
from webhook.model.subject import subject_of, subject_of_template
from webhook.model.workloads import is_pod, templates_of, workload_of
from webhook.policy.policy_set import Policy, PolicySet
from webhook.rules import cuda_driver
from webhook.rules.rule import Stage
from webhook.rules.rule_settings import Mode
from webhook.upgrades.changed_cluster import ChangedCluster, ClusterSide
from webhook.upgrades.comparing import PlacesCompared, compared, worst_of
from webhook.upgrades.driver_plan import PlannedWorkload, UnknownImage
from webhook.upgrades.standing import NOWHERE, RunsOn, Standing, settings_in, standing_of, uses_nvidia

Raw = Mapping[str, Any]

_NUMBERS = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "leaderworkerset.sigs.k8s.io/worker-index",
        "statefulset.kubernetes.io/pod-name",
        "training.kubeflow.org/replica-index",
    }
)
"""Labels and annotations by which controllers number their pods."""
_TOKEN = re.compile(r"kube-api-access-[a-z0-9]{5}")
"""The name of the service account's volume (plugin/pkg/admission/serviceaccount of Kubernetes)."""


@dataclass(frozen=True, slots=True)
class JudgedPods:
    """Pods that are alike: one of them as it is now, its policy and settings, where it stands, and what changes.

    `needs` are those of its images, without what only messages say. `before` has no single verdicts.
    """

    pod: Pod
    policy: Policy
    settings: cuda_driver.Settings
    needs: tuple[Need, ...]
    before: Standing
    compared: PlacesCompared
    owners: set[tuple[str, ...]] = field(default_factory=set)
    """The identities of the workloads that have such pods."""


@dataclass(slots=True)
class _Row:
    """What is known of one owner so far."""

    owner: ObjectReference
    source: SourceLine
    of_templates: list[PlacesCompared] = field(default_factory=list)
    of_pods: list[PlacesCompared] = field(default_factory=list)
    running: int = 0
    declared: int = 0
    is_declared: bool = False
    """Whether a manifest has it, and no cluster."""

    @property
    def needs_pods(self) -> bool:
        """Whether its templates do not tell where its pods run."""
        return all(one.is_released or one.before.verdict is RunsOn.NO_NODES for one in self.of_templates)

    @property
    def found(self) -> list[PlacesCompared]:
        """What decides about it."""
        return self.of_pods if self.of_pods and self.needs_pods else self.of_templates or self.of_pods


class WorkloadPlanner:
    """Takes documents, owners before what they own, and then says what changes for each owner.

    `namespace` is that of manifests that name none. `now` is the moment for which exceptions are judged, in seconds
    since 1970.
    """

    def __init__(
        self, policies: PolicySet, cluster: ChangedCluster, owners: Owners, namespace: str, now: float
    ) -> None:
        self._policies, self._cluster, self._owners = policies, cluster, owners
        self._namespace, self._now = namespace, now
        self._accelerators: Accelerators = policies.accelerators
        self._others = cuda_driver.Settings.model_validate(
            {"mode": Mode.AUDIT}, context=context_of(policies.cuda.tables)
        )
        self._rows: dict[tuple[str, ...], _Row] = {}
        self._alike: dict[tuple[object, ...], JudgedPods | None] = {}
        self._completing: dict[int, tuple[Policy, Policy]] = {}
        self.errors: list[DocumentError] = []

    def add(self, document: Document | DocumentError) -> None:
        """Look at an object."""
        if isinstance(document, DocumentError):
            self.errors.append(document)
            return
        try:
            if not is_passed_over(document, self._owners):
                self._pod(document) if is_pod(document.api_version, document.kind) else self._workload(document)
        except ValueError as error:
            self.errors.append(error_about(document, str(error)))

    def _workload(self, document: Document) -> None:
        raw, namespace = document.object, self._namespace_of(document)
        row: _Row | None = None
        for template in templates_of(raw):
            subject = partial(subject_of_template, raw, template)
            held = self._policies.in_force(namespace, subject, self._now)
            judged = self._judged(template.made, namespace, held.policy, is_queued=template.is_queued)
            if judged is None:
                continue
            row = row or self._row(self._owners.root_of(raw), namespace, document, is_declared=bool(document.source))
            row.of_templates.append(judged.compared)
            pods = 1 if template.pods is None else template.pods
            row.declared += _gpus(judged.pod, self._cluster.facts, self._accelerators) * pods
            judged.owners.add(row.owner.identity)

    def _pod(self, document: Document) -> None:
        raw, namespace = document.object, self._namespace_of(document)
        spec = mapped(raw, "spec")
        is_running = bool(spec.get("nodeName"))
        root = self._owners.root_of(raw)
        row = self._rows.get(_placed(root, namespace).identity)
        if row is None or row.needs_pods:
            unplaced = {
                **{key: value for key, value in raw.items() if key != "status"},
                "spec": {key: value for key, value in spec.items() if key != "nodeName"},
            }
            held = self._policies.in_force(namespace, lambda: subject_of(raw, "Pod"), self._now)
            judged = self._judged(unplaced, namespace, held.policy)
            if judged is None:
                return
            row = row or self._row(root, namespace, document, is_declared=bool(document.source) and not is_running)
            row.of_pods.append(judged.compared)
            judged.owners.add(row.owner.identity)
            gpus = _gpus(judged.pod, self._cluster.facts, self._accelerators)
        else:
            gpus = _gpus(pod_from_raw(raw, self._accelerators, namespace), self._cluster.facts, self._accelerators)
        row.running += gpus if is_running else 0
        row.declared += 0 if is_running else gpus

    def _row(self, owner: ObjectReference, namespace: str, document: Document, *, is_declared: bool) -> _Row:
        placed = _placed(owner, namespace)
        key = placed.identity
        if key not in self._rows:
            self._rows[key] = _Row(placed, SourceLine(document.source, document.line or None), is_declared=is_declared)
        return self._rows[key]

    def _namespace_of(self, document: Document) -> str:
        known = workload_of(document.api_version, document.kind)
        if known is not None and not known.is_namespaced:
            return ""
        return own_namespace(document) or self._namespace

    def _judged(self, raw: Raw, namespace: str, policy: Policy, *, is_queued: bool = False) -> JudgedPods | None:
        """What changes for a pod; None if it gets no NVIDIA GPU for certain."""
        key = (_judged_parts(raw, policy.labels), namespace, id(policy), is_queued)
        if key not in self._alike:
            self._alike[key] = self._compared(raw, namespace, policy, is_queued=is_queued)
        return self._alike[key]

    def _compared(self, raw: Raw, namespace: str, policy: Policy, *, is_queued: bool) -> JudgedPods | None:
        settings = settings_in(policy, self._others)
        sides = (self._cluster.before, self._cluster.after)
        placed = [(self._completed(raw, namespace, policy, side, is_queued=is_queued), side) for side in sides]
        before, after = (standing_of(pod, side.policy(policy), settings, side) for pod, side in placed)
        if before is after is NOWHERE and not any(uses_nvidia(pod, side.facts) for pod, side in placed):
            return None
        needs = tuple(replace(need, evidence="", notes=(), env=None) for _, need in before.uses)
        found = compared(before, after, self._cluster.order)
        slim = replace(before, survey=None, verdicts=(), members=())
        return JudgedPods(placed[0][0], policy, settings, needs, slim, found)

    def _completed(self, raw: Raw, namespace: str, policy: Policy, side: ClusterSide, *, is_queued: bool) -> Pod:
        """The pod as policies complete it, without the node affinity of rules that steer pods."""
        policy = side.policy(policy)
        known = self._completing.get(id(policy))
        if known is None:
            without = policy.only(lambda bound: bound.rule.stage is not Stage.STEERING)
            known = self._completing[id(policy)] = policy, without
        outcome = engine.mutate(raw, known[1], side.facts, namespace=namespace)
        pod = pod_from_raw(outcome.object, self._accelerators, namespace)
        return replace(pod, is_gated=True) if is_queued else pod

    def judged(self) -> Iterator[JudgedPods]:
        """All kinds of pods that were judged."""
        yield from filter(None, self._alike.values())

    def workloads(self) -> tuple[PlannedWorkload, ...]:
        """What changes for each owner, the worst change first."""
        found = []
        for row in self._rows.values():
            worst = worst_of(row.found)
            gpus = row.declared if row.is_declared and not row.running else row.running
            found.append(
                PlannedWorkload(
                    row.owner,
                    gpus,
                    worst.change,
                    worst.before,
                    worst.after,
                    worst.reason,
                    worst.remedy,
                    row.source,
                )
            )
        return tuple(sorted(found, key=lambda one: (one.change.rank, -one.gpus, one.owner)))

    def unknown_images(self) -> tuple[UnknownImage, ...]:
        """The images of which nobody knows what they need; those with the most GPUs first."""
        gpus = {one.owner.identity: one.gpus for one in self.workloads()}
        problems: dict[str, str] = {}
        users: dict[str, set[tuple[str, ...]]] = {}
        for judged in self.judged():
            for image, problem in judged.compared.unknown:
                problems.setdefault(image, problem)
                users.setdefault(image, set()).update(judged.owners)
        found = [
            UnknownImage(image, problem, len(users[image]), sum(gpus.get(one, 0) for one in users[image]))
            for image, problem in problems.items()
        ]
        return tuple(sorted(found, key=lambda one: (-one.gpus, -one.workloads, one.image)))


def _placed(owner: ObjectReference, namespace: str) -> ObjectReference:
    """The owner in the namespace of what it owns, where a manifest names no namespace."""
    return owner if owner.namespace or not namespace else replace(owner, namespace=namespace)


def _gpus(pod: Pod, facts: ClusterFacts, accelerators: Accelerators) -> int:
    """The GPUs of a pod: those that it requests by number, and at least those of its claims."""
    claimed = 0
    for named in claims_of(pod.resource_claims):
        requests = facts.claim(named, pod.namespace) or ()
        for request in requests if requests != TOO_LARGE else ():
            first = next(iter(request), None)
            if first is not None and first.are_gpus(accelerators) and not first.is_administrative:
                claimed += first.least
    return pod.gpu_count + claimed


def _judged_parts(raw: Raw, read: frozenset[str]) -> bytes:
    """A hash of what a judgement reads of a pod; `read` are the labels that policies read.

    Pods of one controller have one hash: names, host names and numbers are left out.
    """
    metadata, spec = mapped(raw, "metadata"), mapped(raw, "spec")
    numbers = _NUMBERS - read
    parts = [
        {key: "" if key in numbers else value for key, value in mapped(metadata, part).items()}
        for part in ("labels", "annotations")
    ]
    spec = {key: value for key, value in spec.items() if key != "hostname"}
    text = repr((owner_kind(metadata), parts, spec))
    return sha256(_TOKEN.sub("kube-api-access", text).encode()).digest()
