"""Every call passes its tables. A forgotten argument would ignore the rows of the platform."""

import ast
from collections.abc import Iterator
from pathlib import Path

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
    "webhook/commands/top.py capacity_of": "counts GPUs, whatever they are",
}


def _calls() -> Iterator[tuple[str, str, ast.Call]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield str(path.relative_to(PACKAGE.parent)), node.func.id, node


def test_every_call_passes_its_tables_and_every_listed_function_is_called() -> None:
    calls = [one for one in _calls() if one[1] in TAKING or one[1] in BY_NAME]
    assert {name for _, name, _ in calls} == {*TAKING, *BY_NAME}
    assert [f"{where}:{call.lineno} {name}" for where, name, call in calls if not _passes(where, name, call)] == []


def _passes(where: str, name: str, call: ast.Call) -> bool:
    named = {keyword.arg for keyword in call.keywords}
    if name in BY_NAME:
        return BY_NAME[name] in named or len(call.args) >= 3
    return f"{where} {name}" in OTHERS or "tables" in named or len(call.args) >= TAKING[name]
