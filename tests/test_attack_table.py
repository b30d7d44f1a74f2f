"""docs/attacks.md names a test of every attack."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

_ROWS = {
    match[1]: match[0]
    for match in re.finditer(
        r"^- \*\*(A\d+)\*\* .*$", (ROOT / "docs/attacks.md").read_text(encoding="utf-8"), re.MULTILINE
    )
}


def test_rows_are_numbered_from_one_without_a_gap():
    assert list(_ROWS) == [f"A{number}" for number in range(1, len(_ROWS) + 1)]


@pytest.mark.parametrize("row", _ROWS)
def test_every_row_names_a_test_that_there_is(row):
    tests = re.findall(r"`(\S+\.py)::(\w+)`", _ROWS[row])
    assert tests
    for file, name in tests:
        defined = re.findall(r"def test_(\w+)", (ROOT / "tests" / file).read_text(encoding="utf-8"))
        assert name.removeprefix("test_") in defined
