"""Writes docs/cuda.md: the guide, and the tables on which verdicts are based."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from webhook.cuda import DATA
from webhook.cuda.checks import Verdict
from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.drivers import ENDED, Branch, last_of
from webhook.cuda.need import BuiltFor, Compat, Need
from webhook.cuda.offer import Offer
from webhook.cuda.verdict import judge
from webhook.model.versions import Version, parse_version

_FIRST_SHOWN = parse_version("11.0")
_FIRST_BRANCH = 450
_WAYS = ("Native", "Minor-version compatibility", "Forward compatibility only", "Not known")


def cuda_reference(tables: CudaTables = SHIPPED) -> str:
    """The text of docs/cuda.md, for these tables."""
    return (
        "\n".join(
            (
                (DATA / "guide.md").read_text(encoding="utf-8").rstrip("\n"),
                *_matrix(tables),
                *_drivers(tables),
                *_gpus(tables),
                *_images(tables),
            )
        )
        + "\n"
    )


def _matrix(tables: CudaTables) -> Iterator[str]:
    branches = [branch for branch in tables.drivers.rows if branch.cuda.at_least(_FIRST_SHOWN)]
    yield (
        "\n### CUDA and driver branches\n\n"
        "For the newest driver of each branch from 450 on and a data-centre GPU that CUDA and driver know. The image\n"
        "does not run on branches that its row does not name. Forward compatibility needs `cuda-compat` in the image.\n"
    )
    yield from _table(
        ["CUDA", *_WAYS],
        (
            [str(cuda), *_branches([_way(cuda, branch, tables) for branch in branches], branches)]
            for cuda in tables.toolkits.minors
            if cuda.at_least(_FIRST_SHOWN)
        ),
    )


def _branches(found: Sequence[str], branches: Sequence[Branch]) -> Iterator[str]:
    """The branches on which a CUDA version runs in each way; what follows each other is one range."""
    numbers = [branch.number for branch in branches]
    for way in _WAYS:
        ranges = []
        for one, group in groupby(zip(found, numbers, strict=True), itemgetter(0)):
            run = [number for _, number in group]
            if one == way:
                is_open = run[-1] == numbers[-1] and way == "Native"
                ranges.append(f"from {run[0]}" if is_open else "-".join(dict.fromkeys((str(run[0]), str(run[-1])))))
        yield ", ".join(ranges)


def _way(cuda: Version, branch: Branch, tables: CudaTables) -> str:
    driver = last_of(branch.number)
    offer = Offer(driver=driver, arch="amd64", is_data_center=True)
    verdict = judge(Need(BuiltFor.CUDA, cuda, "table", compat=Compat.YES), offer, tables).verdict
    if verdict is Verdict.COMPATIBLE:
        native = tables.toolkits.native_driver(cuda)
        return "Native" if native is not None and driver.at_least(native) else "Minor-version compatibility"
    return {Verdict.FORWARD_COMPAT_ONLY: "Forward compatibility only", Verdict.UNKNOWN: "Not known"}.get(verdict, "")


def _drivers(tables: CudaTables) -> Iterator[str]:
    shown = [row for row in tables.drivers.rows if row.number >= _FIRST_BRANCH]
    ended = ", ".join(str(row.number) for row in shown if row.end == ENDED)
    yield (
        "\n### Driver branches\n\nThe newest CUDA that each reports, and the month of its last release; empty where "
        f"nobody has said when it ends.\nBranches {ended}\nhave ended."
        " [The table](../webhook/cuda/data/drivers.yaml) has sources and older ones.\n"
    )
    yield from _table(
        ["Branch", "CUDA", "Support", "Ends"],
        (
            [
                str(row.number),
                f"{row.cuda} (unverified)" if row.source == "unverified" else str(row.cuda),
                row.support,
                "; ".join(filter(None, (row.end, row.note))),
            ]
            for row in shown
            if row.end != ENDED
        ),
    )


def _gpus(tables: CudaTables) -> Iterator[str]:
    yield (
        "\n### GPUs\n\nCode for X.Y runs on X.Z where Z is not less, so the first CUDA of the major version counts.\n"
    )
    alike = groupby(
        tables.capabilities.rows, lambda row: (row.family, _first(row.compute, tables), _range(row.compute, tables))
    )
    yield from _table(
        ["Compute capability", "Family", "First CUDA", "Driver branches"],
        ([", ".join(str(row.compute) for row in rows), *told] for told, rows in alike),
    )


def _first(compute: Version, tables: CudaTables) -> str:
    found = tables.first_cuda(compute)
    if found is None:
        return ""
    return (
        str(found.possible) if found.sure == found.possible else f"{found.possible} (sure: {found.sure or 'unknown'})"
    )


def _range(compute: Version, tables: CudaTables) -> str:
    row = tables.generation_of(compute)
    if row is None:
        return ""
    first = f"from {row.first_branch}" if row.first_branch else ""
    last = f"to {row.last_branch}" if row.last_branch else ""
    return " ".join(filter(None, (first, last, "" if row.is_verified else "(unverified)")))


def _images(tables: CudaTables) -> Iterator[str]:
    """The rows of a platform about images; nothing if it has none."""
    if not tables.images:
        return
    yield "\n### Images of the platform\n\nWhat `_cuda.yaml` says of images.\n"
    yield from _table(
        ["Images", "CUDA", "cuda-compat", "Code for newer GPUs", "Source"],
        ([row.glob, row.needs, row.compat or "", row.kernels or "", row.source] for row in tables.images.values()),
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(_in_a_cell, row))} |"


def _in_a_cell(text: str) -> str:
    """Escape a text for a cell. Texts of a platform may have several lines and vertical bars."""
    line = " ".join(text.split())
    return (line if line.isprintable() else line.encode("unicode_escape").decode()).replace("|", "\\|")
