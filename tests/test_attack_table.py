"""docs/attacks.md and the tests that are named after its rows say the same."""

import re
from pathlib import Path

import pytest

from tests.operation import ROOT

_ROWS = {
    match[1]: match[0]
    for match in re.finditer(r"^\| (A\d+) \|.*$", (ROOT / "docs/attacks.md").read_text(encoding="utf-8"), re.MULTILINE)
}
_NAMED = {
    row
    for path in sorted(Path(ROOT, "tests").rglob("test_*.py"))
    for name in re.findall(r"def test((?:_A\d+)+)_", path.read_text(encoding="utf-8"))
    for row in re.findall(r"A\d+", name)
}


def test_rows_are_numbered_from_one_without_a_gap():
    assert list(_ROWS) == [f"A{number}" for number in range(1, len(_ROWS) + 1)]


def test_every_row_that_a_test_is_named_after_is_in_the_table():
    assert set() == _NAMED - set(_ROWS)


@pytest.mark.parametrize("row", _ROWS)
def test_every_row_is_tried_by_a_test_or_says_where_it_is_decided(row):
    decisions = re.findall(r"\((decisions/[^)]+)\)", _ROWS[row])

    assert row in _NAMED or decisions
    assert not [page for page in decisions if not (ROOT / "docs" / page).is_file()]
