"""A namespace's file over the default: maps recursively, lists and scalars replaced, every value keeping its origin."""

from webhook.rules.rule import Rule
from webhook.yaml_files.yaml_lines import YamlNode


def merge(base: YamlNode, over: YamlNode) -> YamlNode:
    """`over` merged over `base`; a merged map counts as written where `over` writes it."""
    if not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    merged = dict(base.value)
    for key, node in over.value.items():
        merged[key] = merge(merged[key], node) if key in merged else node
    return YamlNode(merged, over.file, over.line, over.text)


def merge_rule(rule: Rule, base: YamlNode | None, over: YamlNode) -> YamlNode:
    """The settings of one rule: those of a namespace's file over the default's, where the default names the rule.

    Where the file sets one key of a group that excludes each other, the default's other keys of the group are dropped.
    """
    if base is None:
        return over
    if isinstance(base.value, dict) and isinstance(over.value, dict):
        written = set(over.value)
        dropped = {key for group in rule.settings.exclusive if group & written for key in group - written}
        kept = {key: node for key, node in base.value.items() if key not in dropped}
        base = YamlNode(kept, base.file, base.line, base.text)
    return merge(base, over)
