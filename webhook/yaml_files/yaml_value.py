"""Reads small settings files key by key. A missing or unknown key, or a wrong type, is a fault with its line."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from webhook.model.shape import spelled
from webhook.model.wording import hint
from webhook.yaml_files.file_errors import Faults, FileErrors, KeyPath
from webhook.yaml_files.yaml_lines import MAX_BYTES, YamlNode, read_yaml


@dataclass(frozen=True, slots=True)
class YamlValue:
    """A value in a file, and the keys that lead to it. Mistakes in it are added to `faults`."""

    node: YamlNode
    path: KeyPath
    faults: Faults

    def fault(self, message: str) -> None:
        """Add a fault at this value."""
        self.faults.add(self.node.file, self.node.line, self.path, message)

    def entries(self, *known: str) -> dict[str, "YamlValue"]:
        """The entries of a map whose keys are known. An unknown key is a fault."""
        if not isinstance(self.node.value, dict):
            self._expected("a map")
            return {}
        found = {key: YamlValue(node, (*self.path, key), self.faults) for key, node in self.node.value.items()}
        for key in found.keys() - set(known):
            found.pop(key).fault(f"unknown key; known keys are {', '.join(sorted(known))}{hint(key, known)}")
        return found

    def items(self) -> Iterator["YamlValue"]:
        """The items of a list."""
        if not isinstance(self.node.value, list):
            self._expected("a list")
            return
        for number, node in enumerate(self.node.value):
            yield YamlValue(node, (*self.path, number), self.faults)

    def text(self) -> str:
        """A text that is not empty; empty after a fault."""
        value = self.node.value
        if not isinstance(value, str):
            self._expected("a string; put it in quotes" if isinstance(value, bool | int | float) else "a string")
            return ""
        if not value:
            self.fault("is empty; write a string")
        return value

    def boolean(self) -> bool:
        """True or false; false after a fault."""
        if not isinstance(self.node.value, bool):
            self._expected("true or false")
            return False
        return self.node.value

    def must_be(self, wanted: str) -> None:
        """Add a fault unless the value is this text."""
        text = self.text()
        if text and text != wanted:
            self.fault(f"{spelled(text)} is not allowed; write {wanted}")

    def _expected(self, what: str) -> None:
        kind = _kind(self.node.value)
        is_written = self.node.value is not None and not isinstance(self.node.value, dict | list)
        self.fault(f"{self.node.text[:_MOST_SHOWN] + ' is' if is_written else 'found'} {kind}; write {what}")


_MOST_SHOWN = 100
"""Characters of a faulty value that a message shows."""


def read_file(path: Path, kind: str) -> YamlValue:
    """The document in a file, which should have a `kind`. Raises FileErrors if there is none."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        found = f"the file cannot be read ({error.strerror or error}); name a readable file"
        raise FileErrors.of(str(path), found) from None
    return YamlValue(read_yaml(content, str(path), kind), (), Faults())


def _kind(value: object) -> str:
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    return "a boolean" if isinstance(value, bool) else "a string" if isinstance(value, str) else "a number"
