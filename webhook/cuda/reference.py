"""Writes docs/cuda.md: the guide, and the tables on which verdicts are based."""

from collections.abc import Iterable, Iterator, Sequence

from webhook.cuda import DATA, UNVERIFIED
from webhook.cuda.checks import Verdict
from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.drivers import Branch
from webhook.cuda.forward_compat import CompatBuilds
from webhook.cuda.kernels import ORIGINS, KernelBuild, Kernels
from webhook.cuda.libcuda import ROWS
from webhook.cuda.need import BuiltFor, Compat, Need
from webhook.cuda.offer import Offer
from webhook.cuda.releases import MONTHLY_RELEASES, RAPIDS, RAPIDS_SOURCE, TABLES
from webhook.cuda.verdict import judge
from webhook.gpus.gpu_model import GpuModel
from webhook.model.versions import Version, parse_version
from webhook.yaml_files.shipped_tables import read_table

_FIRST_SHOWN = parse_version("10.0")
_LAST_OF_BRANCH = 999
"""Stands for the newest driver of a branch."""


def cuda_reference(tables: CudaTables = SHIPPED) -> str:
    """The text of docs/cuda.md, for these tables."""
    return (
        "\n".join(
            (
                (DATA / "guide.md").read_text(encoding="utf-8").rstrip("\n"),
                *_matrix(tables),
                *_drivers(tables),
                *_gpus(tables),
                *_named_gpus(tables),
                *_compat(tables),
                *_libcuda(),
                *_releases(),
                *_products(),
                *_code(),
                *_compiled(),
                *_images(tables),
            )
        )
        + "\n"
    )


def _matrix(tables: CudaTables) -> Iterator[str]:
    """The verdict for every CUDA and driver branch."""
    branches = [branch for branch in tables.drivers.rows if branch.cuda.at_least(_FIRST_SHOWN)]
    shown = [cuda for cuda in tables.toolkits.minors if cuda.at_least(_FIRST_SHOWN)]
    yield (
        "## CUDA and driver branches\n\n"
        "For the newest driver of each branch and a data-centre GPU that CUDA and driver know. **N** native, **M** by\n"
        "minor-version compatibility, **F** by forward compatibility only (the image brings `cuda-compat`), **?** not\n"
        "known, empty: does not run.\n"
    )
    yield from _table(
        ["CUDA", *(str(branch.number) for branch in branches)],
        ([str(cuda), *(_cell(cuda, branch, tables) for branch in branches)] for cuda in shown),
    )


def _cell(cuda: Version, branch: Branch, tables: CudaTables) -> str:
    driver = Version((branch.number, _LAST_OF_BRANCH))
    offer = Offer(driver=driver, compute=_compute(cuda, branch, tables), arch="amd64", is_data_center=True)
    verdict = judge(Need(BuiltFor.CUDA, cuda, "table", compat=Compat.YES), offer, tables).verdict
    if verdict is Verdict.COMPATIBLE:
        native = tables.toolkits.native_driver(cuda)
        return "N" if native is not None and driver.at_least(native) else "M"
    return {Verdict.FORWARD_COMPAT_ONLY: "F", Verdict.UNKNOWN: "?"}.get(verdict, "")


def _compute(cuda: Version, branch: Branch, tables: CudaTables) -> Version | None:
    """A compute capability that both CUDA and branch support, so that only the driver decides."""
    for generation in tables.capabilities.rows:
        known = tables.first_cuda(generation.compute)
        least = generation.first_branch or 0
        most = generation.last_branch or branch.number
        need = Need(BuiltFor.CUDA, cuda, "table")
        if known is None or not cuda.at_least(known.possible) or not least <= branch.number <= most:
            continue
        if judge(need, Offer(compute=generation.compute, is_data_center=True), tables).verdict is Verdict.UNKNOWN:
            return generation.compute
    return None


def _drivers(tables: CudaTables) -> Iterator[str]:
    yield "\n## Drivers by toolkit\n\nThe driver each CUDA came with on Linux. What is marked is unverified.\n"
    yield from _table(
        ["CUDA", "Driver", "Source"],
        (
            [str(row.cuda), str(row.driver or f"branch {row.branch}"), row.source if row.is_verified else UNVERIFIED]
            for row in tables.toolkits.rows
        ),
    )
    yield (
        "\n## Driver branches\n\nThe newest CUDA that each reports, and the month of its last release. Where that is "
        "empty, nobody has said when the branch\nends.\n"
    )
    yield from _table(
        ["Branch", "CUDA", "Support", "Ends", "Source"],
        ([str(row.number), str(row.cuda), row.support, row.end, _with_note(row)] for row in tables.drivers.rows),
    )


def _with_note(row: Branch) -> str:
    return f"{row.source}; {row.note}" if row.note else row.source


def _gpus(tables: CudaTables) -> Iterator[str]:
    yield (
        "\n## GPUs\n\nCode for X.Y runs on X.Z where Z is not less, so the first CUDA of the major version counts.\n"
    )
    yield from _table(
        ["Compute capability", "Family", "First CUDA", "Driver branches"],
        (
            [str(row.compute), row.family, _first(row.compute, tables), _range(row.compute, tables)]
            for row in tables.capabilities.rows
        ),
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
    return " ".join(filter(None, (first, last, "" if row.is_first_verified else "(unverified)")))


def _named_gpus(tables: CudaTables) -> Iterator[str]:
    """The GPUs with known traits. Models with the same words share a row."""
    yield (
        "\n## GPUs by name\n\n"
        "Names are read word by word, in any spelling; `40xx` is any number such as 4090, and `A####` any such as\n"
        "A6000. A node's own label of the compute capability comes before this table. Empty: not known.\n"
    )
    models: dict[frozenset[str], GpuModel] = {}
    for model in tables.gpus.models:
        models.setdefault(model.words, model)
    rows = (
        [model.family, str(model.traits.compute or ""), _yes(model.traits.is_data_center), model.source]
        for model in models.values()
        if model.traits is not None
    )
    yield from _table(["GPU", "Compute capability", "Data centre", "Source"], rows)


def _yes(answer: bool | None) -> str:
    return "" if answer is None else "yes" if answer else "no"


def _compat(tables: CudaTables) -> Iterator[str]:
    yield (
        "\n## Forward compatibility\n\n"
        "The branches that `cuda-compat` of each CUDA is made for, by any build of nvidia/cuda that was seen.\n"
    )
    yield from _table(
        ["CUDA", "Branches", "Note"], ([str(row.cuda), *_listed(row)] for row in tables.forward_compat.rows)
    )


def _listed(row: CompatBuilds) -> tuple[str, str]:
    branches = sorted({branch for build in row.builds for branch in build.branches})
    notes = ["sources disagree"] * (not row.is_verified) + ["not on arm64"] * (not row.is_on_arm)
    return ", ".join(map(str, branches)), ", ".join(notes)


def _libcuda() -> Iterator[str]:
    yield (
        "\n## Which libcuda images load\n\nImages that put `cuda-compat` before the driver's libcuda, or lack GKE's "
        "directory of the driver in `LD_LIBRARY_PATH`.\n"
    )
    yield from _table(
        ["Images", "Releases", "What they do", "Mended in", "Source"],
        ([", ".join(row.images), f"{row.first} to {row.last}", row.does, row.mended, row.source] for row in ROWS),
    )


def _releases() -> Iterator[str]:
    yield "\n## NGC releases\n\nThe CUDA of pytorch, tensorflow, tritonserver, jax and mxnet of a month.\n"
    yield from _table(
        ["Month", "CUDA", "Least compute capability", "Source"],
        ([row.month, str(row.cuda), _floor(row.floor_text, row.floor_source), row.source] for row in MONTHLY_RELEASES),
    )


def _products() -> Iterator[str]:
    yield (
        "\n## Products with versions of their own\n\n"
        "The CUDA of images whose tag is a version or month of the product, and no more. Both ends are included. A\n"
        "CUDA with one number: the next is not known, or parts of the image differ in it.\n"
    )
    rows = [(images, row) for images, table in TABLES.items() for row in table]
    yield from _table(
        ["Images", "From", "To", "CUDA", "Source"],
        ([images, str(row.first), str(row.last), str(row.cuda), row.source] for images, row in rows),
    )
    rapids = ([release, ", ".join(cuda), RAPIDS_SOURCE] for release, cuda in RAPIDS.items())
    yield "\nRAPIDS names one number of CUDA in its tags; the others, by release:\n"
    yield from _table(["Release", "CUDA", "Source"], rapids)


def _code() -> Iterator[str]:
    yield (
        "\n## Code for newer GPUs\n\n"
        "Who built the code in images, and whether it has PTX for GPUs that are newer than its CUDA, which the driver\n"
        "compiles. Images without PTX do not run there. Of others it is mostly not known whether all code in them has\n"
        "PTX.\n"
    )
    yield from _table(["Built by", "Brings", "Known", "Source"], map(_built_by, KernelBuild))
    yield "\nThe families of images, each with who built its own code. Where nobody knows, why:\n"
    yield from _table(
        ["Images", "Built by", "Note"],
        ([", ".join(origin.families), origin.build.code.title, origin.note] for origin in ORIGINS),
    )


def _compiled() -> Iterator[str]:
    yield (
        "\n## GPUs that images are compiled for\n\n"
        "By release of the framework, both ends included, or by the form of the tag. Code for X.Y runs on X.Z where Z\n"
        "is not less, and `X.Ya` on no other GPU. PTX runs on every newer GPU, with the driver of its own CUDA; where\n"
        "that is empty, nobody knows. `only` are all GPUs that a program accepts, `driver` is what compressed code\n"
        "needs. Where an image has several libraries, each with its CUDA, one has to serve.\n"
    )
    table = read_table(DATA / "compiled.yaml")
    yield from (f"- {name}: {source}" for name, source in table["sources"].items())
    yield ""
    known = ("from", "to", "tags", "cuda", "library", "code", "only", "ptx", "least")
    keys = (*known, "driver", "ptxDriver", "cpu", "source")
    rows = [{**group, **row} for group in table["compiled"] for row in group["releases"]]
    yield from _table(
        ["Images", *keys, ""],
        (
            [
                ", ".join(row["images"]),
                *(row[key] or "none" if key in row else "" for key in keys),
                "" if row.get("verified", True) else UNVERIFIED,
            ]
            for row in rows
        ),
    )


def _images(tables: CudaTables) -> Iterator[str]:
    """The rows of a platform about images; nothing if it has none."""
    if not tables.images.rows:
        return
    yield "\n## Images of the platform\n\nWhat `_cuda.yaml` says of images. What is left out is known from elsewhere.\n"
    yield from _table(
        ["Images", "CUDA", "cuda-compat", "Code for newer GPUs", "Source"],
        (
            [
                row.glob,
                row.needs,
                row.compat or "",
                row.kernels or "",
                row.source,
            ]
            for row in tables.images.rows
        ),
    )


def _built_by(build: KernelBuild) -> list[str]:
    code = build.code
    brought = {Kernels.NONE: "no kernels", Kernels.WITHOUT_PTX: "no PTX", Kernels.WITH_PTX: "PTX"}
    return [code.title, brought.get(code.brings, "unknown"), code.span, code.source]


def _floor(text: str, source: str) -> str:
    return f"{text} ({source})" if source == UNVERIFIED else text


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(_in_a_cell, row))} |"


def _in_a_cell(text: str) -> str:
    """Escape a text for a cell. Texts of a platform may have several lines and vertical bars."""
    line = " ".join(text.split())
    return (line if line.isprintable() else line.encode("unicode_escape").decode()).replace("|", "\\|")
