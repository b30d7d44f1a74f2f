"""matchConditions as text; what an API server makes of them is shown end to end."""

from typing import Any

import pytest

from webhook.admission.conditions import match_conditions
from webhook.model.accelerators import GPU_PATTERNS

PATTERNS = [pattern for _, _, pattern in GPU_PATTERNS]


def expressions(**options: Any) -> dict[str, str]:
    options = {"gpu_patterns": PATTERNS, "watches_devices": True, "templates": False, **options}
    return {condition.name: condition.expression for condition in match_conditions(**options)}


def test_the_conditions_are_named_for_what_they_let_through() -> None:
    assert list(expressions()) == ["only-changed-specs", "only-gpu-pods"]


def test_only_the_resource_names_asked_for_are_in_the_text() -> None:
    text = expressions(gpu_patterns=[r"amd\.com/gpu", r"gpu\.intel\.com/(i915|xe)"])["only-gpu-pods"]
    assert r"name.matches(r'^(amd\.com/gpu|gpu\.intel\.com/(i915|xe))$')" in text
    assert "nvidia" not in text.replace("NVIDIA_VISIBLE_DEVICES", "").replace("'/nvidia'", "")


@pytest.mark.parametrize("signal", ["NVIDIA_VISIBLE_DEVICES", "hostPath", "privileged"])
def test_ways_around_asking_are_looked_for_only_on_demand(signal: str) -> None:
    assert signal in expressions(watches_devices=True)["only-gpu-pods"]
    assert signal not in expressions(watches_devices=False)["only-gpu-pods"]


def test_templates_are_read_only_on_demand() -> None:
    assert "jobTemplate" in expressions(templates=True)["only-changed-specs"]
    assert "template" not in "".join(expressions(templates=False).values())


@pytest.mark.parametrize("pattern", [pytest.param("a'b", id="quote"), pytest.param("a\nb", id="line break")])
def test_a_pattern_that_cel_cannot_quote_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="cannot be quoted in CEL"):
        expressions(gpu_patterns=[pattern])
