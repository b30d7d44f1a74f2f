"""`gpu-policy policy schema --write`: schemas for editors outside of this repository."""

import json
import re
from pathlib import Path

import pytest

from tests.command_line import ROOT, gpu_policy
from webhook.commands.schema_files import SCHEMAS, lines_for_editors, write_schemas


def test_every_kind_is_written_as_it_is_printed(tmp_path: Path) -> None:
    done = gpu_policy("policy", "schema", "--write", str(tmp_path / "new" / "schemas"))
    assert done.exit_code == 0, done.stderr
    for kind, one in SCHEMAS.items():
        text = (tmp_path / "new" / "schemas" / one.name).read_text()
        assert text == gpu_policy("policy", "schema", "--kind", kind).stdout
        assert text == (ROOT / "docs" / one.name).read_text(), "the documents have the same file"


@pytest.mark.parametrize(
    ("schemas", "policies"), [("schemas", "policies"), ("a/b", "c/d/policies"), (".", "policies"), ("p", "p")]
)
def test_the_printed_line_leads_from_a_file_to_its_schema(tmp_path: Path, schemas: str, policies: str) -> None:
    write_schemas(tmp_path / schemas)
    printed = list(lines_for_editors(tmp_path / schemas, tmp_path / policies))
    assert len(printed) == 2 * len(SCHEMAS)
    for head, line in zip(printed[::2], printed[1::2], strict=True):
        files, kind = re.fullmatch(r"(.+) \((\w+)\):", head).groups()  # type: ignore[union-attr]  # or it fails
        path = line.partition("# yaml-language-server: $schema=")[2]
        assert path.startswith("."), "an editor may take anything else for the name of a schema"
        found = json.loads((Path(files).parent / path).resolve().read_text())
        assert found["title"] == kind


def test_the_shipped_policies_have_the_lines_that_are_printed() -> None:
    lines = {line.strip() for line in lines_for_editors(ROOT / "docs", ROOT / "policies")}
    assert (ROOT / "policies" / "_default.yaml").read_text().splitlines()[0] in lines


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = gpu_policy("policy", "schema", "--write", str(tmp_path / "file"))
    assert done.exit_code == 2
    assert f"{tmp_path / 'file'}: " in done.stderr


@pytest.mark.parametrize(
    ("directory", "said"),
    [
        pytest.param("", "--write is empty; name a directory", id="empty, as by a variable that is not set"),
        pytest.param(" ", "--write is empty; name a directory", id="a space"),
        pytest.param("my schemas", "../my schemas/policy-schema.json, only up to the space or #", id="a space within"),
        pytest.param("c#", "../c#/policy-schema.json, only up to the space or #", id="the beginning of a fragment"),
    ],
)
def test_a_directory_that_no_editor_would_find_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = gpu_policy("policy", "schema", "--write", directory)
    assert done.exit_code == 2
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []
