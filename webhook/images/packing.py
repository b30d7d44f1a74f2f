"""The format in which replicas share results: one compressed JSON object, bounded because tenants choose images."""

import base64
import gzip
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from webhook.images.cache import MOST_REFERENCES, NEVER, LookupResult
from webhook.model.bounds import unzipped
from webhook.model.image import ImageConfig
from webhook.model.shape import FormatError

KEY = "images-v2"
"""Key of the ConfigMap. A later format gets another key, so that both exist during an upgrade."""
MOST_PACKED = 675 * 1024
"""Most bytes of the packed content: 900 KiB in base64, of the 1 MiB that a ConfigMap may have."""
MOST_UNPACKED = 4 * 2**20
"""Most bytes of the JSON."""
MOST_PROBLEM = 300
"""Most characters of a problem."""
LONGEST_WAIT = 3600.0
"""Seconds after which a look-up that failed is tried again at the latest."""

_MOST_QUOTES = 400_000
"""Most quotes, two for each string. They are bounded because a string takes several times its bytes in memory."""


@dataclass(frozen=True, slots=True)
class Content:
    """Results by reference. `is_complete` is false if some results did not fit."""

    results: Mapping[str, LookupResult]
    is_complete: bool = True


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
    ordered = sorted(results.items(), key=lambda item: (item[1].config is None, -item[1].at, item[0]))[:MOST_REFERENCES]
    while True:
        text = _json(ordered, is_complete=len(ordered) == len(results))
        packed = gzip.compress(text, compresslevel=6, mtime=0)
        excess = max(len(packed) / most, len(text) / MOST_UNPACKED, text.count(b'"') / _MOST_QUOTES)
        if excess <= 1 or not ordered:
            return packed
        ordered = ordered[: int(len(ordered) / excess * 0.95)]


def unpack(packed: bytes) -> Content:
    """Read packed content. Raises FormatError if it is not in this format."""
    try:
        found = orjson.loads(unzipped(packed, MOST_UNPACKED))
        envs = found["environments"]
        results = {reference: _result(entry, envs) for reference, entry in found["results"].items()}
        return Content(results, bool(found["isComplete"]))
    except (AttributeError, LookupError, TypeError, ValueError, zlib.error) as error:
        raise FormatError(f"it is not what replicas write ({error})") from None


def _json(results: Iterable[tuple[str, LookupResult]], *, is_complete: bool) -> bytes:
    """The results, sorted by reference to compress well; equal environments are written once."""
    envs: dict[tuple[tuple[str, str], ...], int] = {}
    written: dict[str, list[object]] = {}
    for reference, result in sorted(results):
        if (config := result.config) is None:
            written[reference] = [int(result.at), int(result.again), result.problem]
        else:
            env = envs.setdefault(tuple(sorted(config.env.items())), len(envs))
            written[reference] = [int(result.at), config.digest, config.architectures, env]
    return orjson.dumps({"isComplete": is_complete, "environments": [*map(dict, envs)], "results": written})


def _result(entry: list[Any], envs: list[Mapping[str, str]]) -> LookupResult:
    if len(entry) == 3:
        at, again, problem = entry
        return LookupResult(float(at), float(again), problem=problem)
    at, digest, names, env = entry
    return LookupResult(float(at), NEVER, ImageConfig(digest, envs[env], (*names,)))
