"""Texts of schedulers, queues and nodes: what is kept of them, and that no sentence ends in the middle of a word."""

from typing import Any

import pytest

from tests.why.samples import around, event, node, pod, seen, why
from webhook.why.explanation import Explanation, ReasonCode
from webhook.why.held_back import entry_of
from webhook.why.observed import Surroundings, reasons_of_scheduler

SHORT = "0/7 nodes are available: 1 Insufficient nvidia.com/gpu, 6 node(s) didn't match Pod's node affinity/selector."


def said(message: str) -> dict[str, Any]:
    """The status of a pod of which the scheduler says this."""
    return {"conditions": [{"type": "PodScheduled", "status": "False", "message": message}]}


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        pytest.param(SHORT, SHORT, id="1.20"),
        pytest.param(f"{SHORT} preemption: 0/7 nodes are available: 7 No victims.", SHORT, id="1.24"),
        pytest.param(
            f"{SHORT} no new claims to deallocate, preemption: 0/7 nodes are available: 7 No victims.",
            SHORT,
            id="resource claims",
        ),
        pytest.param(f"{SHORT} still not schedulable, preemption: not eligible", SHORT, id="claims in vain"),
        pytest.param(f"{SHORT} still not schedulable", SHORT, id="claims alone"),
        pytest.param(
            '0/7 nodes are available: persistentvolumeclaim "absent" not found. not found',
            '0/7 nodes are available: persistentvolumeclaim "absent" not found.',
            id="a volume, 1.36",
        ),
        pytest.param("preemption: not eligible", "preemption: not eligible", id="nothing else"),
        pytest.param(
            'persistentvolumeclaim "absent" not found', 'persistentvolumeclaim "absent" not found', id="a volume, 1.20"
        ),
    ],
)
def test_what_a_scheduler_says_of_making_room_is_left_out(message: str, kept: str) -> None:
    """The texts are those of kube-scheduler 1.20 to 1.36."""
    assert reasons_of_scheduler(message) == kept
    found = why(seen(pod(status=said(message))), Surroundings())
    assert found.message == f"the scheduler finds no node: {kept}"
    assert [clue.message for clue in found.evidence] == [kept]


def test_an_event_of_the_scheduler_is_cut_like_its_condition() -> None:
    """Kubernetes before 1.27, or another scheduler, may write no condition."""
    happened = event("FailedScheduling", f"{SHORT} no new claims to deallocate, preemption: none")
    found = why(seen(pod(), happened), Surroundings())
    assert [clue.message for clue in found.evidence] == [SHORT]


def test_the_fault_of_a_node_is_told_whole() -> None:
    fault = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message: no CNI"
    ill = node("gpu-pool-a-7f9c", ready="False")
    ill["status"]["conditions"][0]["message"] = fault
    found = why(seen(pod()), around(ill))
    assert found.code is ReasonCode.NODES_UNAVAILABLE
    assert found.message.endswith(f"{fault})")


def test_an_admission_check_of_kueue_is_told_whole() -> None:
    words = "The ProvisioningRequest was rejected by the autoscaler, because its quota of A3 machines is used up"
    check = {"name": "dws", "state": "Retry", "message": words}
    workload = {"kind": "Workload", "metadata": {"name": "w"}, "status": {"admissionChecks": [check]}}
    assert entry_of("Kueue", workload).message == f"dws is Retry: {words}"


def test_a_text_that_is_too_long_ends_after_a_word() -> None:
    found = Explanation(ReasonCode.UNKNOWN, "words, " * 1000).bounded
    assert found.message.endswith("words...")
    assert len(found.message) <= 2_000
