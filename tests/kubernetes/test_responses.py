"""JSON that the API server stores is read, however deep its parts are nested."""

import orjson
import pytest

from webhook.kubernetes.api_server import from_json


def nested(opening: bytes, closing: bytes, levels: int) -> bytes:
    return opening * levels + b"1" + closing * levels


def depth(value: object) -> int:
    found = 0
    while isinstance(value, dict | list) and value:
        value = value["a"] if isinstance(value, dict) else value[0]
        found += 1
    return found


@pytest.mark.parametrize("parts", [(b'{"a":', b"}"), (b"[", b"]")], ids=["maps", "lists"])
@pytest.mark.parametrize("levels", [3, 400, 1_000])
def test_what_can_be_read_is_read_as_it_is(parts: tuple[bytes, bytes], levels: int) -> None:
    assert depth(from_json(nested(*parts, levels))) == levels


@pytest.mark.parametrize("parts", [(b'{"a":', b"}"), (b"[", b"]")], ids=["maps", "lists"])
@pytest.mark.parametrize("levels", [1_100, 5_000])
def test_what_is_nested_too_deep_is_cut_and_all_beside_it_is_read(parts: tuple[bytes, bytes], levels: int) -> None:
    deep = nested(*parts, levels)
    found = from_json(b'{"x": "a \\" ]}{[ b", "deep": [' + deep + b", 7, " + deep + b'], "y": [{"z": "\\\\"}]}')
    assert (found["x"], found["y"], found["deep"][1]) == ('a " ]}{[ b', [{"z": "\\"}], 7)
    assert depth(found["deep"][0]) == depth(found["deep"][2]) == 498


@pytest.mark.parametrize(
    "text",
    [b"", b"no JSON", b"[" * 2_000, b"]" * 2_000, b'{"a": "' + b"[" * 2_000, nested(b"[", b"]", 1_100) + b"]"],
    ids=["nothing", "a word", "never closed", "never opened", "in a text that does not end", "closed once too often"],
)
def test_what_is_no_json_is_told(text: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        from_json(text)
