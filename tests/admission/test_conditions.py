"""matchConditions as text; what an API server makes of them is shown end to end."""

from pathlib import Path
from typing import Any

import pytest

from webhook.admission.conditions import conditions_for, match_conditions
from webhook.model.accelerators import GPU_PATTERNS
from webhook.policy.loader import load

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


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param("gpuLimits: {mode: warn}", {"nvidia": True, "amd": True, "devices": False}, id="every vendor"),
        pytest.param("runtimeClass: {mode: enforce}", {"nvidia": True, "amd": False, "devices": False}, id="NVIDIA"),
        pytest.param("visibleDevices: {mode: audit}", {"nvidia": True, "amd": False, "devices": True}, id="devices"),
        pytest.param("gpuLimits: {mode: disabled}", {"nvidia": False, "amd": False, "devices": False}, id="none"),
    ],
)
def test_only_what_some_rule_of_the_policies_concerns_is_let_through(
    tmp_path: Path, rules: str, expected: dict[str, bool]
) -> None:
    """The resource names in the condition are those of the vendors whose GPUs an enabled rule is about."""
    head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: _default}\n"
    (tmp_path / "_default.yaml").write_text(f"{head}spec: {{rules: {{{rules}}}}}\n")
    text = conditions_for(load(tmp_path), templates=False)[1].expression
    found = {
        "nvidia": r"nvidia\.com/gpu" in text,
        "amd": r"amd\.com/gpu" in text,
        "devices": "NVIDIA_VISIBLE_DEVICES" in text,
    }
    assert found == expected
