"""Reads `_cuda.yaml`, with all mistakes at once, and merges its rows over the tables of this release."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from webhook.cuda.cuda_tables import CAPABILITIES, SHIPPED, CudaTables
from webhook.model.shape import FormatError
from webhook.model.versions import Version, parse_version
from webhook.policy.cuda_rows import CudaFile, cuda_schema
from webhook.policy.document import mapping_at, read_document, read_head
from webhook.policy.schema import CUDA_KIND
from webhook.yaml_files.file_errors import Faults, KeyPath, key_text
from webhook.yaml_files.yaml_lines import YamlNode

KEYS: Mapping[str, str] = {
    "toolkits": "cuda",
    "floors": "major",
    "drivers": "branch",
    CAPABILITIES: "compute",
    "gpus": "name",
    "images": "image",
}
"""The lists of the file, each with the key that identifies its rows."""

_WITHOUT_COMPATIBILITY = (11, 0)
"""The version whose releases are older than the floor of their major version."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PlatformTables:
    """The tables by which a set of policies judges images, and the platform's rows as they are in its file."""

    tables: CudaTables = SHIPPED
    written: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)

    def sharing(self, previous: "PlatformTables") -> "PlatformTables":
        """`previous` if it has the same rows, with all that its tables remember; else these tables."""
        return previous if previous.written == self.written else self

    @property
    def counts(self) -> str:
        """The number of rows in each list, in words; empty without rows."""
        return ", ".join(f"{key} {len(self.written[key])}" for key in KEYS if key in self.written)


SHIPPED_ONLY = PlatformTables()
"""The tables with an empty file, or without one."""


def read_cuda_tables(path: str, source: bytes, faults: Faults) -> PlatformTables:
    """The tables with the rows of a file, which errors call `path`; if it has mistakes, the tables of this release."""
    root = read_document(path, source, CUDA_KIND, _null_fault, faults)
    document = read_head(root, CudaFile, cuda_schema(), faults) if root is not None else None
    if root is None:
        return SHIPPED_ONLY
    for name in KEYS:
        _check_keys_differ(root, name, faults)
    if document is None:
        return SHIPPED_ONLY
    spec = document.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    rows = {key: value for key, value in spec.items() if value}
    if not rows:
        return SHIPPED_ONLY
    tables = SHIPPED.merged(rows)
    for place, message in _contradictions(rows, tables):
        node = _row_at(root, place)
        child = node.value.get(str(place[-1])) if isinstance(node.value, dict) else None
        faults.add(path, (child or node).line, ("spec", *place), message)
    return PlatformTables(tables, rows)


def _null_fault(path: KeyPath) -> str:
    if path[:1] == ("spec",) and len(path) == 2:
        return "is empty; write a list, or remove the line"
    return "is empty; write a value, or remove the line"


def _row_at(root: YamlNode, place: KeyPath) -> YamlNode:
    """The row at a place below `spec`: name of a list, and index in it."""
    name, index = place[0], place[1]
    listed = mapping_at(root, ("spec",))[str(name)].value
    return listed[index] if isinstance(listed, list) and isinstance(index, int) else root


def _check_keys_differ(root: YamlNode, name: str, faults: Faults) -> None:
    """Add a fault for each row whose key another row of the list has."""
    listed = mapping_at(root, ("spec",)).get(name)
    key = KEYS[name]
    seen: dict[object, int] = {}
    for index, row in enumerate(listed.value if listed is not None and isinstance(listed.value, list) else ()):
        node = row.value.get(key) if isinstance(row.value, dict) else None
        if node is None or not isinstance(node.value, str | int):
            continue
        first = seen.setdefault(_identity(node.value), index)
        if first != index:
            place = key_text(("spec", name, first))
            message = f"{node.text} is what {place} is about, too; keep one of the two rows"
            faults.add(root.file, node.line, ("spec", name, index, key), message)


def _identity(value: str | int) -> object:
    """The value by which keys are compared: 13.0 and 13 are one version."""
    try:
        return parse_version(value).parts
    except FormatError:
        return value


_Found = Iterator[tuple[KeyPath, str]]


def _contradictions(rows: Mapping[str, Any], tables: CudaTables) -> _Found:
    """Places and reasons of rows that contradict other rows, of the file or of this release."""
    for index, row in enumerate(rows.get("toolkits", ())):
        for message in _of_toolkit(parse_version(row["cuda"]), parse_version(row["driver"]), tables):
            yield ("toolkits", index, "driver"), message
    for index, row in enumerate(rows.get("floors", ())):
        for message in _of_floor(row["major"], parse_version(row["driver"]), tables):
            yield ("floors", index, "driver"), message
    for index, row in enumerate(rows.get("drivers", ())):
        yield from ((("drivers", index, "cuda"), message) for message in _of_branch(row["branch"], tables))
    for index, row in enumerate(rows.get("gpus", ())):
        for message in _of_gpu(parse_version(row["compute"]), tables) if "compute" in row else ():
            yield ("gpus", index, "compute"), message
    yield from _swallowed(rows.get("gpus", ()), tables)
    for index, row in enumerate(rows.get(CAPABILITIES, ())):
        first, branch = parse_version(row["firstCuda"]), row.get("firstBranch")
        reported = tables.drivers.reported_by(Version((branch,))) if branch is not None else None
        if reported is not None and not reported.at_least(Version((first.major,))):
            message = f"branch {branch} reports CUDA {reported}, and no code of it is for this GPU before CUDA {first}"
            yield (CAPABILITIES, index, "firstBranch"), f"{message}; correct one of the two"


def _of_gpu(compute: Version, tables: CudaTables) -> Iterator[str]:
    """The fault of a GPU whose compute capability is in no table: its drivers and CUDA are not known."""
    if tables.generation_of(compute) is None:
        known = ", ".join(str(row.compute) for row in tables.capabilities.rows)
        yield f"no table has compute capability {compute}; add it under {CAPABILITIES}, or write one of {known}"


def _swallowed(rows: Sequence[Mapping[str, Any]], tables: CudaTables) -> _Found:
    """Rows whose words are also in the name of a GPU of this release, which would be taken for the GPU of the row."""
    own = {row["name"]: index for index, row in enumerate(rows)}
    corrected = {model.words for model in SHIPPED.gpus.models if model.name in own}
    words = {model.words: own[model.name] for model in tables.gpus.models if model.name in own}
    told: set[int] = set()
    for product in [model.product for model in SHIPPED.gpus.models if model.product and own]:
        known, taken = SHIPPED.gpus.traits_of(product), tables.gpus.traits_of(product)
        if known is None or taken is None or known.words in corrected or taken.compute == known.compute:
            continue
        index = words.get(taken.words)
        if index is not None and index not in told:
            told.add(index)
            message = f"the name {product} has these words, too, and its compute capability is {known.compute}"
            key = "words" if "words" in rows[index] else "name"
            yield ("gpus", index, key), f"{message}; write more words, or correct the row of that GPU"


def _of_toolkit(cuda: Version, driver: Version, tables: CudaTables) -> Iterator[str]:
    """Why a release of CUDA cannot have come with a driver."""
    floor = tables.toolkits.floors.get(cuda.major)
    if floor is not None and cuda.parts[:2] != _WITHOUT_COMPATIBILITY and driver < floor.driver.cut(len(driver.parts)):
        yield (
            f"driver {driver} is older than {floor.driver}, which is the oldest that runs any CUDA {cuda.major}; "
            "write the driver that the release notes name"
        )
        return
    reported = tables.drivers.reported_by(driver)
    if reported is not None and not reported.at_least(cuda.cut(2)):
        yield (
            f"branch {driver.major} reports CUDA {reported}, which is older than {cuda.cut(2)}; write the driver that "
            "the release notes name, or correct the row of the branch under drivers"
        )


def _of_floor(major: int, driver: Version, tables: CudaTables) -> Iterator[str]:
    """Why a driver cannot be the oldest that runs all releases of a major version."""
    reported = tables.drivers.reported_by(driver)
    if reported is not None and reported.major < major:
        yield f"branch {driver.major} reports CUDA {reported}, which is older than CUDA {major}; correct one of the two"
    for row in SHIPPED.toolkits.rows:
        is_of_floor = row.cuda.major == major and row.cuda.parts[:2] != _WITHOUT_COMPATIBILITY
        if is_of_floor and row.driver is not None and row.driver < driver:
            yield f"driver {driver} is newer than {row.driver}, which runs CUDA {row.cuda}; write that or an older one"
            return


def _of_branch(number: int, tables: CudaTables) -> Iterator[str]:
    """Why a branch cannot report its CUDA: a newer branch never reports an older CUDA."""
    rows = tables.drivers.rows
    at = next(index for index, row in enumerate(rows) if row.number == number)
    own = rows[at].cuda
    if at > 0 and not own.at_least(rows[at - 1].cuda):
        other, how = rows[at - 1], "older branch {} already"
    elif at + 1 < len(rows) and not rows[at + 1].cuda.at_least(own):
        other, how = rows[at + 1], "newer branch {} only"
    else:
        return
    yield f"branch {number} reports CUDA {own}, and the {how.format(other.number)} {other.cuda}; correct one of the two"
