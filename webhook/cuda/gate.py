"""The container toolkit's own check, NVIDIA_REQUIRE_*: whether nodes that still evaluate it start a container.

Only toolkits in the legacy mode do, the default before 1.18; others start the container, and CUDA fails in it. So this
is a finding of its own and no part of the verdict. Sources: nvidia-container-toolkit (internal/config/image) collects
the requirements, libnvidia-container (src/cli/configure.c) holds them against each GPU.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

from webhook.cuda.drivers import reported_by
from webhook.cuda.need import ImageEnv
from webhook.cuda.offer import Offer
from webhook.cuda.products import model_of
from webhook.cuda.requirement import Bounds, KnownSystem, outcomes


class Gate(StrEnum):
    """What the container toolkit would do with a container."""

    PASS = "pass"  # noqa: S105  # no password
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "n/a"


_TRUE_WORDS = frozenset({"1", "t", "T", "TRUE", "true", "True"})
"""What Go takes for true."""

_LONGEST = 4096
"""Most characters in the requirements of one container that are evaluated; the longest of NVIDIA's have 3,900."""
_MOST_FACTORS = 384
"""Most factors in them; NVIDIA's have 325. Each takes time for each kind of node."""

_NUMBER = r"(0|[1-9][0-9]{0,9})"
_SUFFIX = r"(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
_LEGACY_VERSION = re.compile(rf"v?{_NUMBER}(?:\.{_NUMBER}(?:\.{_NUMBER}{_SUFFIX})?)?", re.ASCII)
"""A semantic version as Go's golang.org/x/mod/semver reads it, which has three numbers at most."""

_BUILT_FOR = {"x86_64": "amd64", "sbsa": "arm64"}
"""What NVARCH means."""


def legacy_gate(env: ImageEnv | None, offer: Offer) -> Gate:
    """Whether a container with this environment passes on the nodes; unknown where what is not known matters."""
    if env is None:
        return Gate.UNKNOWN
    found = _agreed(_passes(variant, offer) for variant in _built_for(offer.arch, env))
    return found if env.is_complete or found is Gate.PASS else Gate.UNKNOWN


def _built_for(arch: str, env: ImageEnv) -> list[dict[str, str]]:
    """The variants that are not for another CPU architecture, all where none is left; amd64 where it is not known."""
    variants = [dict(variant) for variant in env.variants]
    own = [env for env in variants if _BUILT_FOR.get(env.get("NVARCH", ""), arch or "amd64") == (arch or "amd64")]
    return own or variants


def _agreed(gates: Iterable[Gate]) -> Gate:
    """What all come to; unknown where they differ or there are none. Passing and not being asked are one."""
    found = set(gates)
    if found == {Gate.PASS, Gate.NOT_APPLICABLE}:
        return Gate.PASS
    return found.pop() if len(found) == 1 else Gate.UNKNOWN


def _passes(env: Mapping[str, str], offer: Offer) -> Gate:
    """What becomes of a container with this very environment."""
    if env.get("NVIDIA_DISABLE_REQUIRE") in _TRUE_WORDS:
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
    if sum(map(len, requirements)) > _LONGEST or sum(map(_factors, requirements)) > _MOST_FACTORS:
        return Gate.UNKNOWN
    model = model_of(offer.product) if offer.product else None
    brands: tuple[str | None, ...] = (model.brands if model is not None else ()) or (None,)
    return _agreed(_holds(requirements, _seen(offer, brand)) for brand in brands)


def _factors(requirement: str) -> int:
    """How many factors a requirement has at most."""
    return requirement.count(" ") + requirement.count(",") + 1


def _holds(requirements: list[str], seen: KnownSystem) -> Gate:
    """Whether all of the requirements do."""
    found = [outcomes(requirement, seen) for requirement in requirements]
    if any(True not in possible for possible in found):
        return Gate.FAIL
    return Gate.UNKNOWN if any(False in possible for possible in found) else Gate.PASS


def _seen(offer: Offer, brand: str | None) -> KnownSystem:
    """What the nodes have, for a GPU of this brand."""
    driver, cuda = offer.driver, offer.cuda
    if cuda is None and driver is not None:
        cuda = reported_by(driver)
    return KnownSystem(
        cuda=None if cuda is None else Bounds.of(cuda, is_exact=len(cuda.parts) > 1),
        driver=None if driver is None else Bounds.of(driver, is_exact=offer.is_driver_exact),
        arch=None if offer.compute is None else Bounds.of(offer.compute),
        brand=brand,
    )
