"""YAML as people write it."""

import pytest
import yaml

from webhook.rules_page.examples import as_yaml, in_one_line

SPEC = {"spec": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}], "env": {"A": "1", "B": "on"}}}


def test_the_innermost_maps_and_lists_stand_in_one_line_each() -> None:
    expected = """\
spec:
  tolerations:
    - {key: nvidia.com/gpu, operator: Exists}
  env: {A: "1", B: "on"}"""
    assert as_yaml(SPEC) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"mode": "enforce", "images": {"team/*": "12.4"}}, '{mode: enforce, images: {team/*: "12.4"}}'),
        (["nvidia", "nvidia-cdi"], "[nvidia, nvidia-cdi]"),
        ([SPEC] * 2, f"[{in_one_line(SPEC)}, {in_one_line(SPEC)}]"),
        ({"long": ["word " * 20] * 20}, None),
    ],
    ids=["quotes where they are needed", "a list", "the same value twice", "however long"],
)
def test_one_line_holds_everything(value, expected) -> None:
    line = in_one_line(value)
    assert "\n" not in line
    assert yaml.safe_load(line) == value
    assert expected is None or line == expected
