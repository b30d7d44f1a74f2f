"""Decisions about pods that are alike: controllers make many pods that say the same, and are told the same.

A decision is remembered by all that it follows from: what the pod says (`webhook.model.likeness`), its namespace, the
policies, the snapshot of the cluster, and what was known of its images, about which the registries are asked again for
every pod. A snapshot or policy that is replaced takes its decisions with it. Quotas are no part of it: they are asked
about every pod.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import NamedTuple
from weakref import ref

import orjson

from webhook.admission.phases import NODES, Decision
from webhook.admission.review import Answer, Request
from webhook.engine.quotas import Claims
from webhook.model.image import ImageSight
from webhook.model.likeness import Likeness, likeness_of
from webhook.model.workloads import is_pod
from webhook.outcome import Finding, Outcome
from webhook.policy.policy_set import PolicySet
from webhook.registry.sight import WithImages
from webhook.rules.rule import Facts

MOST_KEPT = 1024
"""Decisions that are remembered."""
MOST_BYTES = 4 * 1024**2
"""Bytes of all of them; when there is no room for one more, all are forgotten."""
_MOST_FINDINGS = 8
"""Of a decision that is remembered. Refused pods are judged anew every time."""
_OF_AN_OPERATION, _OF_A_FINDING, _OF_AN_IMAGE, _OF_A_CLAIM, _OF_A_DECISION = 600, 600, 1000, 2000, 1000
"""Bytes of memory that each takes beside its texts."""

Decide = Callable[[Request, PolicySet, Facts, Sequence[PolicySet]], Decision]


class Alike:
    """One phase that decides once about pods that are alike. Threads may ask at the same time.

    The outcome of a decision that was remembered has the object that came in, and injections without their edits: the
    answer has what is to be changed.
    """

    def __init__(self, decide: Decide) -> None:
        self._decide = decide
        self._kept = _Kept((), None)

    def decision(self, request: Request, sets: tuple[PolicySet, ...], snapshot: Facts, facts: Facts) -> Decision:
        """What `decide` says of a request under the first of the policy sets, the others being recent ones.

        `facts` are those of the snapshot and what is known of images. Raises what `decide` raises.
        """
        current, *recent = sets
        said = _said(request, sets)
        if said is None:
            return self._decide(request, current, facts, recent)
        kept = self._kept
        if not kept.are_of(sets, snapshot):
            kept = self._kept = _Kept(sets, ref(snapshot))
        key = _Key(request.namespace, said.text)
        known = kept.decisions.get(key)
        if known is not None and known.holds(facts):
            return known.about(request)
        images = _Noted(facts)
        decision = self._decide(request, current, WithImages(snapshot, images), recent)
        outcome = decision.outcome
        if outcome is not None and images.are_steady and _is_of_all(outcome, said.volume):
            injections = tuple(replace(one, edits=()) for one in outcome.injections)  # edits hold parts of their pod
            shared = replace(outcome, object={}, injections=injections)
            kept.keep(key, _Known(decision.answer, shared, decision.claims, images.known))
        return decision


class _Key(NamedTuple):
    """What decides a request, beside policies and facts."""

    namespace: str
    text: bytes


@dataclass(frozen=True, slots=True)
class _Known:
    """A decision that is remembered, and what was known of each image that it asked about."""

    answer: Answer
    outcome: Outcome
    claims: Claims
    images: tuple[tuple[str, ImageSight], ...]

    def holds(self, facts: Facts) -> bool:
        """Whether as much is known of the images as then. Asking may have them looked up, as for any other pod."""
        return all(facts.image(image) == sight for image, sight in self.images)

    def about(self, request: Request) -> Decision:
        """The same about a pod alike."""
        return Decision(self.answer, replace(self.outcome, object=request.object or {}), self.claims)

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        patch, findings = self.outcome.patch, self.outcome.findings
        texts = len(orjson.dumps(patch)) + sum(sum(map(len, _texts(finding))) for finding in findings)
        parts = len(patch) * _OF_AN_OPERATION + len(findings) * _OF_A_FINDING + len(self.images) * _OF_AN_IMAGE
        return _OF_A_DECISION + 2 * texts + parts + len(self.claims.claims) * _OF_A_CLAIM


class _Kept:
    """The decisions under some policy sets and one snapshot, which is not kept alive for them."""

    def __init__(self, sets: tuple[PolicySet, ...], snapshot: "ref[Facts] | None") -> None:
        self.sets = sets
        self.snapshot = snapshot
        self.decisions: dict[_Key, _Known] = {}
        self._room = MOST_BYTES
        self._lock = Lock()

    def are_of(self, sets: tuple[PolicySet, ...], snapshot: Facts) -> bool:
        """Whether they hold under these."""
        return self.sets == sets and self.snapshot is not None and self.snapshot() is snapshot

    def keep(self, key: _Key, known: _Known) -> None:
        """Remember one more; all others are forgotten where there is no room for it."""
        size = len(key.text) + known.size
        if size > MOST_BYTES:
            return
        with self._lock:
            if size > self._room or len(self.decisions) >= MOST_KEPT:
                self.decisions.clear()
                self._room = MOST_BYTES
            self._room -= size
            self.decisions[key] = known


class _Noted:
    """Asks about images, and keeps what it was told. Implements Sights."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.seen: dict[str, ImageSight] = {}
        self.are_steady = True
        """Whether all that was said of one image was the same."""

    @property
    def known(self) -> tuple[tuple[str, ImageSight], ...]:
        """Each image with what is known of it."""
        return tuple(self.seen.items())

    def sight(self, text: str, asker: str = "") -> ImageSight:  # noqa: ARG002  # the facts know on whose behalf
        """What is known of the image at this moment."""
        found = self._facts.image(text)
        self.are_steady = self.are_steady and self.seen.setdefault(text, found) == found
        return found


def _said(request: Request, sets: Sequence[PolicySet]) -> Likeness | None:
    """What a request says that decides it; None where it is decided by itself: all but pods that are created."""
    raw = request.object
    if raw is None or request.operation != "CREATE" or request.subresource or NODES in request.user_groups:
        return None
    if not is_pod(request.api_version, request.kind):
        return None
    labels = [policies.for_namespace(request.namespace).labels for policies in sets]
    return likeness_of(raw, labels[0] if len(labels) == 1 else frozenset().union(*labels))


def _is_of_all(outcome: Outcome, volume: str) -> bool:
    """Whether an outcome that little was said in is that of all pods alike: it does not name the `volume` of one."""
    findings = outcome.findings
    if outcome.refusals or len(findings) > _MOST_FINDINGS:
        return False
    if not volume:
        return True
    is_named = any(volume in text for finding in findings for text in _texts(finding))
    return not is_named and volume.encode() not in orjson.dumps(outcome.patch)


def _texts(finding: Finding) -> tuple[str, ...]:
    return finding.field, finding.message, finding.remedy, finding.brief
