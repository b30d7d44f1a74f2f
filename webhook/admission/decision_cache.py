"""A cache of decisions for pods that are alike. A controller makes many such pods, and all of them get one answer.

The key of a decision has all that it depends on: the pod's likeness (`webhook.model.likeness`), its namespace, the
policies with the exceptions that hold for it and the drivers that node pools have by now, the snapshot of the cluster,
and what was known about its images.
Registries are asked about the images of every pod. A new snapshot or policy drops all decisions, and a decision under
an exception is not found any more once it has ended. Quotas are not part of a decision: ledgers are asked for every
pod.

Decisions are not cached for pods without a controller, for the first pod of a controller, and after two pods in a row
that were like no other: rare pods cost no extra time. A controller is known by its uid, which anybody can write; a
false uid costs its author's pods a little more time, and changes no decision.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import is_
from threading import Lock
from typing import NamedTuple
from weakref import ref

import orjson

from webhook.admission.admission_review import AdmissionRequest, AdmissionResponse
from webhook.admission.phases import NO_TIME, NODES, Decision, in_force
from webhook.engine.quota_claims import QuotaClaims
from webhook.facts.facts import ClusterFacts
from webhook.facts.snapshot import Snapshot
from webhook.model.image import ImageInfo
from webhook.model.likeness import Likeness, likeness_of
from webhook.model.workloads import controller_of, is_pod
from webhook.outcome import Finding, Injection, Outcome
from webhook.policy.exceptions import AppliedException
from webhook.policy.policy_set import Policy, PolicySet
from webhook.quota.quotas import Demand

MOST_KEPT = 1024
"""Most decisions in the cache."""
MOST_BYTES = 4 * 1024**2
"""Most bytes of all cached decisions; a decision without room clears the cache."""
MOST_MET = 4096
"""Most controllers that are known to have made a pod; one more clears the list."""
TRIES = 2
"""Pods of one controller in a row that are like no other; after them its pods are not cached any more."""
_LONGEST_UID = 64
_MOST_FINDINGS = 8
"""Most findings of a cached decision. A refused pod is decided anew every time."""
_OF_AN_OPERATION, _OF_A_FINDING, _OF_AN_IMAGE, _OF_A_CLAIM, _OF_A_DECISION = 600, 600, 1000, 2000, 1000
_OF_A_ROOM, _OF_DEVICES = 500, 300
"""Bytes of memory that each of these takes besides its texts."""

Decide = Callable[[AdmissionRequest, PolicySet, ClusterFacts, Sequence[PolicySet], float], Decision]


class DecisionCache:
    """The decisions of one phase, cached for pods that are alike. Threads may share it.

    The outcome of a cached decision has the object of the request, and injections without their edits; the answer has
    the patch.
    """

    def __init__(self, decide: Decide) -> None:
        self._decide = decide
        self._cached = _SnapshotDecisions((), None)
        self._tries: dict[str, int] = {}
        """Controller -> how many more pods in a row may be like no other, before its pods are no longer cached."""

    def decision(
        self, request: AdmissionRequest, sets: tuple[PolicySet, ...], facts: ClusterFacts, now: float = NO_TIME
    ) -> Decision:
        """The decision about a request under the first of the policy sets; the others are recent ones.

        `now` is in seconds since 1970. Raises what `decide` raises.
        """
        controller = self._controller_to_try(request)
        policies = [in_force(request, one, now).policy for one in sets] if controller else []
        likeness = _likeness(request, policies) if controller else None
        if likeness is None:
            return self._decide(request, sets[0], facts, sets[1:], now)
        cached = self._cached
        if not cached.are_of(sets, facts.cluster):
            cached = self._cached = _SnapshotDecisions(sets, ref(facts.cluster))
        exceptions = tuple([one.exceptions for one in policies if one.exceptions])
        changes = tuple([one.changes for one in policies if one.changes])
        key = _Key(request.namespace, likeness.text, exceptions, changes)
        known = cached.decisions.get(key)
        if known is not None and known.holds(facts):
            self._tries[controller] = TRIES
            return known.about(request)
        self._tries[controller] = self._tries.get(controller, TRIES) - 1
        images = _RecordedImages(facts)
        decision = self._decide(request, sets[0], facts.with_images(images), sets[1:], now)
        if images.are_steady and (known := _CachedDecision.of_all(decision, images.known, likeness.volume)) is not None:
            cached.keep(key, known)
        return decision

    def _controller_to_try(self, request: AdmissionRequest) -> str:
        """The controller of a new pod that may be like another pod; empty where the cache is not used."""
        raw = request.object
        if raw is None or request.operation != "CREATE" or request.subresource or NODES in request.user_groups:
            return ""
        if not is_pod(request.api_version, request.kind) or (controller := controller_of(raw)) is None:
            return ""
        uid = controller.get("uid")
        if not isinstance(uid, str) or len(uid) > _LONGEST_UID:
            return ""
        uid = f"{request.namespace}/{uid}"  # or a tenant could end caching for the controllers of others
        left = self._tries.get(uid)
        if left is not None:
            return uid if left > 0 else ""
        if len(self._tries) >= MOST_MET:
            self._tries = {}
        self._tries[uid] = TRIES
        return ""


class _Key(NamedTuple):
    """What a decision depends on, besides policies and facts."""

    namespace: str
    text: bytes
    exceptions: tuple[tuple[AppliedException, ...], ...]
    """Those that hold for the pod under each of the policy sets."""
    changes: tuple[tuple[float, ...], ...]
    """The changes of node pools that are still to come under each of the policy sets."""


@dataclass(frozen=True, slots=True)
class _CachedDecision:
    """A cached decision, and what was known about each image that it asked about."""

    answer: AdmissionResponse
    outcome: Outcome
    claims: QuotaClaims
    images: tuple[tuple[str, ImageInfo], ...]
    size: int
    """About how many bytes of memory it takes."""

    @classmethod
    def of_all(
        cls, decision: Decision, images: tuple[tuple[str, ImageInfo], ...], volume: str
    ) -> "_CachedDecision | None":
        """A decision for the cache; None where it is refused, has many findings, or names the `volume` of one pod."""
        outcome = decision.outcome
        if outcome is None or not decision.answer.is_allowed or len(outcome.findings) > _MOST_FINDINGS:
            return None
        patch, texts = orjson.dumps(outcome.patch), [text for one in outcome.findings for text in _texts(one)]
        if volume and (volume.encode() in patch or any(volume in text for text in texts)):
            return None
        size = _OF_A_DECISION + 2 * (len(patch) + sum(map(len, texts))) + len(outcome.patch) * _OF_AN_OPERATION
        size += len(outcome.findings) * _OF_A_FINDING + len(images) * _OF_AN_IMAGE
        size += sum(_OF_A_CLAIM + _size(one.claim.reserved) for one in decision.claims.claims)
        injections = tuple([Injection(one.rule, (), one.origin, one.line) for one in outcome.injections])
        shared = Outcome(outcome.policy, {}, outcome.findings, outcome.patch, injections)  # no part of the first pod
        return cls(decision.answer, shared, decision.claims, images, size)

    def holds(self, facts: ClusterFacts) -> bool:
        """Whether no image is known differently by now. Asking may start look-ups, as for any other pod."""
        return all(facts.image(image) == info for image, info in self.images)

    def about(self, request: AdmissionRequest) -> Decision:
        """The decision about the pod of another request."""
        known = self.outcome
        outcome = Outcome(known.policy, request.object or {}, known.findings, known.patch, known.injections)
        return Decision(self.answer, outcome, self.claims)


def _size(reserved: Sequence[tuple[str, Demand]]) -> int:
    """About how many bytes the room takes that a pod brings for claims; each device request is there twice."""
    devices = sum([len(request) for _, demand in reserved for request in demand.requests])
    return len(reserved) * _OF_A_ROOM + 2 * devices * _OF_DEVICES


class _SnapshotDecisions:
    """The decisions under some policy sets and one snapshot. It does not keep the snapshot alive."""

    def __init__(self, sets: tuple[PolicySet, ...], snapshot: "ref[Snapshot] | None") -> None:
        self.sets = sets
        self.snapshot = snapshot
        self.decisions: dict[_Key, _CachedDecision] = {}
        self._room = MOST_BYTES
        self._lock = Lock()

    def are_of(self, sets: tuple[PolicySet, ...], snapshot: Snapshot) -> bool:
        """Whether the decisions were made under these policy sets and this snapshot."""
        if self.snapshot is None or self.snapshot() is not snapshot or len(self.sets) != len(sets):
            return False
        return all(map(is_, self.sets, sets))  # equal sets may have other line numbers, which findings name

    def keep(self, key: _Key, known: _CachedDecision) -> None:
        """Add a decision; clears the others where there is no room for it."""
        size = len(key.text) + known.size
        if size > MOST_BYTES:
            return
        with self._lock:
            if size > self._room or len(self.decisions) >= MOST_KEPT:
                self.decisions.clear()
                self._room = MOST_BYTES
            self._room -= size
            self.decisions[key] = known


class _RecordedImages:
    """Asks about images, and records the answers. Implements `webhook.facts.facts.ImageSource`."""

    def __init__(self, facts: ClusterFacts) -> None:
        self._facts = facts
        self.seen: dict[str, ImageInfo] = {}
        self.are_steady = True
        """Whether all answers about one image were equal."""

    @property
    def known(self) -> tuple[tuple[str, ImageInfo], ...]:
        """Each image with what is known about it."""
        return tuple(self.seen.items())

    def info(self, text: str, asker: str = "") -> ImageInfo:  # noqa: ARG002  # the facts know on whose behalf
        """What is known of the image at this moment."""
        found = self._facts.image(text)
        self.are_steady = self.are_steady and self.seen.setdefault(text, found) == found
        return found


def _likeness(request: AdmissionRequest, policies: Sequence[Policy]) -> Likeness | None:
    """The likeness of the pod of a request; None where the cache is not used for it."""
    labels = [policy.labels for policy in policies]
    return likeness_of(request.object or {}, labels[0] if len(labels) == 1 else frozenset().union(*labels))


def _texts(finding: Finding) -> tuple[str, ...]:
    return finding.field, finding.message, finding.remedy
