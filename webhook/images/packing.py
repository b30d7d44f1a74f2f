"""The format in which replicas share results: compressed lines of JSON, bounded when written and when read.

Anybody with the right to write the shared object can write anything into it. So only content is read that this module
could have written: too large content is refused before it is decompressed, and invalid lines are skipped.
"""

import base64
import gzip
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from webhook.images.cache import MOST_REFERENCES, NEVER, LookupResult
from webhook.images.registry_documents import MOST_ARCHITECTURES, MOST_CHARACTERS, architecture_in, is_digest
from webhook.model.bounds import unzipped
from webhook.model.image import ImageConfig, parse_reference
from webhook.model.shape import FormatError

KEY = "images-v1"
"""Key of the ConfigMap. A later format gets another key, so that both exist during an upgrade."""
MOST_PACKED = 675 * 1024
"""Most bytes of the packed content: 900 KiB in base64, of the 1 MiB that a ConfigMap may have."""
MOST_UNPACKED = 4 * 2**20
"""Most bytes of all lines together."""
MOST_PROBLEM = 300
"""Most characters of a problem."""
LONGEST_WAIT = 3600.0
"""Seconds after which a look-up that failed is tried again at the latest."""

_FORMAT = "gpu-policy-images 1"
_MOST_LINES = 2 * MOST_REFERENCES
_MOST_QUOTES = 400_000
"""Most quotes, two for each string. They are bounded because a string takes several times its bytes in memory."""
_LONGEST_LINE = 128 * 1024

_Env = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Content:
    """Results by reference. `is_complete` is false if some results did not fit."""

    results: Mapping[str, LookupResult]
    is_complete: bool = True
    invalid_lines: int = 0
    """The number of invalid lines."""


def packed_in(config_map: Mapping[str, Any]) -> bytes:
    """The packed content of a ConfigMap, empty if it has none. A text that is no base64 is returned as it is."""
    data = config_map.get("binaryData")
    text = data.get(KEY) if isinstance(data, dict) else None
    if not isinstance(text, str):
        return b""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return text.encode("utf-8", "replace")


def pack(results: Mapping[str, LookupResult], most: int = MOST_PACKED) -> bytes:
    """The results in at most `most` bytes. If they do not fit, problems are left out first, then the oldest results."""
    writable = (item for item in results.items() if _is_writable(item[1]))
    ordered = sorted(writable, key=lambda item: (item[1].config is None, -item[1].at, item[0]))[:MOST_REFERENCES]
    while True:
        text = b"\n".join(_lines(ordered, is_complete=len(ordered) == len(results)))
        excess = max(len(text) / MOST_UNPACKED, text.count(b'"') / _MOST_QUOTES)
        if excess <= 1:
            packed = gzip.compress(text, compresslevel=6, mtime=0)
            excess = len(packed) / most
            if excess <= 1 or not ordered:
                return packed
        ordered = ordered[: int(len(ordered) / excess * 0.95)]


def unpack(packed: bytes) -> Content:
    """Read packed content. Raises FormatError if it is not in this format."""
    header, *lines = _unzipped(packed).split(b"\n", _MOST_LINES + 1)
    match _parsed(header):
        case [str() as name, bool() as is_complete] if name == _FORMAT:
            pass
        case _:
            raise FormatError("its first line is not the header of this format")
    results: dict[str, LookupResult] = {}
    envs: dict[int, Mapping[str, str]] = {}
    invalid = lines.pop().count(b"\n") + 1 if len(lines) > _MOST_LINES else 0
    for line in lines:
        match _parsed(line):
            case [int() as number, dict() as env] if _is_env(env):
                envs[number] = env
            case [str() as reference, *rest] if (result := _result(rest, envs)) and _is_reference(reference):
                results[reference] = result
            case _:
                invalid += 1
    return Content(results, is_complete, invalid)


def _lines(results: list[tuple[str, LookupResult]], *, is_complete: bool) -> Iterator[bytes]:
    """A line for each result, sorted by reference to compress well. The line of its environment comes first."""
    yield orjson.dumps([_FORMAT, is_complete])
    numbers: dict[_Env, int] = {}
    for reference, result in sorted(results):
        config = result.config
        if config is None:
            yield orjson.dumps([reference, int(result.at), int(result.again), result.problem])
            continue
        key = tuple(sorted(config.env.items()))
        if key not in numbers:
            numbers[key] = len(numbers)
            yield orjson.dumps([numbers[key], dict(key)])
        yield orjson.dumps([reference, int(result.at), config.digest, config.architectures, numbers[key]])


def _is_writable(result: LookupResult) -> bool:
    """Whether `unpack` would read the result."""
    if result.config is None:
        return _is_problem(result.problem) and 0 <= result.again <= LONGEST_WAIT
    return (
        _is_env(result.config.env) and is_digest(result.config.digest) and _are_all(list(result.config.architectures))
    )


def _unzipped(packed: bytes) -> bytes:
    if len(packed) > 2 * MOST_PACKED:
        raise FormatError(f"it has {len(packed)} bytes, more than {2 * MOST_PACKED}")
    try:
        text = unzipped(packed, MOST_UNPACKED)
    except zlib.error as error:
        raise FormatError(f"it is not compressed with gzip ({error})") from None
    except ValueError as error:
        raise FormatError(str(error)) from None
    if text.count(b'"') > _MOST_QUOTES:
        raise FormatError(f"it has more than {_MOST_QUOTES // 2} strings")
    return text


def _parsed(line: bytes) -> object:
    if len(line) > _LONGEST_LINE:
        return None
    try:
        found: object = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return found


def _is_env(found: Mapping[Any, Any]) -> bool:
    """Whether these are variables, within the limits of a configuration."""
    texts = [text for pair in found.items() for text in pair]
    return all(isinstance(text, str) and _is_text(text) for text in texts) and sum(map(len, texts)) <= MOST_CHARACTERS


def _result(rest: list[Any], envs: Mapping[int, Mapping[str, str]]) -> LookupResult | None:
    """The result in the part of a line after the reference; None if that part is invalid."""
    match rest:
        case [int() as at, int() as again, str() as problem] if _is_problem(problem) and 0 <= again <= LONGEST_WAIT:
            return LookupResult(float(at), float(again), problem=problem)
        case [int() as at, str() as digest, list() as names, int() as env] if is_digest(digest) and env in envs:
            return (
                LookupResult(float(at), NEVER, ImageConfig(digest, envs[env], (*names,))) if _are_all(names) else None
            )
    return None


def _is_reference(text: str) -> bool:
    """Whether the text is a reference in its canonical spelling."""
    try:
        return str(parse_reference(text)) == text
    except FormatError:
        return False


def _is_text(text: str) -> bool:
    """Whether it can be written as UTF-8, which half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_problem(text: str) -> bool:
    return text.isprintable() and 0 < len(text) <= MOST_PROBLEM


def _are_all(names: list[Any]) -> bool:
    """Whether these are CPU architectures."""
    return len(names) <= MOST_ARCHITECTURES and all(name and architecture_in(name) == name for name in names)
