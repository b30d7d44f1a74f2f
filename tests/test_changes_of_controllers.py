"""What was admitted is never refused for what schedulers and queues change in it."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.build import FACTS, pod
from tests.operation import ROOT
from webhook import engine
from webhook.policy.loader import load

TENANTS = load(Path(ROOT, "policies/examples"))
SHIPPED = load(Path(ROOT, "policies"))

Change = Callable[[dict[str, Any]], object]

ADMITTED_LONG_AGO = {
    "hostPID": True,
    "runtimeClassName": "nvidia",
    "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}],
    "priorityClassName": "system-node-critical",
    "volumes": [{"name": "all", "hostPath": {"path": "/dev/nvidia0"}}],
}
"""Policies of today refuse it for many reasons."""

CHANGES = [
    pytest.param(lambda it: it["spec"].update(nodeSelector={"cloud.google.com/gke-spot": "true"}), id="Kueue: flavor"),
    pytest.param(lambda it: it["spec"].pop("schedulingGates"), id="Kueue: ungate"),
    pytest.param(
        lambda it: it["spec"].update(tolerations=[{"key": "spot", "operator": "Exists"}]),
        id="Kueue: tolerations of a flavor",
    ),
    pytest.param(
        lambda it: it["metadata"].update(annotations={"kai.scheduler/pod-group": "pg", "gpu-fraction": "0.5"}),
        id="KAI: pod group",
    ),
    pytest.param(
        lambda it: it["metadata"].update(
            annotations={"scheduling.k8s.io/group-name": "g", "hami.io/vgpu-node": "node-1"}
        ),
        id="Volcano and HAMi: annotations",
    ),
    pytest.param(
        lambda it: it["metadata"].update(labels={"kueue.x-k8s.io/managed": "true"}, finalizers=["example.com/held"]),
        id="Kueue: labels and finalizers",
    ),
    pytest.param(lambda it: it["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"), id="being deleted"),
    pytest.param(lambda it: it["spec"]["containers"][0].update(image="registry.example.com/train:2"), id="a new image"),
    pytest.param(lambda it: it["spec"].update(activeDeadlineSeconds=600), id="a deadline"),
    pytest.param(
        lambda it: it["spec"]["containers"][0]["resources"]["limits"].update(memory="9Gi"), id="VPA: resize in place"
    ),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "policies", [pytest.param(TENANTS, id="tenants"), pytest.param(SHIPPED, id="shipped policies")]
)
@pytest.mark.parametrize("gpus", [pytest.param((9,), id="too many GPUs"), pytest.param((), id="no GPU")])
def test_what_controllers_change_in_an_admitted_pod_is_not_refused(
    gpus: tuple[int, ...], policies: Any, change: Change
) -> None:
    policy = policies.for_namespace("tenant-a")
    old = pod(*gpus, spec=ADMITTED_LONG_AGO) if gpus else pod(spec=ADMITTED_LONG_AGO | {"containers": [CPU]})
    new = deepcopy(old)
    change(new)

    assert [str(one) for one in engine.validate(new, policy, FACTS, old=old).refusals] == []


CPU = {"name": "c0", "image": "registry.example.com/app:1", "resources": {"limits": {"memory": "1Gi", "cpu": "1"}}}


def test_an_update_with_another_image_is_judged_by_the_nodes_that_the_pod_may_use() -> None:
    policy = TENANTS.for_namespace("tenant-a")
    nowhere = {"nodeSelector": {"cloud.google.com/gke-spot": "true"}}
    old, new = pod(1), pod(1, spec=nowhere)
    assert "no node has this label" in " ".join(engine.validate(new, policy, FACTS, old=old).warnings)
    new["spec"]["containers"][0]["image"] = "registry.example.com/other:1"
    assert "no node has this label" in engine.validate(new, policy, FACTS, old=old).refusal
