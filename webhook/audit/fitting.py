"""Whether an image runs on a node: one question, one answer, by the same tables and rules as in admission.

The second half prints these answers for people at a terminal.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from rich.console import Console
from rich.table import Table
from rich.text import Text

from webhook.audit.node_kinds import NodeKind
from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.gate import Gate
from webhook.cuda.need import BuiltFor, Compat, Need
from webhook.cuda.offer import Offer, offer_from
from webhook.cuda.remedies import remedy_for
from webhook.cuda.verdict import Verdict, judge
from webhook.model.image import NOT_LOOKED_UP, ImageInfo
from webhook.model.shape import spelled
from webhook.outcome import printable

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

    def offer(self, tables: CudaTables = SHIPPED) -> Offer:
        """What the node offers. Parts that cannot be read are unknown, and listed in its problems."""
        return offer_from(
            driver=self.driver,
            product=self.product,
            compute=self.compute_capability,
            arch=self.arch,
            gpus=tables.gpus,
        )


@dataclass(frozen=True, slots=True)
class ImageFit:
    """The answer to a question. `gate` is the result of the container toolkit's own check.

    `is_question` is false where the question could not be understood.
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
        """1 for incompatible, 2 for no question, else 0; of several answers the largest counts."""
        if not self.is_question:
            return 2
        return 1 if self.verdict is Verdict.INCOMPATIBLE else 0

    def to_json(self) -> dict[str, str]:
        """The answer for programs; its keys are a contract."""
        return {
            "image": self.image,
            "cuda": self.cuda,
            "evidence": self.evidence,
            "verdict": str(self.verdict),
            "legacyGate": str(self.gate),
            "reason": self.reason,
        }


def no_answer(image: str, reason: str) -> ImageFit:
    """The answer to a question that cannot be understood."""
    return ImageFit(image, "unknown", "none", Verdict.UNKNOWN, Gate.UNKNOWN, reason, is_question=False)


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known beforehand: what the policy says of globs, what registries said of images, and the tables."""

    mapping: tuple[tuple[str, str], ...] = ()
    infos: Mapping[str, ImageInfo] = field(default_factory=lambda: MappingProxyType({}))
    tables: CudaTables = SHIPPED

    def need(self, question: Question) -> Need:
        """What the image needs. What the question says of the cuda-compat package beats the evidence."""
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

    def answer(self, question: Question) -> ImageFit:
        """Whether the image runs on the node of the question."""
        return fit(question, self.need(question), question.offer(self.tables), self.tables)


def fit(question: Question, need: Need, offer: Offer, tables: CudaTables = SHIPPED) -> ImageFit:
    """Whether an image with this need runs on nodes with this offer; the reason names what could not be read."""
    judgement = judge(need, offer, tables)
    notes = (note for note in (*need.notes, *offer.problems, *question.notes) if note not in judgement.reason)
    reason = "; ".join((judgement.reason, *dict.fromkeys(notes)))
    return ImageFit(question.image, need.spelled, need.evidence, judgement.verdict, judgement.gate, reason)


_STYLES = {
    Verdict.COMPATIBLE: "green",
    Verdict.INCOMPATIBLE: "bold red",
    Verdict.FORWARD_COMPAT_ONLY: "bold yellow",
    Verdict.UNKNOWN: "yellow",
}
_GATES = {
    Gate.PASS: "lets it start",
    Gate.FAIL: "refuses to start it (before version 1.18, or in legacy mode)",
}
_TELL = "Say what it needs, under images: in a policy or by --env CUDA_VERSION=..., or ask its registry with --resolve."
_WIDTH = max(map(len, _STYLES)) + 2


def render_answer(answer: ImageFit, need: Need, offer: Offer, console: Console, tables: CudaTables = SHIPPED) -> None:
    """One image, one node."""
    _paragraph(answer, answer.image, console)
    _line(console, _needs(need))
    _finding(answer, console)
    if answer.verdict is Verdict.INCOMPATIBLE:
        _line(console, remedy_for(answer.image, need, (offer,), tables) + ".")
    else:
        _advice(need, console)


def render_by_kind(
    image: str,
    need: Need,
    answers: Sequence[tuple[NodeKind, ImageFit]],
    console: Console,
    tables: CudaTables = SHIPPED,
) -> None:
    """One image, and every kind of node."""
    title = Text(printable(image), style="bold")
    console.print(title.append(f" {printable(_needs(need))}", "not bold"), soft_wrap=True)
    for kind, answer in answers:
        _paragraph(answer, str(kind), console)
        _finding(answer, console)
    if not answers:
        _line(console, "no node with an NVIDIA GPU is known")
    if {answer.verdict for _, answer in answers} == {Verdict.INCOMPATIBLE}:
        _line(console, remedy_for(image, need, [kind.offer for kind, _ in answers], tables) + ".")
    else:
        _advice(need, console)


def render_kinds(kinds: Iterable[NodeKind], console: Console) -> None:
    """The kinds of nodes as a table, and what could not be read of their labels."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("PRODUCT", "DRIVER", "NEWEST CUDA", "ARCH"):
        table.add_column(title, overflow="fold")
    for title in ("NODES", "GPUS"):
        table.add_column(title, justify="right")
    problems: dict[str, None] = {}
    for kind in kinds:
        offer = kind.offer
        known = (offer.product, offer.driver, kind.newest_cuda, offer.arch)
        table.add_row(*(Text(printable(str(part or "-"))) for part in known), str(kind.count), str(kind.gpus))
        problems |= dict.fromkeys(offer.problems)
    console.print(table)
    for problem in problems:
        console.print(Text(printable(problem), style="yellow"), soft_wrap=True)


def _paragraph(answer: ImageFit, title: str, console: Console) -> None:
    line = Text(f"{answer.verdict:<{_WIDTH}}", style=_STYLES[answer.verdict])
    console.print(line.append(printable(title), style="bold"), soft_wrap=True)


def _needs(need: Need) -> str:
    if need.cuda is not None:
        return f"needs CUDA {need.cuda}: {need.evidence}"
    if need.kind is BuiltFor.UNKNOWN:
        return "does not say which CUDA it needs"
    return f"needs {'CUDA of an unknown version' if need.kind is BuiltFor.CUDA else 'no CUDA'}: {need.evidence}"


def _finding(answer: ImageFit, console: Console) -> None:
    _line(console, answer.reason)
    if answer.gate in _GATES:
        _line(console, f"the container toolkit's own check: {_GATES[answer.gate]}")


def _advice(need: Need, console: Console) -> None:
    """What to do where nobody knows what the image needs."""
    if need.kind is BuiltFor.UNKNOWN:
        _line(console, _TELL)


def _line(console: Console, text: str) -> None:
    console.print(Text(f"    {printable(text)}"), soft_wrap=True)
