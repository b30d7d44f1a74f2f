"""As much of PromQL as it takes to see which metrics and labels an expression uses; promtool, which reads it all."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import quick_yaml

ROOT = Path(__file__).parents[2]
FILES = ROOT / "deploy" / "chart" / "files"
RULE_FILES = (FILES / "alerts.yaml", FILES / "objectives.yaml")
TARGET_LABELS = frozenset({"cluster", "instance", "job", "namespace", "pod"})
"""What the scrape adds to every series; not all of them everywhere."""
OF_THE_API_SERVER = {
    "apiserver_admission_webhook_admission_duration_seconds_count": {"name", "type", "operation", "rejected"},
    "apiserver_admission_webhook_rejection_count": {"name", "type", "operation", "error_type", "rejection_code"},
    "apiserver_admission_webhook_fail_open_count": {"name", "type"},
}
"""Metrics of kube-apiserver and their labels."""

_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR = re.compile(r"\{([^}]*)\}")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_GROUPING = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_RANGE = re.compile(r"\[[^]]*\]")
_METRIC = re.compile(r"(?<![\w.:])([a-zA-Z_][\w:]*)\b(?!\s*[(:])(\s*\x00(\d+)\x00)?")
_WORDS = {"and", "or", "unless", "bool", "offset"}
_MADE = re.compile(r'"(\w+)",\s*"[^"]*",\s*"\w*",\s*"[^"]*"\s*\)')


def selections(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Every metric that an expression reads, each with the labels that it is selected by."""
    selectors: list[set[str]] = []

    def keep(found: re.Match[str]) -> str:
        selectors.append(set(_MATCHER.findall(found[1])))
        return f"\x00{len(selectors) - 1}\x00"

    bare = _RANGE.sub("", _GROUPING.sub("", _SELECTOR.sub(keep, _TEXT.sub('""', expression))))
    for found in _METRIC.finditer(bare):
        if found[1] not in _WORDS:
            yield found[1], selectors[int(found[3])] if found[3] else set()


def grouping(expression: str) -> set[str]:
    """The labels that an expression groups or joins by."""
    return {label.strip() for found in _GROUPING.findall(expression) for label in found.split(",")}


def made(expression: str) -> set[str]:
    """The labels that label_replace writes in an expression."""
    return set(_MADE.findall(expression))


def promtool(*arguments: str | Path, text: str | None = None) -> str:
    """What promtool says when it finds nothing wrong; skips where there is none."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed; Debian has it in the package prometheus")
    done = subprocess.run([program, *map(str, arguments)], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rules() -> list[dict[str, Any]]:
    """The rules of the rule files: alerts, and what is recorded for them."""
    groups = [group for file in RULE_FILES for group in quick_yaml.load(file.read_text())["groups"]]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    """The rules that are alerts."""
    return [rule for rule in rules() if "alert" in rule]


def recorded() -> dict[str, set[str]]:
    """The series that rules record, and the labels of each."""
    return {rule["record"]: grouping(rule["expr"]) for rule in rules() if "record" in rule}
