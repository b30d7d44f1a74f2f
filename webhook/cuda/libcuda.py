"""Which libcuda the programs of a container load: the driver's, or the one in the image's cuda-compat package.

They find it by LD_LIBRARY_PATH, then by the loader's cache. On nodes with the container toolkit the driver is in a
directory of the system, which the cache has. GKE's own device plugin mounts it at /usr/local/nvidia/lib64, which only
LD_LIBRARY_PATH names. The rows about images are in `data/libcuda.yaml`.
"""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto

from webhook.cuda import DATA
from webhook.model.versions import Version, parse_version
from webhook.yaml_files.shipped_tables import read_rows, read_table

PATH = "LD_LIBRARY_PATH"
ON_GKE = "/usr/local/nvidia/lib64"
_COMPAT = re.compile(r"/usr/local/cuda(?:-[0-9.]+)?/compat(?:/lib\.real)?", re.ASCII)
_SYSTEM = re.compile(r"(?:/usr)?/lib(?:64|/(?:x86_64|aarch64)-linux-gnu)", re.ASCII)
_MOVES_LIBRARIES = re.compile(rf"{PATH}|ldconfig|/compat\b", re.ASCII)
_NONE = Version((0,))
_SHELLS = frozenset(("bash", "sh"))
_RELEASE = re.compile(r"(?:^|-)v?([0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4})(?=\.post[0-9]|[-_]|\Z)", re.ASCII)


class Start(StrEnum):
    """What a container starts."""

    ENTRY_POINT = "entry point"
    """The entry point of its image."""
    SHELL = "shell"
    COMMAND = "command"
    """A command of the pod, in place of the entry point."""
    UNKNOWN = "unknown"
    """A command or arguments that choose libraries themselves."""


def start_of(command: Sequence[str], args: Sequence[str]) -> Start:
    """What a container with this command and these arguments starts."""
    if _MOVES_LIBRARIES.search("\n".join((*command, *args))):
        return Start.UNKNOWN
    if not command:
        return Start.ENTRY_POINT
    return Start.SHELL if posixpath.basename(command[0]) in _SHELLS else Start.COMMAND


class Loads(Enum):
    """Which libcuda is loaded on nodes of one kind."""

    DRIVER = auto()
    """The driver's, unless the container toolkit puts cuda-compat before it."""
    CHOSEN = auto()
    """The driver's, because LD_LIBRARY_PATH names its directory first."""
    COMPAT = auto()
    """The one of cuda-compat, whatever the driver."""
    IF_OLDER = auto()
    """The one of cuda-compat where the entry point finds an older driver."""
    CHECKED = auto()
    """The one of cuda-compat where the entry point has tried that it runs."""
    NONE = auto()
    """There is none where the loader searches."""
    UNKNOWN = auto()
    """Perhaps the one of cuda-compat: LD_LIBRARY_PATH has variables in it, or the command chooses libraries."""


@dataclass(frozen=True, eq=False, slots=True)
class LibcudaRow:
    """A row of the table, which says what its fields are. `places` is LD_LIBRARY_PATH, None if it is not known."""

    images: tuple[str, ...] = ()
    first: Version = field(default=_NONE, metadata={"key": "from"})
    last: Version = field(default=_NONE, metadata={"key": "to"})
    tags: re.Pattern[str] = re.compile("")
    cache: str = ""
    places: tuple[str, ...] | None = field(default=None, metadata={"key": "path"})
    has_entry_point: bool = False
    again: int | None = None
    cuda: Version | None = None
    mended: str = ""
    switch: str = ""
    directory: str = ""
    arch: str = ""


NO_ROW = LibcudaRow()
ROWS = read_rows(LibcudaRow, read_table(DATA / "libcuda.yaml")["images"], "libcuda.yaml")
SWITCHES = frozenset(row.switch for row in ROWS if row.switch)
"""Every variable that puts cuda-compat first."""


def _row_of(repository: str, tag: str) -> LibcudaRow:
    release, name = _RELEASE.search(tag), "/".join(repository.split("/")[-2:])
    version = parse_version(release[1]) if release is not None else _NONE
    own = (row for row in ROWS if name in row.images and version.at_least(row.first) and row.last.at_least(version))
    return next((row for row in own if row.tags.search(tag)), NO_ROW)


@dataclass(frozen=True, slots=True)
class Libcuda:
    """Which libcuda a container loads where the container toolkit runs, and on GKE.

    `cuda` is the version of the cuda-compat package, None if unknown. `variable` is the pod's variable that decides,
    empty if the image decides. `lost_entry_point`: the pod's command replaces an entry point that would load
    cuda-compat. `is_sure` is false if a ConfigMap or Secret may set LD_LIBRARY_PATH.
    """

    on_toolkit: Loads = Loads.DRIVER
    on_gke: Loads = Loads.DRIVER
    cuda: Version | None = None
    row: LibcudaRow = NO_ROW
    variable: str = ""
    lost_entry_point: bool = False
    is_sure: bool = True


NO_LIBCUDA = Libcuda()
"""Nothing is known of the image."""


def libcuda_of(  # noqa: PLR0913  # all but two by name
    image: tuple[str, str],
    cuda: Version | None,
    *,
    path: str | None,
    env: Mapping[str, str | None],
    start: Start,
    is_checked: bool,
) -> Libcuda:
    """Which libcuda a container loads. `image` is its repository and its tag, `cuda` what it needs.

    `path` is the LD_LIBRARY_PATH of the image, None if unknown, and `env` what the pod sets. `is_checked`: the image is
    built on NVIDIA's framework containers, whose entry point, and each bash, tries cuda-compat.
    """
    row = _row_of(*image)
    has_entry_point = is_checked or row.has_entry_point
    runs_entry_point = start is Start.ENTRY_POINT or (is_checked and start is Start.SHELL)
    switch = env.get(row.switch, "0")
    of_row = None if row.places is None else ":".join(row.places)
    own = env.get(PATH, of_row if path is None else path)

    def loads(*, is_gke: bool) -> Loads:
        found = Loads.COMPAT if switch == "1" else Loads.UNKNOWN
        if switch == "0":
            found = _loads("$" if PATH in env and own is None else own, row, is_gke=is_gke)
        if start is Start.UNKNOWN:
            return {Loads.COMPAT: Loads.UNKNOWN, Loads.NONE: Loads.DRIVER}.get(found, found)
        if has_entry_point and runs_entry_point and found in (Loads.DRIVER, Loads.CHOSEN):
            return Loads.CHECKED if is_checked else Loads.IF_OLDER
        return found

    is_lost = has_entry_point and not runs_entry_point and start is not Start.UNKNOWN
    variable = row.switch if switch != "0" else PATH if PATH in env else ""
    return Libcuda(loads(is_gke=False), loads(is_gke=True), row.cuda or cuda, row, variable, is_lost)


def _loads(path: str | None, row: LibcudaRow, *, is_gke: bool) -> Loads:
    """What a container loads by its LD_LIBRARY_PATH, None if that is unknown, and by the cache of its image."""
    by_cache = Loads.NONE if is_gke and path is not None else Loads.DRIVER
    if row.cache == "conf" or (row.cache == "build" and is_gke):
        by_cache = Loads.COMPAT if path is not None or not is_gke else Loads.DRIVER
    places = (path or "").split(":")
    for place in map(posixpath.normpath, filter(None, places)):
        if is_gke and place == ON_GKE:
            return Loads.CHOSEN
        if not is_gke and _SYSTEM.fullmatch(place):
            is_there = not row.cache or place.endswith("/lib64") == row.directory.endswith("/lib64")
            return Loads.CHOSEN if is_there else Loads.UNKNOWN
        if _COMPAT.fullmatch(place):
            by_cache = Loads.COMPAT
            break
    if "$" in (path or ""):
        return Loads.UNKNOWN if by_cache is Loads.COMPAT else Loads.DRIVER
    return by_cache
