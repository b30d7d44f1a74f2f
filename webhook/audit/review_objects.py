"""What the webhook would answer for an object: both phases, one after the other, as the API server runs them."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any
from uuid import uuid4

import jsonpatch

from webhook import engine
from webhook.audit.documents import Document, DocumentError, own_namespace
from webhook.engine import TemplateOutcome
from webhook.engine.quota_requests import reserved
from webhook.engine.running_rules import facts_under
from webhook.facts.driver_objects import OF_SNAPSHOT, is_driver_object
from webhook.facts.facts import ClusterFacts
from webhook.ledger.entries import uid_bytes
from webhook.ledger.gpu_pods import is_for_extended_resources
from webhook.ledger.ledger_store import LedgerError
from webhook.ledger.ledgers import InUse, Ledgers
from webhook.model.claims import CLAIM, GROUP, claim_from, claim_owner, subject_for_pod, template_claims
from webhook.model.image import ImageInfo
from webhook.model.json_parts import mapped, part
from webhook.model.subject import PodSubject, subject_of
from webhook.model.workloads import RUNTIMES, is_made_or_ending, is_pod, workload_of
from webhook.model.workloads.peaks import Scaler, scaler_of
from webhook.outcome import Finding, FindingKind, Injection, Outcome, printable, worst_first
from webhook.policy.policy_set import InForce, Policy, PolicySet
from webhook.quota.quotas import Quota

NEVER_SENT = (
    "kube-system",
    "gpu-policy",
    "gpu-operator",
    "nvidia-gpu-operator",
    "nvidia-device-plugin",
    "gpu-feature-discovery",
    "nvidia-dra-driver-gpu",
    "nvidia-network-operator",
    "kube-amd-gpu",
    "inteldeviceplugins-system",
)
"""The namespaces that the shipped registration excludes: webhook.namespaceSelector of the chart, and its own."""

_LEDGER_SECONDS = 30.0
"""Longest time to list the pods that count against a quota."""


@dataclass(frozen=True, slots=True)
class ReviewedObject:
    """An object with the findings about it.

    `policy` is None for an object that no rule is about, or that the webhook skips. `outcome` is the result for a pod;
    `pods` are the results for the pods that a workload would make. Resource claims and their templates have neither.
    `is_sent` is false for an object of a namespace whose objects the webhook never gets.
    """

    document: Document
    namespace: str
    name: str
    policy: Policy | None
    findings: tuple[Finding, ...] = ()
    outcome: Outcome | None = None
    pods: tuple[TemplateOutcome, ...] = ()
    is_sent: bool = True

    @property
    def patch(self) -> tuple[Mapping[str, Any], ...]:
        return self.outcome.patch if self.outcome is not None else ()

    @property
    def result(self) -> Mapping[str, Any]:
        """The object after `patch`, applied as the API server applies it, whatever the engine says."""
        if not self.patch:
            return self.document.object
        result: Mapping[str, Any] = jsonpatch.apply_patch(self.document.object, self.patch)
        return result

    @property
    def title(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return printable(f"{self.document.kind} {place}{self.name}")

    @property
    def is_allowed(self) -> bool:
        return not any(finding.refuses for finding in self.findings)

    @property
    def is_completed(self) -> bool:
        """Whether the object, or some pods that it would make, are admitted with injections."""
        if self.outcome is not None:
            return self.is_allowed and bool(self.outcome.injections)
        return any(map(injected, self.pods))

    @property
    def violations(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.kind in (FindingKind.VIOLATION, FindingKind.MISSING))

    @property
    def warnings(self) -> Sequence[str]:
        return tuple(dict.fromkeys(finding.warning for finding in worst_first(self.findings) if finding.warns))


def injected(pods: TemplateOutcome) -> tuple[Injection, ...]:
    """The injections into the pods of a template; none if the pods are refused."""
    return () if pods.is_refused else pods.injections


@dataclass(frozen=True, slots=True)
class ReviewList:
    """All objects that were reviewed, and all documents that could not be read."""

    items: tuple[ReviewedObject, ...]
    errors: tuple[DocumentError, ...]

    @property
    def exit_status(self) -> int:
        """0: all allowed. 1: something refused. 2: unusable input, which beats 1."""
        if self.errors:
            return 2
        return 0 if all(item.is_allowed for item in self.items) else 1


class ExceptedPods:
    """The pods of a cluster for which exceptions hold, so that the claims that were made for them are judged alike.

    A stored claim does not say who made it. So its owner reference decides, together with the uid of the pod: in an
    audit, a claim of somebody who wrote a reference to an excepted pod counts as made for the pod.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], tuple[PodSubject, frozenset[str]]] = {}

    def learn(self, namespace: str, pod: Mapping[str, Any], subject: PodSubject) -> None:
        """Remember a pod that has claims from templates, or one for extended resources: of most clusters, few."""
        names, metadata = template_claims(pod), mapped(pod, "metadata")
        name, uid = metadata.get("name"), metadata.get("uid")
        owns = names or part(pod, "status", "extendedResourceClaimStatus") is not None
        if isinstance(name, str) and isinstance(uid, str) and owns:
            self._known[namespace, name, uid] = subject, names

    def subject_of(self, namespace: str, raw: Mapping[str, Any], kind: str) -> PodSubject:
        """What exceptions are compared with for an object: for a claim of a pod that was learned, the pod as well."""
        owner = claim_owner(raw) if kind == CLAIM else None
        found = None if owner is None else self._known.get((namespace, owner.name, owner.uid))
        if owner is None or found is None:
            return subject_of(raw, kind)
        pod, names = found
        is_made = owner.claim in names if owner.claim else is_for_extended_resources(raw)
        return subject_for_pod(raw, pod) if is_made else subject_of(raw, kind)


@dataclass(frozen=True, slots=True)
class ReviewContext:
    """Everything that decisions about objects depend on.

    Pods are entered in `ledgers` one after the other, so that the last pods are refused where all pods together exceed
    a quota. `now` is the moment for which exceptions and node pools are judged, in seconds since 1970. Claims of
    `excepted_pods` are judged with the exceptions of these pods.
    """

    policies: PolicySet
    facts: ClusterFacts
    ledgers: Ledgers
    now: float = field(default_factory=time.time)
    excepted_pods: ExceptedPods = field(default_factory=ExceptedPods)
    directory: str = ""
    """The directory of the policies, as reports name it."""
    scalers: Mapping[str, Sequence[Scaler]] = field(default_factory=dict)
    """Namespace -> what scales workloads there, among the reviewed objects."""
    drivers: Callable[..., Outcome | None] = lambda *_: None
    """Judges an object that changes the driver of nodes: by the object, policies, facts and time."""

    def around(self, namespace: str) -> engine.Around:

        def in_use(quota: Quota) -> InUse | None:
            with suppress(LedgerError):
                return self.ledgers.in_use(quota, namespace, _LEDGER_SECONDS)
            return None

        return engine.Around(in_use, self.scalers.get(namespace, ()))

    def in_force(self, namespace: str, raw: Mapping[str, Any], kind: str) -> InForce:
        return self.policies.in_force(namespace, lambda: self.excepted_pods.subject_of(namespace, raw, kind), self.now)

    def learn(self, namespace: str, pod: Mapping[str, Any]) -> None:
        """Remember a pod for which exceptions hold, before the claims that were made for it come."""
        if self.policies.exceptions.of(namespace):
            subject = subject_of(pod)
            if self.policies.in_force(namespace, lambda: subject, self.now).policy.exceptions:
                self.excepted_pods.learn(namespace, pod, subject)


def with_input_claims(
    facts: ClusterFacts, documents: Iterable[Document | DocumentError], namespace: str
) -> ClusterFacts:
    """The facts with the claims and claim templates among these documents, as if applied before the pods.

    What names no namespace is taken to be in `namespace`. Runtimes of TrainJobs are added as well. DeviceClasses,
    RuntimeClasses and PriorityClasses among the documents are added to those of the cluster, where these are known; so
    are objects that change drivers.
    """
    documents, cluster = list(documents), facts.cluster
    runtimes = [one.object for one in documents if isinstance(one, Document) and one.kind in RUNTIMES]
    cluster = cluster.with_runtimes(runtimes, namespace)
    for one in [one for one in documents if isinstance(one, Document)]:
        match one.kind, one.api_version.partition("/")[0]:
            case "DeviceClass", group if group == GROUP and cluster.device_classes:
                cluster = cluster.with_class("device_classes", one.object)
            case "RuntimeClass", "node.k8s.io" if cluster.runtime_classes:
                cluster = cluster.with_class("runtime_classes", one.object)
            case "PriorityClass", "scheduling.k8s.io" if cluster.priority_classes:
                cluster = cluster.with_class("priority_classes", one.object)
            case kind, _ if is_driver_object(one.object):
                cluster = cluster.with_class(OF_SNAPSHOT[kind], one.object)
    found = ((one, claim_from(one.object)) for one in documents if isinstance(one, Document))
    named = ((own_namespace(one) or namespace, claim) for one, claim in found if claim is not None)
    return replace(facts, cluster=cluster.with_more_claims(named))


def scalers_in(documents: Iterable[Document | DocumentError], namespace: str) -> dict[str, list[Scaler]]:
    """Namespace -> what scales workloads there; `namespace` is that of documents that name none."""
    found: dict[str, list[Scaler]] = {}
    for one in documents:
        if isinstance(one, Document) and (scaler := scaler_of(one.object)) is not None:
            found.setdefault(own_namespace(one) or namespace, []).append(scaler)
    return found


def review(documents: Iterable[Document | DocumentError], namespace: str, context: ReviewContext) -> ReviewList:
    """Review every document; `namespace` is the namespace of objects that name none.

    Workloads that a controller made, or that are being deleted, are allowed, because the webhook skips them, and so are
    objects of namespaces that it is never asked about.
    """
    items: list[ReviewedObject] = []
    errors: list[DocumentError] = []
    for document in documents:
        if isinstance(document, DocumentError):
            errors.append(document)
        elif is_never_sent(document, namespace):
            where = namespace_of(document, namespace)
            items.append(ReviewedObject(document, where, _name(document), None, is_sent=False))
        elif not is_pod(document.api_version, document.kind) and is_made_or_ending(document.object):
            items.append(ReviewedObject(document, namespace_of(document, namespace), _name(document), None))
        else:
            try:
                items.append(review_object(document, namespace, context))
            except ValueError as error:
                errors.append(document.error(str(error)))
    return ReviewList(tuple(items), tuple(errors))


def is_never_sent(document: Document, namespace: str) -> bool:
    """Whether the shipped registration excludes the namespace of the object, which is `namespace` if it names none."""
    return namespace_of(document, namespace) in NEVER_SENT


def review_object(
    document: Document, namespace: str, context: ReviewContext, *, is_running: bool = False
) -> ReviewedObject:
    """Review one document. A pod that `is_running` is in its quotas already.

    Raises ValueError, a ShapeError in nearly all cases, for a malformed pod or template.
    """
    where, name = namespace_of(document, namespace), _name(document)
    if is_driver_object(document.object):
        judged = context.drivers(document.object, context.policies, context.facts, context.now)
        return ReviewedObject(document, "", name, None, () if judged is None else judged.findings)
    context = replace(context, facts=replace(context.facts, asker=where))
    held = context.in_force(where, document.object, document.kind)
    policy = held.policy
    if is_pod(document.api_version, document.kind):
        outcome = engine.simulate(document.object, policy, context.facts, namespace=where)
        if not is_running:
            outcome = _reserved(outcome, document, where, context, held)
        return ReviewedObject(document, where, name, policy, outcome.findings, outcome)
    if engine.is_claim(document.object):
        found = engine.validate_claim(document.object, where, policy, context.facts).findings
        return ReviewedObject(document, where, name, policy, found)
    policy, quotas = context.policies.for_namespace(where).at(context.now), context.policies.quotas_for(where)
    has_exceptions = context.policies.exceptions.of(where)
    excepting = partial(context.policies.in_force, where, now=context.now) if has_exceptions else None
    around = context.around(where)
    if is_running:  # it holds its room already
        around = engine.Around(scalers=around.scalers)
    pods = engine.template_outcomes(
        document.object, where, policy, context.facts, quotas, excepting=excepting, around=around
    )
    if not pods:
        return ReviewedObject(document, own_namespace(document), name, None)
    findings = tuple(dict.fromkeys(finding for one in pods for finding in one.findings))
    return ReviewedObject(document, where, name, policy, findings, None, pods)


def _reserved(outcome: Outcome, document: Document, namespace: str, context: ReviewContext, held: InForce) -> Outcome:
    ledgers, uid = context.ledgers, _uid(mapped(document.object, "metadata"))
    groups = ledgers.context.groups
    return reserved(
        outcome,
        namespace,
        held.quotas,
        facts_under(held.policy, context.facts),
        lambda requests: ledgers.reserve(uid, requests, time.monotonic() + _LEDGER_SECONDS),
        ledgers.context.pods.seen,
        lambda: groups.of(document.object, namespace, _LEDGER_SECONDS) if groups is not None else None,
    )


def _name(document: Document) -> str:
    metadata = mapped(document.object, "metadata")
    return str(metadata.get("name") or metadata.get("generateName") or "")


def namespace_of(document: Document, namespace: str) -> str:
    """The namespace of the object, or `namespace` if it names none; empty for cluster-scoped kinds."""
    known = workload_of(document.api_version, document.kind)
    if known is not None and not known.is_namespaced:
        return ""
    return own_namespace(document) or namespace


def _uid(metadata: Mapping[str, Any]) -> bytes:
    """The key of a pod in ledgers: its uid, so that a pod of a cluster is not counted twice; else a random one."""
    try:
        return uid_bytes(str(metadata.get("uid")))
    except ValueError:
        return uuid4().bytes


Ask = Callable[[Iterable[str]], Mapping[str, ImageInfo]]
"""Asks registries about images, and waits for the answers: reference -> what is known."""

MOST_IMAGES = 2_000
"""Most images that one audit looks up."""

_AT_A_TIME = 200
_TOO_MANY = ImageInfo(problem=f"an audit looks up {MOST_IMAGES} images at most, and this image comes after them")


class LookedUpImages:
    """Images that were looked up. Implements `webhook.facts.facts.ImageSource`.

    Answers come from earlier look-ups. Other images that rules ask about are collected for the next look-up.
    """

    def __init__(self, ask: Ask, withheld: Callable[[str, str], ImageInfo | None] = lambda _image, _whom: None) -> None:
        """`withheld` says why a namespace may not know about an image; None if it may."""
        self._ask = ask
        self._withheld = withheld
        self._known: dict[str, ImageInfo] = {}
        self._wanted: dict[str, None] = {}

    def info(self, text: str, asker: str = "") -> ImageInfo:
        found = self._withheld(text, asker) or self._known.get(text)
        if found is not None:
            return found
        if len(self._known) + len(self._wanted) >= MOST_IMAGES:
            return _TOO_MANY
        self._wanted[text] = None
        return ImageInfo(is_pending=True)

    def before(
        self, documents: Iterable[Document | DocumentError], ask_about: Callable[[Document], object]
    ) -> Iterator[Document | DocumentError]:
        """The documents, in batches, each after a look-up of the images that `ask_about` has asked for.

        A ValueError of `ask_about` is left to those who judge the document.
        """
        documents = iter(documents)
        while batch := list(islice(documents, _AT_A_TIME)):
            for document in batch:
                if isinstance(document, Document):
                    with suppress(ValueError):
                        ask_about(document)
            if self._wanted:
                self._known.update(self._ask(list(self._wanted)))
                self._wanted.clear()
            yield from batch
