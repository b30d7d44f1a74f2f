"""Manifests from files, directories and standard input: one broken document spoils no other."""

import io
from pathlib import Path

import pytest

from tests.golden import golden
from webhook.audit.documents import Document, DocumentError, read_all, read_text

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"
EXPECTED = "not a Kubernetes object: expected a map with apiVersion and kind"


def read(text: str) -> list[Document | DocumentError]:
    return list(read_text(text, "file"))


def seen(found: list[Document | DocumentError]) -> list[str]:
    """Each document as its number, line and name, each error as its number and text."""
    return [
        f"{each.number}@{each.line} {(each.object.get('metadata') or {}).get('name')}"
        if isinstance(each, Document)
        else f"{each.number} {each}"
        for each in found
    ]


def read_paths(*paths: object, stdin: bytes = b"") -> list[Document | DocumentError]:
    return list(read_all(map(str, paths), io.BytesIO(stdin)))


@pytest.mark.parametrize(
    "separator",
    ["---\n", "--- \n", "---\r\n", "--- # next\n", "---\n# comment\n---\n", "...\n---\n", "---\n\n\n---\n", "---\t\n"],
)
def test_documents_are_counted_from_one_whatever_separates_them(separator: str) -> None:
    found = read(POD % "a" + separator + POD % "b")
    assert [each.number for each in found] == [1, 2]
    assert [each.object["metadata"]["name"] for each in found if isinstance(each, Document)] == ["a", "b"]


def test_each_document_knows_its_line() -> None:
    text = "# head\n\n---\n" + POD % "a" + "---\n\n\n" + POD % "b" + "---\n# only a comment\n---\n" + POD % "c"
    assert seen(read(text)) == ["1@4 a", "2@10 b", "3@16 c"]


@pytest.mark.parametrize("head", ["---\n", "\n\n---\n", "%YAML 1.2\n---\n", "# comment\n---\n", "\ufeff"])
def test_what_stands_before_the_first_document_is_none(head: str) -> None:
    found = read_paths("-", stdin=(head + POD % "a").encode())
    assert [each.number for each in found] == [1]
    assert isinstance(found[0], Document)


def test_a_separator_within_a_line_or_a_block_separates_nothing() -> None:
    text = POD % "a" + "data:\n  a: '---'\n  b: |\n    ---\n    x\n  c: ---x\n---x: 1\n"
    (document,) = read(text)
    assert isinstance(document, Document)
    assert document.object["---x"] == 1


def test_the_line_of_a_fault_is_that_of_the_file() -> None:
    text = POD % "a" + "---\n\n" + POD % "b" + "kind: X\n---\n" + POD % "c"
    broken = "2 file:9: the key 'kind' is set twice in one map, in line 7 and in line 9; keep one of them"
    assert seen(read(text)) == ["1@1 a", broken, "3@11 c"]


@pytest.mark.parametrize("text", ["", "\n\n", "---\n---\n", "# only a comment\n", "%YAML 1.2\n", "\ufeff", "...\n"])
def test_an_empty_file_is_an_error_in_line_one(text: str) -> None:
    assert seen(read_paths("-", stdin=text.encode())) == ["0 -:1: contains no YAML or JSON document"]


@pytest.mark.parametrize("text", ["hello", "- a\n- b", "7", "a: b", "apiVersion: v1", "{}", "~"])
def test_what_is_no_object_is_an_error(text: str) -> None:
    assert seen(read(text)) == [f"1 file:1: {EXPECTED}"]


def test_the_items_of_a_list_are_documents() -> None:
    text = """\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: a}}
- {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod, metadata: {name: b}}]}
- not an object
- {apiVersion: apps/v1, kind: Pod}
- {kind: Pod, metadata: {name: c}}
"""
    assert seen(read(text)) == [
        "1@4 a",
        "1@5 b",
        f"1 file:1: items[2]: {EXPECTED}",
        "1 file:7: apiVersion: found 'apps/v1', but a Pod's is 'v1'",
        f"1 file:8: items[4]: {EXPECTED}",
    ]


@golden
def test_the_items_of_a_typed_list_need_not_repeat_their_kind(kind: str, api_version: str, item_kind: str) -> None:
    (document,) = read(f"apiVersion: {api_version}\nkind: {kind}\nitems: [{{metadata: {{name: a}}}}]")
    assert isinstance(document, Document)
    assert (document.api_version, document.kind) == (api_version, item_kind)


@pytest.mark.parametrize("items", ["null", "[]", "{}", "7"])
def test_an_empty_list_is_no_error(items: str) -> None:
    found = read(f"apiVersion: v1\nkind: List\nitems: {items}")
    assert not [each for each in found if isinstance(each, DocumentError)]


@pytest.mark.parametrize(
    "items", ["[a, b]", "[]", "null", "[{name: a}]", "[{metadata: null}]", "[{metadata: {name: a}}, b]"]
)
def test_a_kind_of_somebody_else_that_ends_in_list_is_left_alone(items: str) -> None:
    (document,) = read(f"apiVersion: example.com/v1\nkind: AllowList\nitems: {items}")
    assert isinstance(document, Document)
    assert document.kind == "AllowList"


@golden
def test_kinds_of_others_are_documents_whatever_they_are_called(api_version: str, kind: str) -> None:
    (document,) = read(f"apiVersion: {api_version}\nkind: {kind}\nspec: null")
    assert isinstance(document, Document)


def test_the_last_of_repeated_keys_counts_where_somebody_hears_of_them() -> None:
    heard: list[str] = []
    found = list(read_text(POD % "a" + "---\n\n" + POD % "b" + "metadata: {name: c}\n", "file", heard.append))
    assert seen(found) == ["1@1 a", "2@6 c"]
    place = "file:9: the key 'metadata' is set twice in one map, in line 8 and in line 9"
    assert heard == [f"{place}; kubectl uses the last value, and so does this command; keep one of them"]


@golden
def test_strict_names_every_repeated_key_of_an_object_in_one_error(count: int, told: tuple[str, ...]) -> None:
    keys = "".join(f"k{number}: 1\nk{number}: 2\n" for number in range(count))
    (error,) = read_text("apiVersion: v1\nkind: Pod\n" + keys, "file")
    assert isinstance(error, DocumentError)
    assert error.line == 4
    assert [part for part in told if part not in error.message] == []
    assert error.message.count(";") == min(count, 20) + (count > 20)


@pytest.mark.parametrize("is_told", [True, False], ids=["lenient", "strict"])
def test_repeated_keys_of_what_is_no_object_are_passed_over_in_a_directory(tmp_path: Path, is_told: bool) -> None:
    (tmp_path / "values.yaml").write_text("a: 1\na: 2\n")
    (tmp_path / "a.yaml").write_text(POD % "a")
    heard: list[str] = []
    assert seen(list(read_all([str(tmp_path)], io.BytesIO(), heard.append if is_told else None))) == ["1@1 a"]
    assert heard == []


@golden
def test_each_item_of_a_list_has_its_own_line(text: str, expected: tuple[str, ...]) -> None:
    found = read(text)
    shown = [one if isinstance(doc, Document) else f"1@{doc.line}" for one, doc in zip(seen(found), found, strict=True)]
    assert (*shown,) == expected
