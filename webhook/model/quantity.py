"""Kubernetes quantities in every spelling the API server accepts, as exact numbers.

Source: the grammar in k8s.io/apimachinery/pkg/api/resource/quantity.go.

Durations are written as 8h, 90m or 1h30m: hours, minutes and seconds, each at most once.
"""

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

from webhook.model.shape import FormatError, spelled

Number = int | Fraction
"""An exact amount: an int where it is whole, else a Fraction."""

_LARGEST = 2**63 - 1
"""The largest amount. Kubernetes caps larger binary amounts here; we cap larger decimal amounts as well."""

_MAX_LENGTH = 256
"""Most characters of a quantity, which bounds the time of parsing and the memory of the cache."""

_MAX_EXPONENT = 300
"""Largest exponent that is computed. An amount with a larger one is capped in any case, or rounds to one nano."""

_SYNTAX = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]?|[eE][+-]?[0-9]+)")

_SCALES: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
_WHOLE_SCALES = {suffix: int(scale) for suffix, scale in _SCALES.items() if scale.denominator == 1}

BINARY_UNITS = [(1024**power, f"{suffix}i") for power, suffix in reversed(list(enumerate("KMGTPE", start=1)))]


def parse_quantity(value: object) -> Number:
    """The exact amount of a quantity as it stands in JSON or YAML; null is 0, as for the API server.

    >>> parse_quantity("1500m")
    Fraction(3, 2)
    >>> parse_quantity("16Gi"), parse_quantity("1e0"), parse_quantity(None)
    (17179869184, 1, 0)

    Raises FormatError for everything that the API server refuses, including booleans, lists and maps, and for texts
    outside the grammar that the API server reads as 0, such as "m".
    """
    if value is None:
        return 0
    text = value if isinstance(value, str) else _spelled_number(value)
    if len(text) > _MAX_LENGTH:
        raise _not_a_quantity(text)
    return _parse_text(text)


def is_some(amount: object) -> bool:
    """Whether an amount is other than 0. True for texts that are no quantity: the API server refuses them, or an
    operator replaces them.

    >>> is_some("1Gi"), is_some("0"), is_some(None), is_some("filled in")
    (True, False, False, True)
    """
    try:
        return parse_quantity(amount) != 0
    except FormatError:
        return True


def positive(value: object) -> int | None:
    """An amount such as a memory limit, rounded up; None where it is missing, not positive, or cannot be parsed."""
    try:
        amount = parse_quantity(value)
    except FormatError:
        return None
    return ceil(amount) if amount > 0 else None


def _spelled_number(value: object) -> str:
    is_number = isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= 3 * _MAX_LENGTH)
    if isinstance(value, bool) or not is_number:
        raise _not_a_quantity(value)
    return repr(value)


@lru_cache(maxsize=4096)
def _parse_text(text: str) -> Number:
    match = _SYNTAX.fullmatch(text.strip(" "))
    if match is None:
        raise _not_a_quantity(text)
    sign, digits, suffix = match.groups()
    if suffix in _WHOLE_SCALES and digits.isdigit():
        whole = min(int(digits) * _WHOLE_SCALES[suffix], _LARGEST)
        return -whole if sign == "-" else whole
    scale = _SCALES.get(suffix)
    amount = Fraction(digits.removesuffix("."))
    if scale is not None:
        amount *= scale
    elif amount:
        amount *= Fraction(10) ** max(-_MAX_EXPONENT, min(int(suffix[1:]), _MAX_EXPONENT))
    nano = ceil(min(amount, Fraction(_LARGEST)) * 10**9)  # the finest amount that Kubernetes keeps
    amount = Fraction(nano, 10**9)
    signed = -amount if sign == "-" else amount
    return int(signed) if signed.denominator == 1 else signed


def _not_a_quantity(value: object) -> FormatError:
    return FormatError(f"{spelled(value)} is not a quantity")


def format_bytes(size: int) -> str:
    """Bytes as the shortest exact quantity with a binary suffix, such as 64Gi.

    >>> format_bytes(64 * 1024**3), format_bytes(1536 * 1024**2), format_bytes(1000)
    ('64Gi', '1536Mi', '1000')
    """
    for scale, suffix in BINARY_UNITS:
        if size and size % scale == 0:
            return f"{size // scale}{suffix}"
    return str(size)


_DURATION = re.compile(r"(?=.)(?:([0-9]{1,10})h)?(?:([0-9]{1,10})m)?(?:([0-9]{1,10})s)?")
_UNITS = ((3600, "h"), (60, "m"), (1, "s"))


def parse_duration(text: str) -> int:
    """The seconds in a duration. Raises FormatError.

    >>> parse_duration("1h30m"), parse_duration("90m"), parse_duration("45s")
    (5400, 5400, 45)
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise FormatError(f"{spelled(text)} is not a duration")
    return sum(int(number) * scale for number, (scale, _) in zip(match.groups("0"), _UNITS, strict=True))


def format_duration(seconds: int) -> str:
    """Seconds as the shortest duration.

    >>> format_duration(43200), format_duration(5400), format_duration(3601), format_duration(0)
    ('12h', '1h30m', '1h1s', '0s')
    """
    words = []
    rest = seconds
    for scale, unit in _UNITS:
        number, rest = divmod(rest, scale)
        if number:
            words.append(f"{number}{unit}")
    return "".join(words) or "0s"
