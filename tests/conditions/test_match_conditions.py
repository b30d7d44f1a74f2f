"""matchConditions as text; what an API server makes of them is shown end to end."""

from collections.abc import Callable
from typing import Any

import pytest

from deploy.match_conditions import pod_conditions, workload_conditions
from tests.golden import each
from webhook.model.accelerators import GPU_PATTERNS

PATTERNS = [pattern for _, _, pattern in GPU_PATTERNS]
LAST = {pod_conditions: "only-gpu-pods-and-nodes", workload_conditions: "only-gpu-templates-and-nodes"}

Conditions = Callable[..., dict[str, str]]

both = pytest.mark.parametrize("of", LAST, ids=["pods", "workloads"])


def expressions(of: Conditions, **options: Any) -> dict[str, str]:
    watched = {"watches_nodes": True} if of is pod_conditions else {}
    return of(**{"gpu_patterns": PATTERNS, **watched, **options})


def test_the_conditions_are_named_for_what_they_let_through() -> None:
    assert list(expressions(pod_conditions)) == ["only-changed-specs", "only-gpu-pods-and-nodes"]
    assert list(expressions(workload_conditions)) == [
        "only-uncontrolled",
        "not-being-deleted",
        "only-changed-specs",
        "only-gpu-templates-and-nodes",
    ]
    assert "only-gpu-pods" in expressions(pod_conditions, watches_nodes=False)


@both
def test_only_the_resource_names_asked_for_are_in_the_text(of: Conditions) -> None:
    text = expressions(of, gpu_patterns=[r"amd\.com/gpu", r"gpu\.intel\.com/(i915|xe)"])[LAST[of]]
    assert r"name.matches(r'^(amd\.com/gpu|gpu\.intel\.com/(i915|xe))$')" in text
    assert "nvidia" not in text.replace("'/nvidia'", "")


@both
def test_a_runtime_class_is_not_asked_for_where_the_default_runtime_is_that_of_nvidia(of: Conditions) -> None:
    elsewhere, here = (expressions(of, nvidia_is_default_runtime=value)[LAST[of]] for value in (False, True))
    privileged = "(has(c.securityContext) && has(c.securityContext.privileged) && c.securityContext.privileged)"
    legacy = "(has(c.env) && c.env.exists(e, e.name == 'CUDA_VERSION'))"
    flat = " ".join(elsewhere.split()), " ".join(here.split())
    assert [f"(has(spec.runtimeClassName) && ( {privileged} || {legacy})) ||" in one for one in flat] == [True, False]
    assert [f"({privileged} || {legacy}) ||" in one for one in flat] == [False, True]


def test_pods_that_are_after_gpu_nodes_are_looked_for_only_on_demand() -> None:
    assert "spec.tolerations" in "".join(expressions(pod_conditions).values())
    assert "spec.tolerations" not in "".join(expressions(pod_conditions, watches_nodes=False).values())


@both
@each("pattern", {"quote": "a'b", "line break": "a\nb"})
def test_a_pattern_that_cel_cannot_quote_is_refused(of: Conditions, pattern: str) -> None:
    with pytest.raises(ValueError, match="cannot be quoted in CEL"):
        expressions(of, gpu_patterns=[pattern])
