"""Answers about images and nodes for people at a terminal."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from webhook.audit.fitting import ImageFit
from webhook.audit.node_kinds import NodeKind
from webhook.cuda.gate import Gate
from webhook.cuda.landing import remedy_for
from webhook.cuda.need import BuiltFor, Need
from webhook.cuda.offer import Offer
from webhook.cuda.verdict import Verdict
from webhook.outcome import printable

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


def render_answer(answer: ImageFit, need: Need, offer: Offer, console: Console) -> None:
    """One image, one node."""
    _paragraph(answer, answer.image, console)
    _line(console, _needs(need))
    _finding(answer, console)
    _remedy(answer.image, need, (answer,), (offer,), console)


def render_by_kind(image: str, need: Need, answers: Sequence[tuple[NodeKind, ImageFit]], console: Console) -> None:
    """One image, and every kind of node."""
    title = Text(printable(image), style="bold")
    console.print(title.append(f" {printable(_needs(need))}", "not bold"), soft_wrap=True)
    for kind, answer in answers:
        _paragraph(answer, str(kind), console)
        _finding(answer, console)
    if not answers:
        _line(console, "no node with an NVIDIA GPU is known")
    _remedy(image, need, [answer for _, answer in answers], [kind.offer for kind, _ in answers], console)


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


def _remedy(image: str, need: Need, answers: Iterable[ImageFit], offers: Sequence[Offer], console: Console) -> None:
    """What would help, where nothing that was asked about can run the image, or nobody knows what it needs."""
    verdicts = {answer.verdict for answer in answers}
    if verdicts == {Verdict.INCOMPATIBLE}:
        _line(console, remedy_for(image, need, offers) + ".")
    elif need.kind is BuiltFor.UNKNOWN:
        _line(console, _TELL)


def _line(console: Console, text: str) -> None:
    console.print(Text(f"    {printable(text)}"), soft_wrap=True)
