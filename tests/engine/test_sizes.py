"""What is made of a review is bounded too: patches, and lines of refusals."""

from typing import Any

import pytest

from tests.build import FACTS, container, pod, policies, policy, request, workload
from webhook import engine
from webhook.admission import phases
from webhook.admission.admission_review import AdmissionResponse, render
from webhook.engine.running_rules import MOST_OF_A_RULE
from webhook.model.edits import MOST_OPERATIONS, Draft
from webhook.model.shape import ShapeError
from webhook.outcome import LONGEST_LINE, MOST_VIOLATIONS

# What is made of a pod


def many(count: int, **own: Any) -> dict[str, Any]:
    """A pod with so many containers that ask for a GPU each."""
    names = (f"c{number}" for number in range(count))
    return pod(spec={"containers": [container(name, limits={"nvidia.com/gpu": 2}) | own for name in names]})


ADDING = policy({"ncclEnv": {"env": {f"NCCL_{number}": "x" for number in range(5)}}})


def test_no_patch_has_more_operations_than_the_api_server_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[object] = []
    append = Draft.append

    def counting(self: Draft, *args: Any) -> None:
        written.append(args)
        append(self, *args)

    monkeypatch.setattr(Draft, "append", counting)
    with pytest.raises(
        ShapeError, match=r"spec: found so many containers, .* more than 10000 changes, expected at most 10000, since"
    ):
        engine.mutate(many(5_000), ADDING, FACTS)
    assert len(written) <= MOST_OPERATIONS + 1


def test_a_patch_is_measured_before_it_is_sent() -> None:
    operation = {"op": "add", "path": "/a", "value": "x" * 1_000_000}
    render("uid", AdmissionResponse(is_allowed=True, patch=[operation]))
    with pytest.raises(ShapeError, match=r"the patch has \d+ bytes, expected at most 3145728"):
        render("uid", AdmissionResponse(is_allowed=True, patch=[operation] * 60))


def test_a_pod_with_a_thousand_containers_is_completed() -> None:
    assert len(engine.mutate(many(1_000), ADDING, FACTS).patch) > 5_000


@pytest.mark.parametrize("mode", ["warn", "audit"])
def test_what_would_be_added_is_told_in_few_words(mode: str) -> None:
    told = policy({"ncclEnv": {"env": {f"NCCL_{number}": "x" for number in range(5)}}}, mode=mode)
    outcome = engine.mutate(many(5_000), told, FACTS)
    (finding,) = outcome.findings
    assert len(finding.message) < 2_000
    assert finding.message.endswith(" more")


EXPOSED = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}], "securityContext": {"privileged": True}}


def broken(count: int) -> dict[str, Any]:
    containers = [container(f"c{number}", limits={"memory": "1Gi"}) | EXPOSED for number in range(count)]
    return pod(spec={"containers": containers})


def test_violations_beyond_a_thousand_are_counted_and_not_kept() -> None:
    decision = phases.validate(request(broken(1_100)), policies({"visibleDevices": {}}), FACTS)
    assert decision.outcome is not None
    assert len(decision.outcome.findings) == MOST_OF_A_RULE + 1
    lines = decision.answer.message.splitlines()
    count = int(lines[0].removesuffix(" violations:"))
    shown = len(lines) - 2
    assert count >= 1_100
    assert 0 < shown <= MOST_VIOLATIONS
    assert lines[-1] == f"- and {count - shown} more"


def test_of_an_update_only_what_is_new_is_kept() -> None:
    old, new = broken(1_100), broken(1_101)
    decision = phases.validate(request(new, "UPDATE", old=old), policies({"visibleDevices": {}}), FACTS)
    assert "c1100" in decision.answer.message
    assert "c1099" not in decision.answer.message


def test_a_line_of_a_refusal_has_an_end() -> None:
    raw = broken(2)
    for number, one in enumerate(raw["spec"]["containers"]):
        one["name"] = f"{number}" + "x" * 1_000_000
    message = phases.validate(request(raw), policies({"visibleDevices": {}}), FACTS).answer.message
    assert max(map(len, message.splitlines())) <= LONGEST_LINE + 2


# Workloads and audits


def sets(count: int, containers: int) -> dict[str, Any]:
    """An object of a kind that nobody knows, with so many templates."""
    job = {"template": broken(containers) | {"kind": None}}
    spec = {"jobs": [job] * count}
    return {"apiVersion": "example.com/v1", "kind": "Sets", "metadata": {"name": "s"}, "spec": spec}


def test_templates_are_judged_until_they_have_more_containers_than_anybody_writes() -> None:
    outcome = engine.validate_workload(sets(50, 1_500), "team", policy({"gpuLimits": {}}), FACTS)
    (finding,) = outcome.findings
    assert "of 50 pod templates the first 26 are checked" in finding.message


def test_a_template_with_too_many_containers_is_told_of() -> None:
    raw = workload("Deployment", pod(spec={"containers": [{}] * 50_000}))
    answer = phases.workloads(request(raw), policies({"gpuLimits": {}}), FACTS).answer
    assert answer.is_allowed
    assert "spec.template.spec.containers: found 50000 entries, expected at most 40000" in answer.warnings[0]
