"""What a registry demands with status 401 (RFC 9110, 11.6.1)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_LONGEST = 8 * 1024
"""Characters of one header that are read."""

_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"  # noqa: S105  # no secret: what RFC 9110 calls a token
_SCHEME = re.compile(rf"[\s,]*({_TOKEN})(?=[\s,]|$)(?!\s*=)", re.ASCII)
_PARAMETER = re.compile(rf'[\s,]*({_TOKEN})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))', re.ASCII)
_ESCAPE = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Challenge:
    """A scheme in lower case, such as bearer or basic, with its parameters, their names in lower case."""

    scheme: str
    parameters: Mapping[str, str]


def parse_challenges(headers: Iterable[str]) -> list[Challenge]:
    """The challenges in WWW-Authenticate headers, in their order; reading a header ends at what is malformed."""
    found: list[Challenge] = []
    for header in headers:
        if len(header) > _LONGEST:
            continue
        position = 0
        while scheme := _SCHEME.match(header, position):
            parameters: dict[str, str] = {}
            position = scheme.end()
            while parameter := _PARAMETER.match(header, position):
                name, quoted, plain = parameter.groups()
                parameters[name.lower()] = plain if quoted is None else _ESCAPE.sub(r"\1", quoted)
                position = parameter.end()
            found.append(Challenge(scheme.group(1).lower(), parameters))
    return found
