"""One manifest from text: what kubectl would read is read, everything else is an error with its line."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each
from tests.strategies import checked
from webhook.audit.documents import MAX_DEPTH, MAX_VALUES, Loaded, Unreadable, load

HEAD = "apiVersion: v1\nkind: Pod\n"


def fault(text: str) -> tuple[int, str]:
    found = load(text)
    assert isinstance(found, Unreadable)
    return found


@each(
    "text, expected",
    {
        "YAML": ("a: 1\nb: [x, 'y']", {"a": 1, "b": ["x", "y"]}),
        "JSON": ('{"a": 1, "b": [null, true, 1.5]}', {"a": 1, "b": [None, True, 1.5]}),
        "JSON indented by tabs": ('{\n\t"a": 1\n}', {"a": 1}),
        "YAML in flow style": ("{a: 1, b: [x,]}", {"a": 1, "b": ["x"]}),
        "a template in a JSON text": ('{"a": "{{ .Values.x }}"}', {"a": "{{ .Values.x }}"}),
        "a template in a YAML text": ('a: "{{ x }}"', {"a": "{{ x }}"}),
        "CRLF": ("a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}),
        "alias": ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        "merge key": ("a: &x {b: 1}\nc: {<<: *x, d: 2}", {"a": {"b": 1}, "c": {"b": 1, "d": 2}}),
        "overridden merge key": ("a: &x {b: 1}\nc: {<<: *x, b: 2}", {"a": {"b": 1}, "c": {"b": 2}}),
        "a date stays text": ("a: 2001-01-01", {"a": "2001-01-01"}),
        "a time stays text": ("a: 12:30", {"a": "12:30"}),
        "a time with a fraction stays text": ("a: 12:30.5", {"a": "12:30.5"}),
        "keys are texts": ("1: a\ntrue: b\nnull: c", {"1": "a", "true": "b", "null": "c"}),
        "numbers": ("a: 0x10\nb: 1_000\nc: -1.5", {"a": 16, "b": 1000, "c": -1.5}),
        "YAML 1.1 booleans": ("a: yes\nb: off", {"a": True, "b": False}),
        "a long number": ("a: " + "9" * 30, {"a": int("9" * 30)}),
        "an indented line like a conflict marker": ("a: |\n  =======\n  x", {"a": "=======\nx"}),
        "a surrogate pair": ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
        "an escaped escape": ('{"a": "\\\\ud800"}', {"a": "\\ud800"}),
    },
)
def test_what_kubectl_reads_is_read(text: str, expected: Any) -> None:
    value, repeated, _ = load(text)
    assert value == expected
    assert not repeated


@each(
    "text, line, message",
    {
        "conflict": (HEAD + "<<<<<<< HEAD\na: 1\n=======\n", 2, "a git conflict marker; resolve the"),
        "conflict in JSON": ('{\n=======\n"a": 1}', 1, "a git conflict marker; resolve the"),
        "keys as texts": (HEAD + "x: {1: 1, '1': 2}", 2, "the key '1' is set twice in one map"),
        "template": (HEAD + "x: {{ .Values.x }}", 2, "; render the template first"),
        "template block": (HEAD + "{{- if .x }}\na: 1", 2, "; render the template first"),
        "template block before JSON": ('{{- if .x }}\n{"a": 1}', 0, "; render the template first"),
        "template in JSON": ('{"a": {{ .x }}}', 0, "; render the template first"),
        "another template": (HEAD + "x: <% x %>: 1", 2, "; render the template first"),
        "tab": (HEAD + "x:\n\ty: 1", 3, "cannot start any token"),
        "open quote": (HEAD + 'x: "a\n\n', 4, "unexpected end of stream"),
        "indentation": (HEAD + " x: 1", 2, "mapping values are not allowed"),
        "key that is a list": (HEAD + "? [a]\n: b", 2, "a key must be a string"),
        "alias of nothing": (HEAD + "x: *nothing", 2, "the alias *nothing refers to an anchor"),
        "endless alias": (HEAD + "x: &x [*x]", 2, "the alias *x refers to an anchor that"),
        "python tag": (HEAD + "x: !!python/object/apply:os.system [ls]", 2, "is not allowed here"),
        "custom tag": (HEAD + "x: !custom y", 2, "the tag '!custom' is not allowed here"),
        "set": (HEAD + "x: !!set {a}", 2, "the tag 'tag:yaml.org,2002:set' is not allowed here"),
        "binary": (HEAD + "x: !!binary aGk=", 2, "the tag 'tag:yaml.org,2002:binary' is not allowed here"),
        "tagged as boolean": (HEAD + "x: !!bool maybe", 2, "'maybe' is not a boolean"),
        "tagged as number": (HEAD + "x: !!int ''", 2, "'' cannot be read as a number"),
        "tagged as map": (HEAD + "x: !!map []", 2, "the tag 'tag:yaml.org,2002:map' is not allowed here"),
        "NaN": (HEAD + "x: .nan", 2, ".nan is not a number in JSON"),
        "a number of 5,000 digits": (HEAD + "x: " + "9" * 5000, 2, "cannot be read as a number"),
        "5,000 digits in JSON": ('{"x": ' + "9" * 5000 + "}", 0, "not valid JSON"),
        "half a surrogate pair in JSON": ('{"x": "\\ud800"}', 0, "no low surrogate"),
        "half a surrogate pair": (HEAD + 'x: "\\ud800"', 2, "invalid Unicode"),
        "control character": (HEAD + "a: b\nx: \x01", 3, "the character U+0001 is not allowed"),
        "NUL": (HEAD + "x: \x00", 2, "the character U+0000 is not allowed"),
        "two JSON values in one document": ('{"a": 1}\n{"a": 2}', 1, "not valid JSON: unexpected content"),
        "broken JSON": ('{"a": 1,\n"b" 2}', 1, "not valid JSON"),
        "deep flow": ("[" * 100_000, 0, f"nested deeper than {MAX_DEPTH} levels"),
        "deep block": ("- " * 100_000, 0, f"nested deeper than {MAX_DEPTH} levels"),
        "deep flow of maps": ("{a: " * 300 + "}" * 300, 0, "not valid JSON"),
        "deep JSON": ('{"a":' * 300 + "1" + "}" * 300, 0, f"nested deeper than {MAX_DEPTH} levels"),
    },
)
def test_everything_else_is_an_error_with_its_line(text: str, line: int, message: str) -> None:
    found_line, found = fault(text)
    assert message in found
    assert line == found_line
    assert "\n" not in found


@pytest.mark.parametrize(
    ("text", "value", "told"),
    [
        ("a: 1\nb: 2\na: 3\n", {"a": 3, "b": 2}, "'a' is set twice in one map, in line 1 and in line 3"),
        ("x: {a: 1,\n  a: 2}", {"x": {"a": 2}}, "'a' is set twice in one map, in line 1 and in line 2"),
        ("a: {b: 1}\na: {c: 2}\n", {"a": {"c": 2}}, "'a' is set twice in one map, in line 1 and in line 2"),
        ("a: &x 1\na: 2\nb: *x\n", {"a": 2, "b": 1}, "'a' is set twice in one map, in line 1 and in line 2"),
        ("- a: 1\n  'a': 2\n- a: 3\n", [{"a": 2}, {"a": 3}], "'a' is set twice in one map, in line 1 and in line 2"),
        ("a: 1\na: 2\na: 3\n", {"a": 3}, "'a' is set 3 times in one map, first in line 1 and last in line 3"),
        ("x: &x {<<: &y {a: 1}, a: 2}\nz: {<<: *x, a: 3}\n", {"x": {"a": 2}, "z": {"a": 3}}, ""),
        ("x: {<<: [{a: 1, b: 1}, {a: 2, d: 2}], b: 0}\n", {"x": {"a": 1, "b": 0, "d": 2}}, ""),
    ],
    ids=["YAML", "braces", "maps", "alias of what is left out", "quotes", "three times", "merged", "merged list"],
)
def test_of_a_repeated_key_the_last_value_counts_and_its_lines_are_told(text: str, value: Any, told: str) -> None:
    """As kubectl reads it: sigs.k8s.io/yaml without strictness, and encoding/json."""
    found = load(text)
    assert isinstance(found, Loaded)
    assert found.value == value
    assert [one.message(1) for one in found.repeated] == ([f"the key {told}"] if told else [])


def test_a_bomb_of_aliases_is_defused() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for level in range(1, 10):
        bomb += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n"
    line, message = fault(HEAD + bomb)
    assert (line, message) == (8, f"more than {MAX_VALUES} values once aliases are expanded")


@given(st.text(alphabet=st.sampled_from("ab:-?[]{}&*!|>'\"%@`#,.0 \n\t<=~\x00é"), max_size=40))
@checked
def test_no_text_raises_anything(text: str) -> None:
    found = load(text)
    assert isinstance(found, Loaded) or 0 <= found.line <= text.count("\n")
