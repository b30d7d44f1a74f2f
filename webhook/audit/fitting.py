"""Whether an image runs on a node: one question, one answer, by the same tables and rules as in admission."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.gate import Gate
from webhook.cuda.need import Compat, Need
from webhook.cuda.offer import Offer, offer_from
from webhook.cuda.verdict import Verdict, judge
from webhook.model.image import NOT_LOOKED_UP, ImageInfo
from webhook.model.shape import spelled

_COMPATS = ", ".join(Compat)


@dataclass(frozen=True, slots=True)
class Question:
    """An image with the environment of its container, and a node as far as it is known.

    Versions are texts as people write them, None where nobody said. `env` holds None for a value that cannot be seen.
    `notes` say what of the question was not understood.
    """

    image: str
    env: tuple[tuple[str, str | None], ...] = ()
    driver: str | None = None
    product: str | None = None
    compute_capability: str | None = None
    arch: str | None = None
    cuda_compat: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def offer(self) -> Offer:
        """What the node offers; what cannot be read of it is unknown, and among its problems."""
        return offer_from(driver=self.driver, product=self.product, compute=self.compute_capability, arch=self.arch)


@dataclass(frozen=True, slots=True)
class ImageFit:
    """What became of a question. `gate` is the finding of the container toolkit's own check.

    `is_question` is false where nothing sensible was asked.
    """

    image: str
    cuda: str
    evidence: str
    verdict: Verdict
    gate: Gate
    reason: str
    is_question: bool = True

    @property
    def exit_status(self) -> int:
        """1 for what is incompatible, 2 for what was no question; of several answers, the largest counts."""
        if not self.is_question:
            return 2
        return 1 if self.verdict is Verdict.INCOMPATIBLE else 0

    def to_json(self) -> dict[str, str]:
        """The answer as programs get it; its keys are a contract."""
        return {
            "image": self.image,
            "cuda": self.cuda,
            "evidence": self.evidence,
            "verdict": str(self.verdict),
            "legacyGate": str(self.gate),
            "reason": self.reason,
        }


def no_answer(image: str, reason: str) -> ImageFit:
    """The answer to what is no question."""
    return ImageFit(image, "unknown", "none", Verdict.UNKNOWN, Gate.UNKNOWN, reason, is_question=False)


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known of images beforehand: what the policy says of globs, and what registries said of images."""

    mapping: tuple[tuple[str, str], ...] = ()
    sights: Mapping[str, ImageInfo] = field(default_factory=lambda: MappingProxyType({}))

    def need(self, question: Question) -> Need:
        """What the image needs. What the question says of the cuda-compat package beats the evidence."""
        sight = self.sights.get(question.image, NOT_LOOKED_UP)
        need = need_of(
            question.image, ImageContext(mapping=self.mapping, env=question.env, annotation=None, sight=sight)
        )
        match question.cuda_compat:
            case None | Compat.UNKNOWN:
                return need
            case Compat.YES | Compat.NO as compat:
                return replace(need, compat=Compat(compat))
        note = f"cuda-compat is {spelled(question.cuda_compat)} and none of {_COMPATS}"
        return replace(need, notes=(*need.notes, note))

    def answer(self, question: Question) -> ImageFit:
        """Whether the image runs on the node of the question."""
        return fit(question, self.need(question), question.offer)


def fit(question: Question, need: Need, offer: Offer) -> ImageFit:
    """Whether what needs this runs where this is offered; the reason names everything that could not be read."""
    judgement = judge(need, offer)
    notes = (note for note in (*need.notes, *offer.problems, *question.notes) if note not in judgement.reason)
    reason = "; ".join((judgement.reason, *dict.fromkeys(notes)))
    return ImageFit(question.image, need.spelled, need.evidence, judgement.verdict, judgement.gate, reason)
