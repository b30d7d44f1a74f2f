"""One public name stands for one thing: who reads `AuditReport` or opens `ledger.py` knows which one it is."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "webhook"

CLASSES = {"Settings"}
"""Names of several public classes. Each rule calls its own `Settings`; docs/decisions/ says why."""


def public_classes(path: Path) -> Iterator[str]:
    """The public classes that a module defines at its top level."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def repeated(names: dict[str, list[str]]) -> set[str]:
    return {name for name, places in names.items() if len(places) > 1}


@pytest.fixture(scope="module")
def classes() -> dict[str, list[str]]:
    """Where each public class is defined."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted([*PACKAGE.rglob("*.py"), *(ROOT / "certs").rglob("*.py")]):
        for name in public_classes(path):
            found[name].append(str(path.relative_to(ROOT)))
    return found


@pytest.fixture(scope="module")
def modules() -> dict[str, list[str]]:
    """Where modules of each name are."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        if not path.stem.startswith("__"):
            found[path.stem].append(str(path.relative_to(PACKAGE)))
    return found


def test_no_two_public_classes_share_a_name(classes: dict[str, list[str]]) -> None:
    assert {name: classes[name] for name in repeated(classes) - CLASSES} == {}


def test_no_two_modules_share_a_name(modules: dict[str, list[str]]) -> None:
    assert {name: modules[name] for name in repeated(modules)} == {}


def test_what_may_share_a_name_still_does(classes: dict[str, list[str]]) -> None:
    """Take names off the list above as soon as they stand for one thing."""
    assert CLASSES - repeated(classes) == set()
