"""Policy files that stand in a test: given to the loader so that it finds mistakes in the lines where they are."""

import json
from collections.abc import Mapping
from pathlib import Path

from webhook.policy.directory import contents_of
from webhook.policy.loader import build
from webhook.policy.policy_errors import PolicyError, PolicyErrors, key_text
from webhook.policy.policy_set import PolicySet
from webhook.policy.schema import API_VERSION, QUOTAS_FILE, QUOTAS_KIND
from webhook.policy.yaml_lines import YamlNode


def load_inline(files: Mapping[str, YamlNode], path: tuple[str, ...]) -> PolicySet:
    """The policies in files that stand at `path` of a test. Raises PolicyErrors that name the test's lines."""
    file = next(iter(files.values())).file
    sources = {name: _text(name, node).encode("utf-8", "surrogatepass") for name, node in files.items()}
    try:
        return build(contents_of(Path(file), sources))
    except PolicyErrors as errors:
        raise PolicyErrors(_placed(error, file, path, files) for error in errors.errors) from None


def _placed(error: PolicyError, file: str, path: tuple[str, ...], files: Mapping[str, YamlNode]) -> PolicyError:
    """The error of a file as one of the test."""
    name = error.path.removeprefix(f"{file}/")
    key = key_text((*path, name))
    line = max(error.line, files[name].line if name in files else 0)
    return PolicyError(file, line, f"{key}: {error.key}" if error.key else key, error.message)


def _text(name: str, node: YamlNode) -> str:
    """What the file would hold, each key in the line in which it stands in the test."""
    if isinstance(node.value, dict):
        return "".join(_aligned(YamlNode({**_head(name, node), **node.value}, node.file, node.line), [1]))
    return "\n" * node.line + str(node.value)


def _head(name: str, node: YamlNode) -> dict[str, YamlNode]:
    """What a policy file begins with, for those that leave it out."""

    def said(value: str | dict[str, YamlNode]) -> YamlNode:
        return YamlNode(value, node.file, node.line)

    kind = QUOTAS_KIND if name == QUOTAS_FILE else "GPUPolicy"
    stem = said(name.removesuffix(".yaml"))
    return {"apiVersion": said(API_VERSION), "kind": said(kind), "metadata": said({"name": stem})}


def _aligned(node: YamlNode, line: list[int]) -> list[str]:
    """YAML in flow style; `line` is the one that has been reached, which no later text comes before."""
    match node.value:
        case dict():
            parts = ["{"]
            for key, child in node.value.items():
                parts += [_down_to(child, line), json.dumps(key, ensure_ascii=False), ": ", *_aligned(child, line), ","]
            return [*parts, "}"]
        case list():
            parts = ["["]
            for child in node.value:
                parts += [_down_to(child, line), *_aligned(child, line), ","]
            return [*parts, "]"]
        case bool() | None:
            return [json.dumps(node.value)]
        case int() | float():
            return [node.text]
    return [json.dumps(node.value, ensure_ascii=False)]


def _down_to(node: YamlNode, line: list[int]) -> str:
    """Line breaks up to where the node stands."""
    missing = max(node.line - line[0], 0)
    line[0] += missing
    return "\n" * missing
