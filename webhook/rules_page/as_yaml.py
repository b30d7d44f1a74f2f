"""YAML as people write it in manifests and policies."""

from typing import Any

import yaml

from webhook.audit.review_as_diff import WithoutAliases


class _Dumper(WithoutAliases):
    """Double quotes, no anchors, and lists indented below their key."""

    def choose_scalar_style(self) -> Any:
        """Double quotes where there have to be some."""
        style = super().choose_scalar_style()
        return '"' if style == "'" else style

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT  # the base class's
        """Indent lists too."""
        super().increase_indent(flow, indentless=False)


def as_yaml(value: Any) -> str:
    """A value in lines, the innermost maps and lists in one each.

    >>> print(as_yaml({"spec": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}}))
    spec:
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists}
    """
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=_WIDEST, default_flow_style=None)
    return text.rstrip("\n")


def in_one_line(value: Any) -> str:
    """A map or list in one line.

    >>> in_one_line({"mode": "enforce", "images": {"team/*": "12.4"}})
    '{mode: enforce, images: {team/*: "12.4"}}'
    """
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=_WIDEST, default_flow_style=True)
    return text.strip()


_WIDEST = 10_000
"""Columns of a line, so that none is broken."""
