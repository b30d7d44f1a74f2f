"""The tables in `webhook/cuda/data/`: their form, their order, and their sources."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from tests.golden import golden
from webhook.cuda import DATA
from webhook.cuda.families import READERS
from webhook.model.versions import parse_version
from webhook.yaml_files.shipped_tables import read_table
from webhook.yaml_files.yaml_lines import read_yaml

SCHEMAS = read_table(DATA / "schema.yaml")
FILES = sorted(path.name for path in DATA.glob("*.yaml") if path.name != "schema.yaml")
TABLES: dict[str, Any] = {name: read_table(DATA / name) for name in FILES}

KEYS = {
    "toolkits.yaml toolkits": "cuda",
    "toolkits.yaml floors": "major",
    "drivers.yaml drivers": "branch",
    "compute_capabilities.yaml capabilities": "compute",
    "compute_capabilities.yaml firstCuda": "major",
    "compute_capabilities.yaml firstCudaOf": "compute",
    "compute_capabilities.yaml leastCompute": "cuda",
    "forward_compat.yaml listings": "cuda",
    "ngc.yaml months": "month",
    "ngc.yaml tritonTrtllm": "month",
    "ngc.yaml tritonVllm": "month",
    "releases.yaml torch": "release",
    "releases.yaml rapids": "release",
}
"""By which of its keys each list is in order."""


def _lists() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for name, table in TABLES.items():
        for key, value in table.items():
            if isinstance(value, list):
                yield f"{name} {key}", value


LISTS = dict(_lists())


def _rows() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row with a source in every file, with the name of the file."""
    todo: list[tuple[str, Any]] = list(TABLES.items())
    while todo:
        name, value = todo.pop()
        if isinstance(value, dict):
            if "source" in value:
                yield name, value
            todo += [(name, part) for part in value.values()]
        elif isinstance(value, list):
            todo += [(name, part) for part in value]


ROWS = list(_rows())


def validator(name: str) -> Draft7Validator:
    """The schema of one file."""
    return Draft7Validator({**SCHEMAS[name], "definitions": SCHEMAS["definitions"]})


def test_every_file_has_a_schema_and_every_schema_a_file():
    """No table is left unchecked."""
    assert sorted({*SCHEMAS} - {"definitions"}) == FILES
    for name in FILES:
        Draft7Validator.check_schema({**SCHEMAS[name], "definitions": SCHEMAS["definitions"]})


@pytest.mark.parametrize("name", FILES)
def test_a_file_meets_its_schema(name):
    """Schemas cover unknown keys, types and required keys."""
    assert [f"{list(error.path)}: {error.message}" for error in validator(name).iter_errors(TABLES[name])] == []


@pytest.mark.parametrize("name", FILES)
def test_tables_are_strict_yaml(name):
    """No repeated keys, no tags, no ambiguous numbers."""
    assert read_yaml((DATA / name).read_bytes(), name).plain() == TABLES[name]


@pytest.mark.parametrize(("where", "key"), [pytest.param(where, key, id=where) for where, key in KEYS.items()])
def test_rows_are_in_order_without_duplicates(where, key):
    """The order is that of versions."""
    values = [row[key] for row in LISTS[where]]
    parts = [parse_version(value).parts if isinstance(value, str) else (value,) for value in values]
    assert all(one < other for one, other in pairwise(parts))


@pytest.mark.parametrize("where", LISTS)
def test_every_row_of_a_list_names_its_source_and_its_date(where):
    """A reader can check a row in its source, and sees its age."""
    for row in LISTS[where]:
        parts = [part for value in row.values() if isinstance(value, list) for part in value if isinstance(part, dict)]
        sourced = [row] if "source" in row else [part for part in parts if "from" in part or "month" in part]
        assert sourced, row
        assert all(one["source"] and one["date"] for one in sourced)


@pytest.mark.parametrize("name", FILES)
def test_every_source_that_is_explained_is_used_and_every_abbreviation_explained(name):
    """The head of the file explains sources in capitals."""
    explained = set(TABLES[name].get("sources", ()))
    used = {word for file, row in ROWS if file == name for word in re.split(r", | for |; ", row["source"])}
    assert {word for word in used if word.isupper() and word.isalpha()} <= explained
    assert {source for source in explained if not any(source in row["source"] for f, row in ROWS if f == name)} == set()


@pytest.mark.parametrize("product", [pytest.param(row, id=row["product"]) for row in LISTS["releases.yaml products"]])
def test_the_releases_of_a_product_are_in_order(product):
    """No version is in two rows."""
    rows = [(parse_version(row["from"]), parse_version(row["to"])) for row in product["releases"]]
    assert all(last.at_least(first.cut(len(last.parts))) for first, last in rows)
    assert all(last.parts < first.parts for (_, last), (first, _) in pairwise(rows))


@golden
def test_no_two_rows_have_the_same_key(where, key):
    values = [row[key] for row in LISTS[where]]
    assert len(values) == len(set(values))


def test_what_rows_name_is_there_and_nothing_that_is_there_has_no_name():
    """A list of releases that no row names is dead, and so is a reader."""
    families = LISTS["images.yaml families"]
    builds = {row["build"] for row in LISTS["kernels.yaml builds"]}
    assert {row["build"] for row in (*LISTS["kernels.yaml origins"], *families) if "build" in row} <= builds
    forms = [form for row in families for key in ("byTag", "byName") for form in row.get(key, {}).values()]
    named = {row["releases"] for row in families if "releases" in row}
    named |= {product for product in forms if not product[0].isdigit()}
    assert {row["product"] for row in LISTS["releases.yaml products"]} == named
    assert {row["reader"] for row in families if "reader" in row} == {*READERS}


def test_no_row_comes_after_one_that_fits_every_image():
    """The later row would never count."""
    done = set()
    for row in LISTS["images.yaml families"]:
        places = {(row["by"], place, image) for place in row.get("under", ["."]) for image in row["images"]}
        assert not places & done, row
        done |= set() if {"within", "named", "like"} & row.keys() else places


@pytest.mark.parametrize("row", [pytest.param(row, id=row["images"][0]) for row in LISTS["images.yaml families"]])
def test_the_images_of_a_row_have_the_parts_that_find_it(row):
    parts = {image.count("/") + 1 + (place != ".") for image in row["images"] for place in row.get("under", ["."])}
    assert parts <= ({1, 2} if row["by"] == "end" else {1})


def test_schemas_refuse_faulty_rows():
    """The checks above can fail: they find each of these mistakes."""
    table = {**TABLES["toolkits.yaml"], "toolkits": [dict(TABLES["toolkits.yaml"]["toolkits"][0])]}
    row = table["toolkits"][0]
    for change in ({"cuda": 12.4}, {"drivr": "1"}, {"date": "yesterday"}, {"source": ""}, {"verified": True}):
        row_before = dict(row)
        row.update(change)
        assert list(validator("toolkits.yaml").iter_errors(table)), change
        row.clear()
        row.update(row_before)
    del row["date"]
    assert list(validator("toolkits.yaml").iter_errors(table))


def test_the_tables_are_in_the_package():
    """Replicas read the tables from the wheel."""
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert '"webhook.cuda" = ["data/*"]' in project.read_text()
    assert all(path.suffix in (".yaml", ".md") for path in DATA.iterdir())


def test_the_tables_stay_small():
    """A row costs some 16 microseconds at each start."""
    assert sum(yaml_nodes(DATA / name) for name in FILES) < 16_000


def yaml_nodes(path: Path) -> int:
    """How many keys and values a file has."""
    return sum(isinstance(event, yaml.NodeEvent) for event in yaml.parse(path.read_bytes(), Loader=yaml.CSafeLoader))
