"""The answer of `gpu-policy why`, as values: one reason, its evidence, what to do, and what could not be read.

All texts may come from tenants. They are cut here, and made printable where they are shown.
"""

import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from webhook.audit.report import ObjectReference
from webhook.model.shape import shortened
from webhook.model.wording import cut_at_a_word

LONGEST_TEXT = 2_000
"""Characters of a message, a remedy or a piece of evidence."""
LONGEST_PART = 300
"""Characters of one of several texts that a sentence names, such as the fault of a node."""


class ReasonCode(StrEnum):
    """The dominant reason, the gravest first. The names are a contract: docs/why.md explains each."""

    REFUSED = "Refused"
    OVER_QUOTA = "OverQuota"
    FITS_NOWHERE = "FitsNowhere"
    KEPT_OFF = "KeptOff"
    WITHOUT_GPU = "WithoutGpu"
    NODE_NOT_READY = "NodeNotReady"
    IMAGE_FAILING = "ImageFailing"
    NOT_STARTING = "NotStarting"
    CRASHING = "Crashing"
    FAILED = "Failed"
    NODES_UNAVAILABLE = "NodesUnavailable"
    UNSCHEDULABLE = "Unschedulable"
    BUSY = "Busy"
    QUEUED = "Queued"
    GATED = "Gated"
    NOT_SCHEDULED = "NotScheduled"
    IMAGE_PULLING = "ImagePulling"
    STARTING = "Starting"
    NOT_READY = "NotReady"
    SUSPENDED = "Suspended"
    PAUSED = "Paused"
    SCALED_TO_ZERO = "ScaledToZero"
    TOO_FEW_PODS = "TooFewPods"
    NO_PODS = "NoPods"
    TERMINATING = "Terminating"
    UNKNOWN = "Unknown"
    NO_GPUS = "NoGpus"
    HEALTHY = "Healthy"
    FINISHED = "Finished"

    @property
    def rank(self) -> int:
        """0 for the gravest reason."""
        return list(ReasonCode).index(self)

    @property
    def is_good(self) -> bool:
        return self in {ReasonCode.HEALTHY, ReasonCode.FINISHED}


@dataclass(frozen=True, slots=True)
class Clue:
    """A piece of evidence: what was seen, and where, such as `event FailedCreate of Job train` or `nodes`."""

    source: str
    message: str


@dataclass(frozen=True, slots=True)
class MissingAnswer:
    """Something that could not be read, and what is unknown for that reason.

    `namespace` is empty for the whole cluster, `verb` if none was asked. `fault` says why; empty for a missing right.
    """

    verb: str
    resource: str
    namespace: str
    unknown: str
    fault: str = ""

    @property
    def right(self) -> str:
        where = f"in namespace {self.namespace}" if self.namespace else "in the cluster"
        return f"`{self.verb} {self.resource}` {where}"

    def __str__(self) -> str:
        if self.fault:
            return f"{self.unknown} is not known: {f'{self.right} failed: ' * bool(self.verb)}{self.fault}"
        return f"to know {self.unknown}, you need {self.right}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """One reason. `message` and `remedy` are sentences without a full stop; `remedy` is empty if there is none.

    A command in a remedy stands whole on its last line, so that it can be copied.
    """

    code: ReasonCode
    message: str
    remedy: str = ""
    evidence: tuple[Clue, ...] = ()

    def with_evidence(self, *clues: Clue) -> "Explanation":
        return replace(self, evidence=tuple(dict.fromkeys((*self.evidence, *clues))))

    @property
    def bounded(self) -> "Explanation":
        clues = (Clue(shortened(one.source, 300), cut_at_a_word(one.message, LONGEST_TEXT)) for one in self.evidence)
        message, remedy = (cut_at_a_word(one, LONGEST_TEXT) for one in (self.message, self.remedy))
        return Explanation(self.code, message, remedy, tuple(clues))


@dataclass(frozen=True, slots=True)
class PodsAlike:
    """Pods of a workload with one reason: how many they are, and the names of the first ones.

    `is_over`: they have finished or failed, perhaps as earlier attempts of a workload that goes on.
    """

    explanation: Explanation
    count: int
    names: tuple[str, ...]
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole answer about an object. `pods` are those of a workload, in the order of `gravest`."""

    object: ObjectReference
    explanation: Explanation
    missing: tuple[MissingAnswer, ...] = ()
    pods: tuple[PodsAlike, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The answer for programs; its keys are a contract."""
        found = self.explanation
        missing = [{**asdict(one), "message": str(one)} for one in self.missing]
        return {
            "apiVersion": self.object.api_version,
            "kind": self.object.kind,
            "namespace": self.object.namespace,
            "name": self.object.name,
            "reason": str(found.code),
            "message": found.message,
            "evidence": [asdict(clue) for clue in found.evidence],
            "remedy": found.remedy,
            "missing": [{key: one[key] for key in one if key != "fault"} for one in missing],
            "pods": [
                {
                    "reason": str(one.explanation.code),
                    "message": one.explanation.message,
                    "count": one.count,
                    "names": list(one.names),
                }
                for one in self.pods
            ],
        }


def by_command(what: str, *words: str) -> str:
    """A remedy: what to do, and the command for it on a line of its own, with its words quoted for a shell."""
    return f"{what}:\n{shlex.join(words)}"


def gravest(found: Iterable[PodsAlike]) -> tuple[PodsAlike, ...]:
    """Pods by reason, the gravest first; of one reason the most pods first. Pods that are over come last."""
    return tuple(sorted(found, key=lambda one: (one.is_over, one.explanation.code.rank, -one.count, one.names)))
