"""Keys that stand more than once in one map of YAML: kubectl silently uses the last value, so people need a message.

Maps are looked at as nodes, before merge keys are expanded. So a key that overrides a merged key is not repeated.
JSON is written by programs, and its keys are not looked at.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import yaml

from webhook.model.wording import cut

MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class RepeatedKey:
    """A key and the lines of its first and its last value; they count from 0 within the text."""

    key: str
    first: int
    last: int
    times: int = 2

    def message(self, line: int) -> str:
        """The message about the key; `line` is the number of the first line of the text."""
        first, last = line + self.first, line + self.last
        key = repr(cut(self.key))
        if self.times == 2:
            return f"the key {key} is set twice in one map, in line {first} and in line {last}"
        return f"the key {key} is set {self.times} times in one map, first in line {first} and last in line {last}"


def without_repeated(root: yaml.Node | None) -> list[RepeatedKey]:
    """Remove all but the last value of repeated keys from a tree of nodes; returns the repeated keys.

    Raises yaml.constructor.ConstructorError where a key is no scalar, and where two keys become equal only as texts,
    such as 1 and "1": kubectl takes either of them by chance.
    """
    found: list[RepeatedKey] = []
    to_come, known = [root], {id(root)}
    while to_come:
        node = to_come.pop()
        children: Iterable[yaml.Node] = ()
        if isinstance(node, yaml.MappingNode):
            found += _keep_last(node)
            children = (value for _, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            children = node.value
        for child in children:
            if isinstance(child, yaml.CollectionNode) and id(child) not in known:
                known.add(id(child))
                to_come.append(child)
    return sorted(found, key=lambda one: (one.last, one.first))


def _keep_last(node: yaml.MappingNode) -> Iterator[RepeatedKey]:
    """Remove all but the last value of each key of one map; returns the repeated keys."""
    last: dict[str, tuple[yaml.Node, yaml.Node]] = {}
    repeated: dict[str, RepeatedKey] = {}
    merges: list[tuple[yaml.Node, yaml.Node]] = []
    for pair in node.value:
        key = pair[0]
        if not isinstance(key, yaml.ScalarNode):
            raise mistake("a key must be a string", key)
        if key.tag == MERGE:
            merges.append(pair)
            continue
        name = str(key.value)
        if name in last:
            before = last.pop(name)[0]
            if before.tag != key.tag:
                raise mistake(f"the key {cut(name)!r} is set twice in one map; keep one of the two", key)
            once = RepeatedKey(name, before.start_mark.line, key.start_mark.line, times=1)
            earlier = repeated.get(name, once)
            repeated[name] = replace(earlier, last=key.start_mark.line, times=earlier.times + 1)
        last[name] = pair
    if repeated:
        node.value = [*merges, *last.values()]
    return iter(repeated.values())


def mistake(problem: str, node: Any) -> yaml.constructor.ConstructorError:
    """The error about a node of YAML."""
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
