"""Small settings files in YAML, read strictly: what is unknown, twice or of another type is a fault with its line."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from webhook.model.shape import spelled

MOST_BYTES = 1024 * 1024
"""Largest file in bytes, which is also the largest ConfigMap."""
MAX_DEPTH = 50
"""Deepest nesting of maps and lists. The composer recurses, and ends the process where there is no stack left."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_KINDS = {
    "map": "a map",
    "seq": "a list",
    "str": "a string",
    "bool": "a boolean",
    "int": "a number",
    "float": "a number",
    "null": "nothing",
}


@dataclass(frozen=True, slots=True)
class YamlValue:
    """A value in a file, with its place there. What is wrong with it is added to `faults`."""

    node: yaml.Node
    file: str
    key: str
    faults: list[str]

    def fault(self, message: str, line: int | None = None) -> None:
        """Record what is wrong."""
        place = f"{self.file}:{(self.node.start_mark.line if line is None else line) + 1}"
        self.faults.append(": ".join(part for part in (place, self.key, message) if part))

    def entries(self, *known: str) -> dict[str, "YamlValue"]:
        """The entries of a map by their keys, of those that are known."""
        if not isinstance(self.node, yaml.MappingNode):
            self._expected("a map")
            return {}
        found: dict[str, YamlValue] = {}
        for key_node, value_node in self.node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
            part = YamlValue(value_node, self.file, f"{self.key}.{key}" if self.key else key, self.faults)
            if key not in known:
                part.fault(f"unknown key; known keys are {', '.join(sorted(known))}{hint(key, known)}", _line(key_node))
            elif key in found:
                part.fault("the map has this key twice; keep one of the two", _line(key_node))
            else:
                found[key] = part
        return found

    def items(self) -> Iterator["YamlValue"]:
        """The items of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            self._expected("a list")
            return
        for number, node in enumerate(self.node.value):
            yield YamlValue(node, self.file, f"{self.key}[{number}]", self.faults)

    def text(self) -> str:
        """A text that is not empty; an empty one stands for a fault."""
        if self._kind != "str":
            quotes = self._kind in ("bool", "int", "float")
            self._expected("a string" + ("; put it in quotes" if quotes else ""))
            return ""
        if not self.node.value:
            self.fault("is empty; write a string")
        return str(self.node.value)

    def boolean(self) -> bool:
        """True or false; false stands for a fault."""
        if self._kind != "bool":
            self._expected("true or false")
            return False
        return str(self.node.value).lower() in ("true", "yes", "on")

    def must_be(self, wanted: str) -> None:
        """Record a fault unless the value is this text."""
        text = self.text()
        if text and text != wanted:
            self.fault(f"{spelled(text)} is not allowed; write {wanted}")

    @property
    def _kind(self) -> str:
        return str(self.node.tag).removeprefix(_TAG)

    def _expected(self, what: str) -> None:
        written = f"{self.node.value} is " if isinstance(self.node, yaml.ScalarNode) and self._kind != "null" else ""
        self.fault(f"{written}{'' if written else 'found '}{_KINDS.get(self._kind, 'something else')}; write {what}")


def read_yaml(path: Path) -> tuple[YamlValue | None, list[str]]:
    """The one document of a file, None where it cannot be read, and the list that faults are added to."""
    faults: list[str] = []
    try:
        text = _text(path)
        _check_depth(text)
        node = yaml.compose(text, Loader=_LOADER)
    except OSError as error:
        return None, [f"{path}: the file cannot be read ({error.strerror or error}); name a readable file"]
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        return None, [f"{path}{line}: not valid YAML: {error.problem}"]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return None, [f"{path}: cannot be read as YAML in UTF-8 ({' '.join(str(error).split())[:200]})"]
    if node is None:
        return None, [f"{path}: the file is empty"]
    return YamlValue(node, str(path), "", faults), faults


def _text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"the file is larger than {MOST_BYTES} bytes")
    return content.decode("utf-8-sig")


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ValueError(f"the values are nested deeper than {MAX_DEPTH} levels")


def hint(value: str, choices: Iterable[str]) -> str:
    """Which of the choices was meant, where one is close."""
    lowered = {choice.lower(): choice for choice in choices}
    close = get_close_matches(value.lower(), lowered, n=1)
    return f"; did you mean {lowered[close[0]]}?" if close else ""


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line)
