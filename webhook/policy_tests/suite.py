"""Tests of policies as values: what a file says, before anything of it is run."""

from dataclasses import dataclass

from webhook.audit.documents import Document
from webhook.policy.policy_errors import KeyPath, PolicyError, key_text
from webhook.policy.yaml_lines import YamlNode
from webhook.policy_tests.format import CaseExpectation


@dataclass(frozen=True, slots=True)
class Case:
    """Resources and what is expected of them. `errors` are what is wrong with the resources that it names."""

    name: str
    description: str
    namespace: str
    documents: tuple[Document, ...]
    errors: tuple[PolicyError, ...]
    expect: CaseExpectation
    node: YamlNode
    path: KeyPath
    """Where in the file it stands."""

    @property
    def file(self) -> str:
        """The file it stands in."""
        return self.node.file

    @property
    def line(self) -> int:
        """The line it begins on, from 1."""
        return self.node.line

    def error(self, path: KeyPath, message: str) -> PolicyError:
        """An error about what stands at `path` of the case."""
        return error_at(self.node, path, message, self.path)


@dataclass(frozen=True, slots=True)
class Suite:
    """The test in one file. `policies` and `inventory` are what it says of them: a path (a text), the policies or
    objects themselves, or None where it says nothing.
    """

    file: str
    name: str
    policies: YamlNode | None
    inventory: YamlNode | None
    cases: tuple[Case, ...]


def error_at(root: YamlNode, path: KeyPath, message: str, base: KeyPath = ()) -> PolicyError:
    """An error about what stands at `path` of `root`, which itself stands at `base` of the file."""
    node = node_at(root, path)
    return PolicyError(root.file, node.line, key_text((*base, *path)), message)


def node_at(root: YamlNode, path: KeyPath) -> YamlNode:
    """What stands at `path`, or the nearest value above it."""
    node = root
    for key in path:
        child: YamlNode | None = None
        if isinstance(node.value, dict):
            child = node.value.get(str(key))
        elif isinstance(node.value, list) and isinstance(key, int) and key < len(node.value):
            child = node.value[key]
        if child is None:
            return node
        node = child
    return node
