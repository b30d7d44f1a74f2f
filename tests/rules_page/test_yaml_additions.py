"""What was added to an object is told without what was there."""

import pytest

from webhook.rules_page.examples import additions

TRAINER = {"name": "trainer", "image": "train:1"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({"a": 1}, {"a": 1}, {}, id="nothing"),
        pytest.param({"a": 1}, {"a": 1, "b": {"c": 2}}, {"b": {"c": 2}}, id="a new key"),
        pytest.param({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}, id="a key further down"),
        pytest.param({"a": {"b": 1}}, {"a": {"b": 2}}, {"a": {"b": 2}}, id="another value"),
        pytest.param({"a": [1]}, {"a": [1, 2]}, {"a": [2]}, id="an entry of a list"),
        pytest.param(
            {"containers": [TRAINER, {"name": "log"}]},
            {"containers": [{**TRAINER, "env": []}, {"name": "log"}]},
            {"containers": [{"name": "trainer", "env": []}]},
            id="a key of an entry, which keeps its name",
        ),
        pytest.param(
            {"terms": [{"match": [{"key": "a"}]}]},
            {"terms": [{"match": [{"key": "a"}, {"key": "b"}]}]},
            {"terms": [{"match": [{"key": "b"}]}]},
            id="an entry of an entry without a name",
        ),
        pytest.param({"a": None}, {"a": [1]}, {"a": [1]}, id="in the place of nothing"),
    ],
)
def test_what_is_new_stands_at_its_place(before, after, expected) -> None:
    assert additions(before, after) == expected
