"""The schemas in docs/, which editors read, are those of this code."""

from pathlib import Path

import pytest

from webhook.commands.schema_files import SCHEMAS, SchemaFile

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=lambda schema: schema.name)
def test_the_schema_in_docs_is_current(schema: SchemaFile) -> None:
    assert (DOCS / schema.name).read_text() == schema.text, "run `make docs`"
