"""Whether an image runs on a node: one question, one answer, by the tables and rules of admission.

Questions may come as JSON lines.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from webhook.cuda.checks import Verdict
from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.gate import Gate
from webhook.cuda.need import BuiltFor, Compat, Need
from webhook.cuda.offer import Offer, offer_from
from webhook.cuda.verdict import Effect, judge
from webhook.model.image import NOT_LOOKED_UP, ImageInfo
from webhook.model.json_parts import text
from webhook.model.shape import spelled

_COMPATS = ", ".join(Compat)


@dataclass(frozen=True, slots=True)
class Question:
    """An image with the environment of its container, and a node as far as it is known.

    Versions are texts as people write them, or None if unknown. A value of `env` is None if it cannot be known.
    `notes` say which parts of the question were not understood.
    """

    image: str
    env: tuple[tuple[str, str | None], ...] = ()
    driver: str | None = None
    product: str | None = None
    compute_capability: str | None = None
    arch: str | None = None
    cuda_compat: str | None = None
    notes: tuple[str, ...] = ()

    def offer(self, tables: CudaTables = SHIPPED) -> Offer:
        return offer_from(
            driver=self.driver, product=self.product, compute=self.compute_capability, arch=self.arch, gpus=tables.gpus
        )


@dataclass(frozen=True, slots=True)
class ImageFit:
    """The answer to a question. `gate` is the result of the container toolkit's own check.

    `is_question` is false if the question could not be understood.
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
        """1 if incompatible, 2 if the question was not understood, else 0. Of several answers the largest counts."""
        if not self.is_question:
            return 2
        return 1 if self.verdict is Verdict.INCOMPATIBLE else 0

    def to_json(self) -> dict[str, str]:
        return {
            "image": self.image,
            "cuda": self.cuda,
            "evidence": self.evidence,
            "verdict": str(self.verdict),
            "legacyGate": str(self.gate),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known beforehand: CUDA versions by globs of images, configurations from registries, and the tables."""

    mapping: tuple[tuple[str, str], ...] = ()
    infos: Mapping[str, ImageInfo] = field(default_factory=lambda: MappingProxyType({}))
    tables: CudaTables = SHIPPED

    def need(self, question: Question) -> Need:
        """What the image needs. The question's answer about the cuda-compat package beats the evidence."""
        info = self.infos.get(question.image, NOT_LOOKED_UP)
        context = ImageContext(mapping=self.mapping, env=question.env, info=info, tables=self.tables)
        need = need_of(question.image, context)
        match question.cuda_compat:
            case None | Compat.UNKNOWN:
                return need
            case Compat.YES | Compat.NO as compat:
                return replace(need, compat=Compat(compat))
        note = f"cuda-compat is {spelled(question.cuda_compat)} and none of {_COMPATS}"
        return replace(need, notes=(*need.notes, note))

    def fit(self, question: Question, need: Need, offer: Offer) -> ImageFit:
        """Whether an image with this need runs on nodes with this offer; the reason names what could not be read."""
        judgement = judge(need, offer, self.tables).counting(Effect.FAILS, Effect.DOUBT)
        is_asked = need.kind is BuiltFor.CUDA and judgement.verdict is not Verdict.INCOMPATIBLE
        unknown = ("CPU architecture not known",) if is_asked and not need.architectures else ()
        notes = dict.fromkeys((*need.notes, *offer.problems, *question.notes, *unknown))
        own = judgement.libcuda
        beware = (f"beware: {own.reason}. {own.remedy}",) if own is not None and own.effect is Effect.MAY_FAIL else ()
        reason = "; ".join((judgement.reason, *(note for note in notes if note not in judgement.reason), *beware))
        return ImageFit(question.image, need.spelled, need.evidence, judgement.verdict, judgement.gate, reason)

    def answer(self, question: Question) -> ImageFit:
        return self.fit(question, self.need(question), question.offer(self.tables))


_KEYS = ("image", "env", "driver", "product", "compute-capability", "arch", "cuda-compat")


def read_questions(lines: Iterable[bytes]) -> Iterator[Question | ImageFit]:
    """One question for each line that is not empty; for a line that cannot be read, the answer that says so."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        found: object = None
        try:
            found = _parsed(line)
            yield _question(found)
        except ValueError as error:
            image, reason = text(found, "image"), f"line {number}: {error}"
            yield ImageFit(image, "unknown", "none", Verdict.UNKNOWN, Gate.UNKNOWN, reason, is_question=False)


def _parsed(line: bytes) -> Any:
    """The JSON value of a line. Numbers stay texts as they are written, so that 12.10 is not 12.1."""
    try:
        return json.loads(line.decode("utf-8-sig"), parse_float=str, parse_int=str, parse_constant=str)
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.colno}") from None
    except RecursionError:
        raise ValueError("not JSON: nested too deeply") from None


def _question(found: object) -> Question:
    if not isinstance(found, dict):
        message = f'found {spelled(found)}; write an object such as {{"image": "nvidia/cuda:12.4.1-base"}}'
        raise ValueError(message)  # noqa: TRY004  # a line of a file, not an argument
    texts = {key: _text(found.get(key), key) for key in _KEYS if key not in ("env", "cuda-compat")}
    image = texts["image"]
    if not image:
        raise ValueError('no image; write an object such as {"image": "nvidia/cuda:12.4.1-base"}')
    unknown = [spelled(key) for key in found if key not in _KEYS]
    note = f"ignored {', '.join(unknown[:3])}; known keys are {', '.join(_KEYS)}"
    return Question(
        image,
        _env(found.get("env")),
        texts["driver"],
        texts["product"],
        texts["compute-capability"],
        texts["arch"],
        _text(found.get("cuda-compat"), "cuda-compat", "no", "yes"),
        (note,) if unknown else (),
    )


def _env(found: object) -> tuple[tuple[str, str | None], ...]:
    if found is None:
        return ()
    if not isinstance(found, dict):
        message = f"env: found {spelled(found)}; write an object of names and values"
        raise ValueError(message)  # noqa: TRY004  # as above
    return tuple((str(name), _text(value, f"env.{name}"[:80], "false", "true")) for name, value in found.items())


def _text(found: object, key: str, *words: str) -> str | None:
    """A text. `words` are what false and true mean, because YAML reads words such as no as booleans."""
    if found is None or isinstance(found, str):
        return found
    if isinstance(found, bool) and words:
        return words[found]
    raise ValueError(f"{key}: found {spelled(found)}; write a string")
