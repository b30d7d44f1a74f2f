"""Results as bytes, as the replicas share them: compressed lines of JSON, bounded in both directions.

Whoever may write the shared object can write anything into it. So nothing is read that this file could not have
written: what is too large is refused before it is unpacked, and a line that makes no sense is left out.
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
"""Where they stand in the ConfigMap; a later format gets a key of its own, beside this one during an upgrade."""
MOST_PACKED = 675 * 1024
"""Bytes of the result; 900 KiB in base64, of the 1 MiB that a ConfigMap may have."""
MOST_UNPACKED = 4 * 2**20
"""Bytes of the lines together."""
MOST_PROBLEM = 300
"""Characters of a problem."""
LONGEST_WAIT = 3600.0
"""Seconds after which a look-up that failed is tried again at the latest."""

_FORMAT = "gpu-policy-images 1"
_MOST_LINES = 2 * MOST_REFERENCES
_MOST_QUOTES = 400_000
"""Two for each text; a text takes several times more memory than room, and a variable is two of them."""
_LONGEST_LINE = 128 * 1024

_Env = tuple[tuple[str, str], ...]


class PackError(ValueError):
    """Bytes that hold no results."""


@dataclass(frozen=True, slots=True)
class Content:
    """What was packed: results by reference. `is_complete` is false where there was no room for others."""

    results: Mapping[str, LookupResult]
    is_complete: bool = True
    strange: int = 0
    """Lines that made no sense."""


def packed_in(config_map: Mapping[str, Any]) -> bytes:
    """The bytes in a ConfigMap, empty where there are none; what is no base64 stays as it is, and is found strange."""
    data = config_map.get("binaryData")
    text = data.get(KEY) if isinstance(data, dict) else None
    if not isinstance(text, str):
        return b""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return text.encode("utf-8", "replace")


def pack(results: Mapping[str, LookupResult], most: int = MOST_PACKED) -> bytes:
    """The results in at most so many bytes; where they do not fit, problems are left out first, then the oldest."""
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
    """What the bytes hold; PackError where they hold nothing that makes sense."""
    header, *lines = _unzipped(packed).split(b"\n", _MOST_LINES + 1)
    match _parsed(header):
        case [str() as name, bool() as is_complete] if name == _FORMAT:
            pass
        case _:
            raise PackError("it does not begin as results do")
    results: dict[str, LookupResult] = {}
    envs: dict[int, Mapping[str, str]] = {}
    strange = lines.pop().count(b"\n") + 1 if len(lines) > _MOST_LINES else 0
    for line in lines:
        match _parsed(line):
            case [int() as number, dict() as env] if _is_env(env):
                envs[number] = env
            case [str() as reference, *rest] if (result := _result(rest, envs)) and _is_reference(reference):
                results[reference] = result
            case _:
                strange += 1
    return Content(results, is_complete, strange)


def _lines(results: list[tuple[str, LookupResult]], *, is_complete: bool) -> Iterator[bytes]:
    """One line for each, sorted by reference because neighbours have much in common; an environment comes first."""
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
    """Whether it would also be read."""
    if result.config is None:
        return _is_problem(result.problem) and 0 <= result.again <= LONGEST_WAIT
    return (
        _is_env(result.config.env) and is_digest(result.config.digest) and _are_all(list(result.config.architectures))
    )


def _unzipped(packed: bytes) -> bytes:
    if len(packed) > 2 * MOST_PACKED:
        raise PackError(f"it has {len(packed)} bytes")
    try:
        text = unzipped(packed, MOST_UNPACKED)
    except zlib.error as error:
        raise PackError(f"it is not compressed as results are ({error})") from None
    except ValueError as error:
        raise PackError(str(error)) from None
    if text.count(b'"') > _MOST_QUOTES:
        raise PackError("it holds more strings than are ever written")
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
    """Whether these are variables, and no more than are read from images."""
    texts = [text for pair in found.items() for text in pair]
    return all(isinstance(text, str) and _is_text(text) for text in texts) and sum(map(len, texts)) <= MOST_CHARACTERS


def _result(rest: list[Any], envs: Mapping[int, Mapping[str, str]]) -> LookupResult | None:
    """The result that stands in a line behind the reference, None where there is none."""
    match rest:
        case [int() as at, int() as again, str() as problem] if _is_problem(problem) and 0 <= again <= LONGEST_WAIT:
            return LookupResult(float(at), float(again), problem=problem)
        case [int() as at, str() as digest, list() as names, int() as env] if is_digest(digest) and env in envs:
            return (
                LookupResult(float(at), NEVER, ImageConfig(digest, envs[env], (*names,))) if _are_all(names) else None
            )
    return None


def _is_reference(text: str) -> bool:
    """Whether this is how a reference is spelled here."""
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
