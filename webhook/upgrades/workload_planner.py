"""From objects, read one by one, to a plan: what changes for each owner.

A workload is judged by its templates, and its running pods only count their GPUs. Pods whose owner nobody knows are
judged as they are, without their node, because they will be placed anew. So are the running pods of a template that
could be scheduled nowhere without further tolerations: something that the plan does not know has completed them. Pods
that are alike are judged once, whoever owns them. Objects are not kept.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any

from webhook.audit.auditing import error_about, is_passed_over
from webhook.audit.documents import Document, DocumentError
from webhook.audit.owners import Owners
from webhook.audit.report import ObjectReference, SourceLine
from webhook.audit.review_objects import LookedUpImages, namespace_of
from webhook.cuda import cuda_messages
from webhook.cuda.cuda_tables import context_of
from webhook.cuda.need import BuiltFor, Need
from webhook.model.gpu_fractions import with_fractions
from webhook.model.json_parts import mapped
from webhook.model.node import CUDA_LABELS
from webhook.model.pod import Container, Pod
from webhook.model.pod_reader import owner_kind, pod_from_raw
from webhook.model.subject import subject_of, subject_of_template
from webhook.model.workloads import is_pod, templates_of
from webhook.policy.policy_set import ConfiguredRule, Policy, PolicySet, content_hash
from webhook.rules import cuda_driver, tolerations
from webhook.rules.claimed_gpus import claimed_gpus
from webhook.rules.rule_settings import Mode
from webhook.upgrades.changed_cluster import NO_CUDA, NOWHERE, ChangedCluster, PolicyView, moves_of, placement_of
from webhook.upgrades.comparing import PlacesCompared, compared
from webhook.upgrades.driver_plan import DriverPlan, PlannedWorkload, RunsOn, UnknownImage
from webhook.upgrades.planned_nodes import Owner, PodsOfMatrix, branch_matrix, planned_pools

Raw = Mapping[str, Any]

_NOTHING_KNOWN = "neither its name nor anything else says which CUDA version it needs"


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What to plan: the cluster with its changes, the policies, and how.

    `namespace` holds for manifests that name none. `added` names the file of the nodes that come. `created` is in UTC,
    with time zone.
    """

    cluster: ChangedCluster
    policies: PolicySet
    created: datetime
    namespace: str = "default"
    added: str = ""
    has_matrix: bool = False


def plan_of(
    request: PlanRequest,
    documents: Iterable[Document | DocumentError],
    owners: Owners,
    images: LookedUpImages | None = None,
) -> DriverPlan:
    """The plan for these objects; owners come before what they own.

    With `images` the images that are asked about are looked up in batches, before the objects are judged.
    """
    if images is not None:
        request = replace(request, cluster=replace(request.cluster, facts=request.cluster.facts.with_images(images)))
        documents = images.before(documents, WorkloadPlanner(request, owners).add)
    planner = WorkloadPlanner(request, owners)
    for document in documents:
        planner.add(document)
    return planner.plan()


def policies_without_files() -> PolicySet:
    """The policies of a plan for which nobody names any: cudaDriver with its defaults, and tolerations of GPU taints.

    The taints nvidia.com/gpu and alike are tolerated as ExtendedResourceToleration of Kubernetes does: templates rarely
    name them, and without tolerations they would have no nodes.
    """
    rules = tuple(
        ConfiguredRule(rule, Mode.ENFORCE, rule.settings(mode=Mode.ENFORCE), "defaults")
        for rule in (tolerations.RULE, cuda_driver.RULE)
    )
    return PolicySet.of(Policy("defaults", (), content_hash("defaults"), rules), {})


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
class _JudgedPods:
    """Pods that are alike: what changes for them, and the workloads that have such pods.

    Each pod has so many `gpus`. `unknown` are their images whose needs nobody knows, each with the problem.
    """

    compared: PlacesCompared
    gpus: int
    unknown: tuple[tuple[str, str], ...]
    of_matrix: PodsOfMatrix
    owners: set[Owner] = field(default_factory=set)


@dataclass(slots=True)
class _Row:
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
        return self.of_pods if self.of_pods and self.needs_pods else self.of_templates or self.of_pods


class WorkloadPlanner:
    """Takes documents, owners before what they own, and then makes the plan."""

    def __init__(self, request: PlanRequest, owners: Owners) -> None:
        self._request, self._cluster, self._owners = request, request.cluster, owners
        self._policies, self._now = request.policies, request.created.timestamp()
        # Images need their drivers also where the rule is disabled. What `forcedCompat` only warns of counts as well.
        self._if_disabled = cuda_driver.Settings.model_validate(
            {"mode": Mode.AUDIT}, context=context_of(self._policies.cuda.tables)
        )
        self._rows: dict[Owner, _Row] = {}
        self._alike: dict[tuple[object, ...], _JudgedPods | None] = {}
        self._views: dict[int, tuple[Policy, PolicyView]] = {}
        self._errors: list[DocumentError] = []

    def add(self, document: Document | DocumentError) -> None:
        if isinstance(document, DocumentError):
            self._errors.append(document)
            return
        try:
            if not is_passed_over(document, self._owners):
                self._pod(document) if is_pod(document.api_version, document.kind) else self._workload(document)
        except ValueError as error:
            self._errors.append(error_about(document, str(error)))

    def owner_of(self, document: Document) -> Owner:
        return _placed(self._owners.root_of(document.object), namespace_of(document, self._request.namespace)).identity

    def _workload(self, document: Document) -> None:
        raw, namespace = document.object, namespace_of(document, self._request.namespace)
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
            row.declared += judged.gpus * pods
            judged.owners.add(row.owner.identity)

    def _pod(self, document: Document) -> None:
        raw, namespace = document.object, namespace_of(document, self._request.namespace)
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
            gpus = judged.gpus
        else:
            gpus = self._gpus(pod_from_raw(raw, self._policies.accelerators, namespace))
        row.running += gpus if is_running else 0
        row.declared += 0 if is_running else gpus

    def _row(self, owner: ObjectReference, namespace: str, document: Document, *, is_declared: bool) -> _Row:
        placed = _placed(owner, namespace)
        key = placed.identity
        if key not in self._rows:
            self._rows[key] = _Row(placed, SourceLine(document.source, document.line or None), is_declared=is_declared)
        return self._rows[key]

    def _judged(self, raw: Raw, namespace: str, policy: Policy, *, is_queued: bool = False) -> _JudgedPods | None:
        """What changes for a pod; None if it gets no NVIDIA GPU for certain."""
        key = (_judged_parts(raw, policy.labels), namespace, id(policy), is_queued)
        if key not in self._alike:
            self._alike[key] = self._compared(raw, namespace, policy, is_queued=is_queued)
        return self._alike[key]

    def _compared(self, raw: Raw, namespace: str, policy: Policy, *, is_queued: bool) -> _JudgedPods | None:
        if id(policy) not in self._views:
            self._views[id(policy)] = policy, PolicyView(policy, self._cluster)  # with it, no other policy gets its id
        view = self._views[id(policy)][1]
        pod, later = (one.completed(raw, namespace, is_queued=is_queued) for one in (view.now, view.then))
        found = (one.settings for one in policy.rules if isinstance(one.settings, cuda_driver.Settings))
        settings = next(found, self._if_disabled).for_other_drivers()
        now, then = placement_of(pod, settings, view.now), placement_of(later, settings, view.then)
        if now is None and then is None:
            return None
        before, after = now or NOWHERE, then or NOWHERE
        moves = moves_of(view.groups, before, after)
        needs = tuple(replace(need, evidence="", notes=(), env=None) for _, need in before.uses) or (NO_CUDA,)
        is_allowed = settings.forward_compat == "allow"
        verdicts = frozenset((one.group.offer, one.before) for one in moves if one.before is not None)
        keys = [*pod.node_selector, *(one.key for term in pod.required or () for one in term.expressions)]
        selects = any(key.startswith(CUDA_LABELS) for key in keys)
        return _JudgedPods(
            compared(pod, before, after, moves),
            self._gpus(pod),
            tuple(_unknown_images(before.uses)),
            PodsOfMatrix(needs, settings.tables, is_allowed, settings.forced_compat, verdicts, selects),
        )

    def _gpus(self, pod: Pod) -> int:
        """The GPUs that a pod requests by number, of which it gets a part, and by claims, as gpuLimits counts them."""
        return with_fractions(pod).gpu_count + sum(one.most for one in claimed_gpus(pod, self._cluster.facts))

    def plan(self) -> DriverPlan:
        request, judged = self._request, list(filter(None, self._alike.values()))
        of_matrix = ((one.of_matrix, one.owners) for one in judged)
        workloads = self._workloads()
        return DriverPlan(
            request.created,
            workloads,
            planned_pools(self._cluster, request.added, self._now),
            _images_used(judged, workloads),
            branch_matrix(self._cluster, of_matrix, self._now) if request.has_matrix else None,
            tuple(self._errors),
        )

    def _workloads(self) -> tuple[PlannedWorkload, ...]:
        found = []
        for row in self._rows.values():
            worst = min(row.found, key=lambda one: one.change.rank)
            gpus = row.declared if row.is_declared and not row.running else row.running
            found.append(
                PlannedWorkload(
                    row.owner, gpus, worst.change, worst.before, worst.after, worst.reason, worst.remedy, row.source
                )
            )
        return tuple(sorted(found, key=lambda one: (one.change.rank, -one.gpus, one.owner)))


def _unknown_images(uses: Iterable[tuple[Container, Need]]) -> Iterator[tuple[str, str]]:
    for container, need in uses:
        if container.image and need.kind not in (BuiltFor.OTHER, BuiltFor.NONE) and need.cuda is None:
            said = [text for text in (need.evidence, *need.notes[:1]) if text not in ("", cuda_messages.NO_EVIDENCE)]
            yield container.image, "; ".join(said) or _NOTHING_KNOWN


def _images_used(judged: Iterable[_JudgedPods], workloads: Iterable[PlannedWorkload]) -> tuple[UnknownImage, ...]:
    """The images whose needs nobody knows, the ones with the most GPUs first."""
    gpus = {one.owner.identity: one.gpus for one in workloads}
    problems: dict[str, str] = {}
    users: dict[str, set[Owner]] = {}
    for one in judged:
        for image, problem in one.unknown:
            problems.setdefault(image, problem)
            users.setdefault(image, set()).update(one.owners)
    found = [
        UnknownImage(image, problem, len(users[image]), sum(gpus.get(one, 0) for one in users[image]))
        for image, problem in problems.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.gpus, -one.workloads, one.image)))


def _placed(owner: ObjectReference, namespace: str) -> ObjectReference:
    """The owner in the namespace of what it owns, where a manifest names no namespace."""
    return owner if owner.namespace or not namespace else replace(owner, namespace=namespace)


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
