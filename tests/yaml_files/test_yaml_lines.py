"""YAML with line numbers: what is read, what is refused, and that nothing else can happen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each
from webhook.yaml_files.file_errors import FileErrors
from webhook.yaml_files.yaml_lines import MAX_BYTES, MAX_CHARACTERS, YamlNode, count_values, read_yaml


def faults(source: bytes) -> list[str]:
    with pytest.raises(FileErrors) as caught:
        read_yaml(source, "f.yaml")
    return [str(error) for error in caught.value.errors]


UNDEFINED = "f.yaml:1: not valid YAML: the alias *x refers to an anchor that is not defined, or that contains the alias"


def at(node: YamlNode, *path: str | int) -> YamlNode:
    for key in path:
        node = node.value[key]  # type: ignore[index,call-overload]
    return node


def test_values_keep_their_line_and_their_text() -> None:
    node = read_yaml(b"a:\n  b: off\n  c:\n  - 1.50\n  - x\n", "f.yaml")
    assert node.plain() == {"a": {"b": False, "c": [1.5, "x"]}}
    assert (at(node, "a", "b").line, at(node, "a", "b").text) == (2, "off")
    assert (at(node, "a", "c", 0).line, at(node, "a", "c", 0).text) == (4, "1.50")
    assert at(node, "a", "c", 1).line == 5


def test_anchors_aliases_and_merge_keys_work_and_an_own_key_beats_a_merged_one() -> None:
    node = read_yaml(
        b"base: &b {x: 1, y: 2}\nown: {<<: *b, y: 3}\nsame: *b\nmany: {<<: [*b, {z: 4, x: 9}]}\n", "f.yaml"
    )
    assert node.plain()["own"] == {"x": 1, "y": 3}
    assert node.plain()["same"] == {"x": 1, "y": 2}
    assert node.plain()["many"] == {"x": 1, "y": 2, "z": 4}
    assert at(node, "own", "x").line == 1


def test_a_date_is_the_text_that_was_written() -> None:
    assert read_yaml(b"a: 2026-01-31", "f.yaml").plain() == {"a": "2026-01-31"}


@each(
    "source, expected",
    {
        "duplicate key": (b"a: 1\nb: 2\na: 3\n", ["f.yaml:3: a: a is already set in line 1; keep one of the two"]),
        "tab": (b"a:\n\tb: 1\n", ["f.yaml:2: a tab indents this line; YAML is indented with spaces"]),
        "syntax": (
            b"a: [1\n",
            ["f.yaml:2: not valid YAML: did not find expected ',' or ']' while parsing a flow sequence"],
        ),
        "conflict markers": (
            b"a: 1\n<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> other\n",
            [
                "f.yaml:2: a merge conflict marker; resolve the conflict",
                "f.yaml:6: a merge conflict marker; resolve the conflict",
            ],
        ),
        "documents": (b"a: 1\n---\nb: 2\n", ["f.yaml:2: a second document starts here; a file holds one GPUPolicy"]),
        "empty": (b"", ["f.yaml:1: the file is empty; write a GPUPolicy, or remove the file"]),
        "comments only": (b"# nothing\n", ["f.yaml:1: the file is empty; write a GPUPolicy, or remove the file"]),
        "not UTF-8": (b"a: 1\nb: \xff\n", ["f.yaml:2: not UTF-8; save the file in UTF-8"]),
        "control character": (
            b"a: 1\nb: \x01\n",
            ["f.yaml:2: control character U+0001, which YAML does not allow; remove it"],
        ),
        "keys that are no text": (
            b"a: 1\non: 2\n3: 4\n",
            [
                "f.yaml:2: on: the key on is a boolean in YAML; put it in quotes",
                "f.yaml:3: 3: the key 3 is a number in YAML; put it in quotes",
            ],
        ),
        "a list as key": (b"? [a]\n: 1\n", ["f.yaml:1: a key must be a string, not a map or a list"]),
        "numbers that surprise": (
            b"a: 010\nb: .inf\nc: 1:30\n",
            [
                "f.yaml:1: a: 010 is not a plain decimal number; write one, or put it in quotes",
                "f.yaml:2: b: .inf is not a plain decimal number; write one, or put it in quotes",
                "f.yaml:3: c: 1:30 is not a plain decimal number; write one, or put it in quotes",
            ],
        ),
        "tags": (
            b"a: !!python/object:os.system x\nb: !x {}\nc: !!bool x\nd: !!int x\n",
            [
                "f.yaml:1: a: the tag !!python/object:os.system is not supported; remove it",
                "f.yaml:2: b: the tag !x is not supported; remove it",
                "f.yaml:3: c: the tag !!bool is not supported; remove it",
                "f.yaml:4: d: x is not a plain decimal number; write one, or put it in quotes",
            ],
        ),
        "recursive alias": (b"a: &x [*x]\n", [UNDEFINED]),
        "undefined alias": (b"a: *x\n", [UNDEFINED]),
        "merge key": (b"a: {<<: 1}\n", ["f.yaml:1: a.<<: a merge key takes a map or a list of maps"]),
        "too deep": (b"[" * 51 + b"]" * 51, ["f.yaml:1: nested deeper than 50 levels"]),
        "far too deep": (b"[" * 100_000, ["f.yaml:1: nested deeper than 50 levels"]),
        "too large": (
            b"#" * (MAX_BYTES + 1),
            ["f.yaml: larger than 1048576 bytes (1 MiB), the most that such a file may have"],
        ),
    },
)
def test_what_is_refused_is_told_with_its_line(source: bytes, expected: list[str]) -> None:
    assert expected == faults(source)


def test_aliases_that_multiply_are_refused_before_they_fill_the_memory() -> None:
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12)]
    (fault,) = faults("\n".join(lines).encode())
    assert "more than 200000 keys and values once aliases are expanded" in fault


@given(st.binary(max_size=200) | st.text("a:-[]{}&*!|>'\"%@`?,# \n\t<0.", max_size=60).map(str.encode))
def test_any_bytes_give_a_value_or_policy_errors(source: bytes) -> None:
    try:
        node = read_yaml(source, "f.yaml")
    except FileErrors as caught:
        lines = [error.line for error in caught.errors]
    else:
        lines = [node.line]
    assert lines
    assert all(line >= 1 for line in lines)


LONG = "x" * (MAX_BYTES // 2)


@each(
    "source",
    {
        "a long text behind many aliases": f"a: &a {LONG}\nb: [{'*a, ' * 40_000}]\n",
        "a long key behind many aliases": f"a: &a {{? {LONG}\n: 1}}\nb: [{'*a, ' * 40_000}]\n",
        "a long key above many values": f"? {LONG}\n: [{'~, ' * 40_000}]\n",
        "a long key that is merged": f"a: &a {{? {LONG}\n: 1}}\nb: {{<<: [{'*a, ' * 40_000}]}}\n",
    },
)
def test_texts_are_refused_before_aliases_and_faults_make_gigabytes_of_them(source: str) -> None:
    (fault,) = faults(source.encode())
    assert f"more than {MAX_CHARACTERS} characters in values and the keys that lead to them" in fault


@pytest.mark.parametrize("line_break", ["", "\n", "\r\n", "\r", "\x85", "\u2028"], ids=repr)
def test_no_percent_tag_reaches_the_parser_which_compares_each_with_all_before_it(line_break: str) -> None:
    lines = "".join(f"%TAG !{number}! x\n" for number in range(2))
    (fault,) = faults(f"{'#' if line_break else ''}{line_break}{lines}--- {{}}\n".encode())
    assert fault.endswith(": a %TAG directive, which is not supported; remove the line")
    assert count_values(f"{lines}--- [1, 2]".encode(), 10) == 0


def test_a_percent_sign_elsewhere_is_text() -> None:
    assert read_yaml(b"%YAML 1.1\n---\na: 50%TAG\n", "f.yaml").plain() == {"a": "50%TAG"}


@each(
    "source, expected",
    {
        "maps, lists, keys and values": (b"a: [1, 2]\n", 5),
        "aliases expanded": (b"a: &a [1, 2]\nb: *a\nc: [*a, *a]\n", 17),
        "an alias of one value": (b"a: &a 1\nb: *a\n", 5),
        "up to an alias of nothing": (b"[1, 2, *x]", 3),
        "up to the first fault": (b"[1, 2, }", 3),
        "no text": (b"\xff", 0),
        "up to one more than the most": (b"a: &a [" + b"1," * 90 + b"]\nb: [*a]\n", 101),
    },
)
def test_values_are_counted_without_being_made(source: bytes, expected: int) -> None:
    assert count_values(source, 100) == expected
