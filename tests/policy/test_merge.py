"""A namespace's file over the default."""

from typing import Any, ClassVar

from hypothesis import given
from hypothesis import strategies as st

from webhook.policy.document import merge, merge_rule
from webhook.rules.rule import Rule
from webhook.rules.rule_settings import RuleSettings
from webhook.yaml_files.yaml_lines import YamlNode

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)
maps = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


def node(value: Any, file: str) -> YamlNode:
    if isinstance(value, dict):
        return YamlNode({key: node(part, file) for key, part in value.items()}, file, 1)
    if isinstance(value, list):
        return YamlNode([node(part, file) for part in value], file, 1)
    return YamlNode(value, file, 1)


def paths(value: YamlNode, prefix: tuple[str, ...] = ()) -> dict[tuple[str, ...], YamlNode]:
    """Everything that is no map, by the keys that lead to it."""
    if isinstance(value.value, dict):
        return {path: leaf for key, part in value.value.items() for path, leaf in paths(part, (*prefix, key)).items()}
    return {prefix: value}


def lookup(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return ...
        value = value[key]
    return value


@given(maps, maps)
def test_every_value_comes_from_the_namespace_if_it_says_something_there_else_from_the_default(base, over) -> None:
    merged = merge(node(base, "default"), node(over, "own"))
    for path, leaf in paths(merged).items():
        own = lookup(over, path)
        source = own if own is not ... else lookup(base, path)
        assert leaf.plain() == source
        assert leaf.file == ("own" if own is not ... else "default")
    plain = merged.plain()
    assert all(lookup(plain, path) == leaf.plain() for path, leaf in paths(node(over, "own")).items())
    assert all(lookup(plain, (key,)) is not ... for key in base)


@given(maps)
def test_merging_with_nothing_or_with_itself_changes_nothing(value) -> None:
    assert merge(node(value, "default"), node({}, "own")).plain() == value
    assert merge(node({}, "default"), node(value, "own")).plain() == value
    assert merge(node(value, "default"), node(value, "own")).plain() == value


class Sizes(RuleSettings):
    """Settings with a group of which one may be set."""

    a: int = 0
    """A."""
    b: int = 0
    """B."""
    c: int = 0
    """C."""
    exclusive: ClassVar[tuple[frozenset[str], ...]] = (frozenset({"a", "b", "c"}),)


SIZES = Rule(key="sizes", promise="Sizes.", settings=Sizes)


def merged(base: dict[str, Any], over: dict[str, Any]) -> Any:
    return merge_rule(SIZES, node(base, "default"), node(over, "own")).plain()


def test_a_file_that_sets_one_key_of_a_group_drops_the_others_of_the_default() -> None:
    assert merged({"mode": "warn", "a": 1}, {"b": 2}) == {"mode": "warn", "b": 2}
    assert merged({"mode": "warn", "a": 1}, {"a": 2}) == {"mode": "warn", "a": 2}


def test_a_file_that_sets_no_key_of_a_group_keeps_the_one_of_the_default() -> None:
    assert merged({"mode": "warn", "a": 1}, {"mode": "audit"}) == {"mode": "audit", "a": 1}
