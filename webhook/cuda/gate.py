"""The container toolkit's own check, NVIDIA_REQUIRE_*: whether nodes that still evaluate it start a container.

Only toolkits in legacy mode evaluate it, which was the default before 1.18. Other toolkits start the container, and
CUDA fails in it. So the check is a finding of its own, not a part of the verdict.

`requirement := term (" " term)*` is true if one term is; `term := factor ("," factor)*` is true if all factors are;
`factor := name operator value`. Evaluation goes from left to right and stops as soon as the result is certain. A factor
that cannot be read makes the whole requirement false. Sources: nvidia-container-toolkit, internal/config/image;
libnvidia-container, src/cli/configure.c and src/cli/dsl.c.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.evidence import DISABLE, TRUE
from webhook.cuda.need import ImageEnv
from webhook.cuda.offer import Offer
from webhook.model.versions import Version

_INFINITE = 10**20
_LONGEST_NUMBER = 19
"""Most digits of a number. Longer numbers do not fit into 64 bits and are invalid."""
_LONGEST_FACTOR = 128
"""Characters from which libnvidia-container cannot print a false factor, which makes the factor invalid."""


class Bounds(NamedTuple):
    """A version that lies between two versions, without trailing zeros. They are equal if the version is known."""

    low: tuple[int, ...]
    high: tuple[int, ...]

    @classmethod
    def of(cls, version: Version, *, is_exact: bool = True) -> "Bounds":
        """The version itself, or every version that begins with its numbers."""
        low = _without_zeros(version.parts)
        return cls(low, low if is_exact else (*version.parts, _INFINITE))


def _without_zeros(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Remove trailing zeros, so that versions compare as tuples: missing numbers count as 0."""
    length = len(numbers)
    while length and numbers[length - 1] == 0:
        length -= 1
    return numbers[:length]


@dataclass(frozen=True, slots=True)
class KnownSystem:
    """The properties of a node that requirements name. None stands for unknown."""

    cuda: Bounds | None = None
    driver: Bounds | None = None
    arch: Bounds | None = None
    brand: str | None = None


_TRUE, _FALSE, _INVALID = 1, 2, 4
"""The possible results of a factor or a term, as bits. Several are possible if a property is unknown."""
_EITHER = _TRUE | _FALSE

_FACTOR = re.compile(r"([^<>=!]+)([<>=!]+)(.+)", re.DOTALL)
_OPERATORS = {"=": "=", "!=": "!=", "!": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
"""libnvidia-container reads a lone exclamation mark as unequal."""
_NAMES = frozenset({"cuda", "driver", "arch", "brand"})
_VERSION = re.compile(r"[0-9][0-9.]*", re.ASCII)


class _Factor(NamedTuple):
    """`numbers` is None if the value is no version. `if_false` is the result if the factor does not hold."""

    name: str
    operator: str
    value: str
    numbers: tuple[int, ...] | None
    if_false: int


@lru_cache(maxsize=128)
def _terms_of(requirement: str) -> tuple[tuple[_Factor | None, ...], ...]:
    """The terms and their factors. None stands for a factor that cannot be read. Empty tokens are skipped."""
    terms = [term for term in requirement.split(" ") if term]
    return tuple(tuple(_factor_of(text) for text in term.split(",") if text) for term in terms)


def _factor_of(text: str) -> _Factor | None:
    match = _FACTOR.fullmatch(text)
    if match is None:
        return None
    name, operator, value = match.groups()
    if name.lower() not in _NAMES or operator not in _OPERATORS:
        return None
    operator = _OPERATORS[operator]
    is_too_long = len(f"{name} {operator} {value}") >= _LONGEST_FACTOR
    parts = [number for number in value.split(".") if number]
    is_version = _VERSION.fullmatch(value) is not None and max(map(len, parts)) <= _LONGEST_NUMBER
    numbers = _without_zeros(tuple(map(int, parts))) if is_version else None
    return _Factor(name.lower(), operator, value.lower(), numbers, _INVALID if is_too_long else _FALSE)


def outcomes(requirement: str, system: KnownSystem) -> frozenset[bool]:
    """The possible results of a requirement: one if every property that matters is known, else both.

    >>> outcomes("cuda>=12.0 arch>=8.0", KnownSystem(cuda=Bounds((12, 4), (12, 4))))
    frozenset({True})
    """
    possible: set[bool] = set()
    is_first = True
    for term in _terms_of(requirement):
        if not term:  # only commas: libnvidia-container stops here, with the result of the term before
            break
        results = _results(term, system)
        if results & _TRUE:
            possible.add(True)
        if results & _INVALID:
            possible.add(False)
        if not results & _FALSE:
            return frozenset(possible)
        is_first = False
    return frozenset({*possible, is_first})


def _results(term: tuple[_Factor | None, ...], system: KnownSystem) -> int:
    possible = 0
    for factor in term:
        results = _INVALID if factor is None else _compared(factor, system)
        possible |= results & ~_TRUE
        if not results & _TRUE:
            return possible
    return possible | _TRUE


def _compared(factor: _Factor, system: KnownSystem) -> int:
    if factor.name == "brand":
        if factor.operator not in ("=", "!="):
            return _INVALID
        is_met = (factor.value == system.brand) == (factor.operator == "=")
        results = _EITHER if system.brand is None else _TRUE if is_met else _FALSE
    elif factor.numbers is None:
        return _INVALID
    else:
        results = _version(factor.operator, factor.numbers, getattr(system, factor.name))
    return results & ~_FALSE | factor.if_false if results & _FALSE else results


def _version(operator: str, value: tuple[int, ...], found: Bounds | None) -> int:
    if found is None:
        return _EITHER
    low, high = found
    if operator in (">=", "<"):
        always, never = low >= value, high < value
    elif operator in (">", "<="):
        always, never = low > value, high <= value
    else:
        always, never = low == high == value, not low <= value <= high
    if operator in ("<", "<=", "!="):
        always, never = never, always
    return _TRUE if always else _FALSE if never else _EITHER


class Gate(StrEnum):
    """Whether the container toolkit would start a container."""

    PASS = "pass"  # noqa: S105  # no password
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "n/a"


_LONGEST = 4096
"""Most characters of all requirements of a container; longer ones are not evaluated. NVIDIA's have up to 3,900."""

_NUMBER = r"(0|[1-9][0-9]{0,9})"
_SUFFIX = r"(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
_LEGACY_VERSION = re.compile(rf"v?{_NUMBER}(?:\.{_NUMBER}(?:\.{_NUMBER}{_SUFFIX})?)?", re.ASCII)
"""A semantic version as Go's golang.org/x/mod/semver reads it, which has three numbers at most."""

_BUILT_FOR = {"x86_64": "amd64", "sbsa": "arm64"}
"""CPU architectures by the value of NVARCH."""


def legacy_gate(env: ImageEnv | None, offer: Offer, tables: CudaTables = SHIPPED) -> Gate:
    """Whether a container with this environment passes the check on the nodes.

    The variants for their CPU architecture count, or all if none is for it. An unknown one counts as amd64.
    """
    if env is None:
        return Gate.UNKNOWN
    arch, variants = offer.arch or "amd64", [dict(variant) for variant in env.variants]
    own = [variant for variant in variants if _BUILT_FOR.get(variant.get("NVARCH", ""), arch) == arch]
    found = _agreed(_passes(variant, offer, tables) for variant in own or variants)
    return found if env.is_complete or found is Gate.PASS else Gate.UNKNOWN


def _agreed(gates: Iterable[Gate]) -> Gate:
    """The common result; unknown if results differ or there are none. Not applicable counts as passing."""
    found = set(gates)
    if found == {Gate.PASS, Gate.NOT_APPLICABLE}:
        return Gate.PASS
    return found.pop() if len(found) == 1 else Gate.UNKNOWN


def _passes(env: Mapping[str, str], offer: Offer, tables: CudaTables) -> Gate:
    if env.get(DISABLE) in TRUE:
        return Gate.PASS
    requirements = [
        value
        for name, value in env.items()
        if name.startswith("NVIDIA_REQUIRE_") and not name.startswith("NVIDIA_REQUIRE_JETPACK")
    ]
    if env.get("CUDA_VERSION") and not env.get("NVIDIA_REQUIRE_CUDA"):
        version = _LEGACY_VERSION.fullmatch(env["CUDA_VERSION"])
        if version is None:
            return Gate.FAIL
        requirements.append(f"cuda>={version[1]}.{version[2] or 0}")
    if not requirements:
        return Gate.NOT_APPLICABLE
    if sum(map(len, requirements)) > _LONGEST:
        return Gate.UNKNOWN
    traits = tables.gpus.traits_of(offer.product) if offer.product else None
    brands: tuple[str | None, ...] = (traits.brands if traits is not None else ()) or (None,)
    return _agreed(_holds(requirements, _system_of(offer, brand, tables)) for brand in brands)


def _holds(requirements: list[str], system: KnownSystem) -> Gate:
    found = [outcomes(requirement, system) for requirement in requirements]
    if any(True not in possible for possible in found):
        return Gate.FAIL
    return Gate.UNKNOWN if any(False in possible for possible in found) else Gate.PASS


def _system_of(offer: Offer, brand: str | None, tables: CudaTables) -> KnownSystem:
    driver, cuda = offer.driver, offer.cuda
    if cuda is None and driver is not None:
        cuda = tables.drivers.reported_by(driver)
    return KnownSystem(
        cuda=None if cuda is None else Bounds.of(cuda, is_exact=len(cuda.parts) > 1),
        driver=None if driver is None else Bounds.of(driver, is_exact=offer.is_driver_exact),
        arch=None if offer.compute is None else Bounds.of(offer.compute),
        brand=brand,
    )
