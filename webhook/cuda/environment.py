"""What the environment variables of a container or an image say about the CUDA it needs.

CUDA_VERSION comes first, then the month of NVIDIA's framework containers, which images built on them inherit. The lower
bound in NVIDIA_REQUIRE_CUDA comes last, because images may need more than it says.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from webhook.cuda import libcuda
from webhook.cuda.forward_compat import NGC_REQUIREMENT
from webhook.cuda.need import Compat, ImageEnv
from webhook.cuda.releases import MonthlyRelease, month_of, monthly_release
from webhook.model.shape import FormatError, spelled
from webhook.model.versions import Version, parse_version

REQUIRE_CUDA, REQUIRE, DISABLE = "NVIDIA_REQUIRE_CUDA", "NVIDIA_REQUIRE_", "NVIDIA_DISABLE_REQUIRE"
_NOT_EVALUATED = "NVIDIA_REQUIRE_JETPACK"
_MONTHS = (
    "NVIDIA_PYTORCH_VERSION",
    "NVIDIA_TENSORFLOW_VERSION",
    "TRITON_SERVER_VERSION",
    "NVIDIA_TRITON_SERVER_VERSION",
)
_COMPAT = ("_CUDA_COMPAT_PATH", "NV_CUDA_COMPAT_PACKAGE")
_OF_NVIDIA_CUDA = ("NVARCH", "NV_CUDA_CUDART_VERSION", REQUIRE_CUDA)
_READ = frozenset(("CUDA_VERSION", DISABLE, *_MONTHS, *_COMPAT, *_OF_NVIDIA_CUDA, libcuda.PATH, *libcuda.SWITCHES))
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
"""The texts that Go parses as true."""
_LARGEST_MAJOR = 99
"""A larger number is a version without its dot, such as 118."""
_NGC_BOUND = parse_version(NGC_REQUIREMENT[REQUIRE_CUDA].removeprefix("cuda>="))
_LOWER_BOUND = re.compile(r"cuda>=(.*)", re.IGNORECASE | re.DOTALL)
_LONGEST, _MOST_FACTORS, _MOST_VARIABLES, _SHOWN = 8192, 8, 64, 60
_LONGEST_VARIABLES = 4608
"""Most characters of the variables of a container that the toolkit reads; NVIDIA's own have 4,000. Answers are kept
together with the variables, so this bounds the memory that tenants can use."""

Pairs = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class DeclaredCuda:
    """The CUDA version in an environment, the variable that says so, and notes about values that cannot be read.

    `is_verified` is false if the version comes from an unverified row of a table.
    """

    cuda: Version | None = None
    variable: str = ""
    notes: tuple[str, ...] = ()
    is_verified: bool = True


_NOTHING = DeclaredCuda()


def cuda_variables(env: Pairs) -> Pairs:
    """The variables about CUDA."""
    read = [pair for pair in env if pair[0] in _READ or pair[0].startswith(REQUIRE)]
    return tuple([pair for pair in read if not pair[0].startswith(_NOT_EVALUATED)])


def cuda_version(text: str) -> Version:
    """The first three numbers of a version of CUDA, such as 13.0.2.006 or v12.4. Raises FormatError.

    >>> str(cuda_version(" 13.0.2.006 "))
    '13.0.2'
    """
    version = parse_version(text.strip().removeprefix("v"))
    if not 0 < version.major <= _LARGEST_MAJOR:
        raise FormatError(f"{spelled(text)} is no version of CUDA; write numbers with dots, such as 12.4")
    return Version(version.parts[:3])


def read(env: Mapping[str, str]) -> DeclaredCuda:
    """What the variables say of the CUDA version."""
    if not env:
        return _NOTHING
    notes: list[str] = []
    text = env.get("CUDA_VERSION", "").strip()
    if text:
        try:
            return DeclaredCuda(cuda_version(text), _variable("CUDA_VERSION", text))
        except FormatError as error:
            notes.append(f"CUDA_VERSION: {error}")
    for name in _MONTHS:
        release = _release(env.get(name, ""))
        if release is not None:
            return DeclaredCuda(release.cuda, _variable(name, env[name]), tuple(notes), release.is_verified)
    require = env.get(REQUIRE_CUDA, "")
    bound = _lower_bound(require, notes)
    if bound is not None:
        return DeclaredCuda(bound, _variable(REQUIRE_CUDA, require), tuple(notes))
    return DeclaredCuda(notes=tuple(notes))


def release_in(env: Mapping[str, str]) -> MonthlyRelease | None:
    """The monthly release that an image is built on, by its variables; None if they name no known release."""
    return next((release for name in _MONTHS if name in env and (release := _release(env[name]))), None)


def compat_in(env: Mapping[str, str]) -> Compat:
    """Whether an image with these variables has the cuda-compat package, as images built on nvidia/cuda have."""
    is_built_on_cuda = "CUDA_VERSION" in env and any(name in env for name in _OF_NVIDIA_CUDA)
    return Compat.YES if is_built_on_cuda or any(name in env for name in _COMPAT) else Compat.UNKNOWN


def toolkit_env(image: ImageEnv | None, container: Pairs) -> ImageEnv | None:
    """What the container toolkit reads: the container's variables over those of its image. None if that is unknown.

    A variable with the value None may have any value. The result is None for more variables than people set.
    """
    own = {name: value for name, value in container if name in (DISABLE, "CUDA_VERSION") or _is_requirement(name)}
    known = {name: value for name, value in own.items() if value is not None}
    if known.get(DISABLE) in _TRUE:
        return ImageEnv.of({DISABLE: known[DISABLE]})
    if len(own) > _MOST_VARIABLES or sum(map(len, (*own, *known.values()))) > _LONGEST_VARIABLES:
        return None
    if image is None:
        return _alone(own, known)
    if not own:
        return image
    unknown = own.keys() - known.keys()
    variants = tuple({**dict(variant), **known} for variant in image.variants)
    is_judged_by_version = not all(variant.get(REQUIRE_CUDA) for variant in variants)
    if any(name.startswith(REQUIRE) for name in unknown) or (is_judged_by_version and "CUDA_VERSION" in unknown):
        return None
    return ImageEnv.of(*variants, is_complete=image.is_complete and DISABLE not in unknown)


def _alone(own: Mapping[str, str | None], known: Mapping[str, str]) -> ImageEnv | None:
    """What the toolkit reads in a container whose image is unknown.

    The toolkit checks CUDA_VERSION only if NVIDIA_REQUIRE_CUDA is not set. The unknown image may set that variable,
    perhaps to a requirement that any driver meets.
    """
    unknown = own.keys() - known.keys()
    says_enough = known.get(REQUIRE_CUDA) or known.get("CUDA_VERSION")
    if not says_enough or any(name.startswith(REQUIRE) for name in unknown):
        return None
    variants = (known,) if REQUIRE_CUDA in known else (known, {**NGC_REQUIREMENT, **known})
    return ImageEnv.of(*variants, is_complete=DISABLE not in unknown)


def _is_requirement(name: str) -> bool:
    return name.startswith(REQUIRE) and not name.startswith(_NOT_EVALUATED)


def _release(text: str) -> MonthlyRelease | None:
    month = month_of(text.strip())
    return monthly_release(month) if month else None


def _lower_bound(require: str, notes: list[str]) -> Version | None:
    """The largest lower bound in the first alternative, unless it is the one of all NVIDIA framework containers."""
    first = next((term for term in require[:_LONGEST].split(" ") if term), "")
    bounds = []
    for factor in first.split(",")[:_MOST_FACTORS]:
        found = _LOWER_BOUND.fullmatch(factor)
        if found is None:
            continue
        try:
            bounds.append(cuda_version(found[1]))
        except FormatError as error:
            notes.append(f"{REQUIRE_CUDA}: {error}")
    largest = max(bounds, key=lambda bound: (*bound.parts, 0, 0)[:3], default=None)
    return None if largest is None or largest.cut(2).parts == _NGC_BOUND.parts else largest


def _variable(name: str, value: str) -> str:
    return f"{name}={value if len(value) <= _SHOWN else value[: _SHOWN - 3] + '...'}"
