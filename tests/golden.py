"""Tables of cases beside the tests that read them: `golden` runs a test for each row of its table.

The YAML file beside a module of tests has a table for a test, by its name: `columns` are the names of its arguments,
and `cases` the rows, by what is special about each, or a list of rows that speak for themselves. Lists of texts and
numbers become tuples; maps, and what is in them, stay as they are. `each` is for rows that are no plain values.
"""

import inspect
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests import quick_yaml


@cache
def _tables(file: Path) -> Any:
    return quick_yaml.load(file.read_text())


def _frozen(value: Any) -> Any:
    if isinstance(value, list) and not any(isinstance(part, dict) for part in value):
        return tuple(map(_frozen, value))
    return value


def golden(test: Any) -> Any:
    """Run a test for each row of its table in the YAML file beside its module."""
    table = _tables(Path(inspect.getfile(test)).with_suffix(".yaml"))[test.__name__]
    columns, cases = table["columns"], table["cases"]
    rows = cases.items() if isinstance(cases, dict) else [(None, row) for row in cases]
    params = [pytest.param(*map(_frozen, row if len(columns) > 1 else [row]), id=name) for name, row in rows]
    return pytest.mark.parametrize(columns, params)(test)


def each(names: str, rows: Mapping[str, Any]) -> pytest.MarkDecorator:
    """A test for each row, with the row's key as its id; with several names, rows are tuples."""
    params = [pytest.param(*(row if "," in names else (row,)), id=key) for key, row in rows.items()]
    return pytest.mark.parametrize(names, params)
