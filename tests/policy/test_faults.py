"""Every mistake in a file of policies is told with file, line, key, fault and remedy: the rows of faults.yaml."""

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.policy.conftest import PolicyDirectory
from webhook.policy.schema import KINDS

GROUPS: Mapping[str, Mapping[str, Any]] = yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text())
CASES = [
    pytest.param(group, row, key == "changes", id=f"{name}: {title}")
    for name, group in GROUPS.items()
    for key in ("rows", "changes")
    for title, row in group.get(key, {}).items()
]


@pytest.mark.parametrize(("group", "row", "is_change"), CASES)
def test_a_mistake_is_told_with_its_place_and_remedy(
    policies: PolicyDirectory, group: Mapping[str, Any], row: list[str], is_change: bool
) -> None:
    old, new, *expected = row if is_change else ("@", *row)
    assert any(old in text for text in group["files"].values())
    for file, text in group["files"].items():
        before, _, _ = text.partition(old)
        indent = "\n" + " " * (len(before) - before.rfind("\n") - 1) if not is_change else "\n"
        policies.write(file, head_of(file, text) + text.replace(old, new.replace("\n", indent)))
    now: datetime | None = group.get("now")
    errors = policies.errors(None if now is None else now.timestamp())
    patterns = [".*".join(map(re.escape, f"{group.get('at', '')}{text}".split("…"))) for text in expected]
    assert len(errors) == len(expected), errors
    pairs = zip(errors, patterns, strict=True)
    assert [error for error, pattern in pairs if not re.fullmatch(pattern, error, re.DOTALL)] == []


def head_of(file: str, text: str) -> str:
    """The first three lines of a file that begins with its spec."""
    kind, name = KINDS.get(file, "GPUPolicy"), file.removesuffix(".yaml")
    head = f"apiVersion: gpupolicy.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\n"
    return head if text.startswith("spec:") else ""
