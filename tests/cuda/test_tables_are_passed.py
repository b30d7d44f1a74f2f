"""Every call passes its tables. A forgotten argument would ignore the rows of the platform."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "webhook"

TAKING = {
    "deciding_finding": 3,
    "legacy_gate": 3,
    "remedy": 4,
    "expected_labels": 3,
    "assess": 3,
    "remedy_for": 4,
    "offer_of": 2,
    "newest_cuda": 2,
    "node_kinds": 4,
    "capacity_of": 3,
    "cuda_reference": 1,
}
"""Functions with a default for the tables, and the number of arguments of a call that passes them."""
BY_NAME = {"ImageContext": "tables", "offer_from": "gpus", "Knowledge": "tables"}
"""Functions that take the tables by keyword."""
OTHERS = {
    "webhook/doctor/node_checks.py offer_of": "asks for the driver alone, which no table tells",
}


def _calls() -> Iterator[tuple[str, str, ast.Call]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield str(path.relative_to(PACKAGE.parent)), node.func.id, node


CALLS = [(where, name, call) for where, name, call in _calls() if name in TAKING or name in BY_NAME]


def test_every_listed_function_is_called() -> None:
    """The list has no functions that are no longer called."""
    assert {name for _, name, _ in CALLS} == {*TAKING, *BY_NAME}


@pytest.mark.parametrize("at", range(len(CALLS)), ids=[f"{where}:{call.lineno} {name}" for where, name, call in CALLS])
def test_every_call_passes_its_tables(at: int) -> None:
    where, name, call = CALLS[at]
    named = {keyword.arg for keyword in call.keywords}
    if name in BY_NAME:
        assert BY_NAME[name] in named or len(call.args) >= 3
    elif f"{where} {name}" not in OTHERS:
        assert "tables" in named or len(call.args) >= TAKING[name]
