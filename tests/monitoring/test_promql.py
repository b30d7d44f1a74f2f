"""The little reader of PromQL sees every metric, or the tests that stand on it would prove nothing."""

import pytest

from tests.monitoring.promql import grouping, made, selections


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("up", [("up", set())], id="a name"),
        pytest.param("absent(a_total)", [("a_total", set())], id="in a function"),
        pytest.param('a{x="1", y=~"b{2}"} == 1', [("a", {"x", "y"})], id="selected, with a brace in a text"),
        pytest.param('rate(a{x!="by (z) c"}[5m]) > 1e3', [("a", {"x"})], id="a range, and words in a text"),
        pytest.param("sum by (x, y) (a) / on (x) b", [("a", set()), ("b", set())], id="grouped and joined"),
        pytest.param("a:b:rate5m / a:b:rate1h", [("a:b:rate5m", set()), ("a:b:rate1h", set())], id="recorded"),
        pytest.param("a and b unless c offset 5m", [("a", set()), ("b", set()), ("c", set())], id="words between"),
        pytest.param('label_replace(a{y="1"}, "x", "1", "", "") or b', [("a", {"y"}), ("b", set())], id="made labels"),
    ],
)
def test_every_metric_is_seen_with_the_labels_that_select_it(
    expression: str, expected: list[tuple[str, set[str]]]
) -> None:
    assert list(selections(expression)) == expected


def test_labels_that_are_grouped_by_and_made_are_seen() -> None:
    expression = 'max by (phase, x) (label_replace(a, "phase", "$1", "old", "(.+)")) > on (y) b'
    assert grouping(expression) == {"phase", "x", "y"}
    assert made(expression) == {"phase"}
