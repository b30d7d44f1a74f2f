"""The reason of a pod, by each detector, from what was read."""

from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import ANY

import pytest

from tests.golden import golden
from tests.why.samples import NOTHING_AROUND, POLICY, around, event, node, pod, seen, why
from webhook import engine
from webhook.model.node import NodePool
from webhook.model.pod import KUEUE_QUEUE
from webhook.why.explanation import ReasonCode
from webhook.why.observed import ObservedPod, QueueEntry, Surroundings

NOWHERE = {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM"}}
SCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def said(message: str) -> dict[str, Any]:
    """The status of a pod of which the scheduler says this."""
    return {"conditions": [{**SCHEDULED, "message": message}]}


def not_ready(message: str) -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": "False", "message": message}]}


def waits(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "main", "image": "trainer:1", "state": state, **more}]}


def driven(name: str, driver: str, gpus: int = 4, compute: int = 9) -> dict[str, Any]:
    """A node with this driver."""
    raw = node(name, gpus)
    major, capability = driver.partition(".")[0], {"major": str(compute), "minor": "0"}
    raw["metadata"]["labels"] |= {f"nvidia.com/gpu.compute.{key}": value for key, value in capability.items()}
    raw["metadata"]["labels"] |= {"nvidia.com/cuda.driver-version.full": driver}
    raw["metadata"]["labels"] |= {"nvidia.com/cuda.driver-version.major": major}
    return raw


def runs(gpus: int = 1, image: str = "vllm/vllm-openai:v0.11.0", *command: str) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {"containers": [{"name": "main", "image": image, "command": list(command), "resources": resources}]}


ONE_NODE = around(node("a"))
IN_USE = around(node("a", 4), pods=(pod(3, nodeName="a"),))


CUDA_13 = runs(1, "nvidia/cuda:13.0.1-runtime-ubuntu24.04")
OLD = driven("a", "470.82.01")
POOLS = replace(POLICY, node_pools=(NodePool("p", gpu_resources=frozenset({"nvidia.com/gpu"})),))
EXCEPTED = replace(POLICY, rules=tuple(replace(one, exception=ANY) for one in POLICY.rules))
DENYING = replace(
    POLICY,
    rules=tuple(replace(one, settings=one.settings.model_copy(update={"unknown": "deny"})) for one in POLICY.rules),
)

on = partial(pod, nodeName="a")
kai = partial(pod, schedulerName="kai-scheduler")
"""A pod on node a, and one that KAI schedules."""

CASES = {
    "no GPU": (pod(0), "NoGpus", "requests no GPU", NOTHING_AROUND),
    "finished": (pod(status={"phase": "Succeeded"}), "Finished", "has finished", NOTHING_AROUND),
    "evicted": (
        pod(status={"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
        "Failed",
        "Evicted: low on memory",
        NOTHING_AROUND,
    ),
    "turned away for GPUs": (
        pod(status={"phase": "Failed", "reason": "OutOfnvidia.com/gpu", "message": "m"}),
        "WithoutGpu",
        "OutOfnvidia.com/gpu",
        NOTHING_AROUND,
    ),
    "turned away for cpu": (
        pod(status={"phase": "Failed", "reason": "OutOfcpu", "message": "m"}),
        "Failed",
        "OutOfcpu",
        NOTHING_AROUND,
    ),
    "two gates": (
        pod(schedulingGates=[{"name": "a/b"}, {"name": "c/d"}]),
        "Gated",
        "gates a/b and c/d keep",
        NOTHING_AROUND,
    ),
    "Kueue": (pod(schedulingGates=[{"name": "kueue.x-k8s.io/topology"}]), "Queued", "Kueue", NOTHING_AROUND),
    "Volcano": (pod(schedulerName="volcano"), "Queued", "Volcano", NOTHING_AROUND),
    "KAI": (kai(status=said("over limit")), "Queued", "over limit", NOTHING_AROUND),
    "nothing is known": (pod(), "NotScheduled", "default-scheduler", NOTHING_AROUND),
    "no nodes may be read": (
        pod(status=said("0/9 nodes are available. preemption: none")),
        "Unschedulable",
        "0/9 nodes are available.",
        NOTHING_AROUND,
    ),
    "a label that is nearly right": (pod(**NOWHERE), "FitsNowhere", "Correct the value", ONE_NODE),
    "without a policy": (pod(9), "FitsNowhere", "9 nvidia.com/gpu", around(node("a"), policy=None)),
    "busy": (pod(2), "Busy", "1 of 4 nvidia.com/gpu on 1 fitting node are free, at most 1 on one node", IN_USE),
    "scattered": (
        pod(3),
        "Busy",
        "4 of 8 nvidia.com/gpu on 2 fitting nodes are free, at most 2 on one node",
        around(node("a", 4), node("b", 4), pods=(pod(2, "x", nodeName="a"), pod(2, "y", nodeName="b"))),
    ),
    "GPUs that are ill": (
        pod(4),
        "NodesUnavailable",
        "it offers 3 of its 8 nvidia.com/gpu",
        around(node("a", 8, allocatable=3)),
    ),
    "GPUs that have vanished, where nobody counts": (
        pod(),
        "NodesUnavailable",
        "it offers 0 of its 4 nvidia.com/gpu",
        around(node("a", 4, allocatable=0), counts=False),
    ),
    "busy beside a node whose GPUs have vanished": (
        pod(2),
        "Busy",
        "1 of 2 nvidia.com/gpu on 1 fitting node",
        around(node("a", 4, allocatable=0), node("b", 2), pods=(pod(1, "x", nodeName="b"),)),
    ),
    "an image that no node runs, free or not": (
        pod(**CUDA_13),
        "FitsNowhere",
        "none of the nodes that the pod could land on can run it: 1 node with",
        around(OLD, pods=(pod(4, nodeName="a"),)),
    ),
    "an image that one of the nodes runs": (
        pod(**CUDA_13),
        "Busy",
        "0 of 4 nvidia.com/gpu on 1 fitting node",
        around(OLD, driven("b", "580.95.05"), pods=(pod(4, nodeName="b"),)),
    ),
    "an image that the nodes of a pool may run": (
        pod(**CUDA_13),
        "NodesUnavailable",
        "only nodes of a declared pool",
        around(OLD, policy=POOLS),
    ),
    "an image, and nodes of any driver": (pod(**CUDA_13), "NotScheduled", "", ONE_NODE),
    "an image with an exception": (pod(**CUDA_13), "NotScheduled", "", around(OLD, policy=EXCEPTED)),
    "an image of which nothing is known": (
        pod(2),
        "Busy",
        "it requests 2 nvidia.com/gpu Wait",
        around(node("a", 4), pods=(pod(3, nodeName="a"),), policy=DENYING),
    ),
    "an image that nodes run whose taints a queue may tolerate": (
        {**pod(**CUDA_13), "metadata": {"name": "a", "labels": {KUEUE_QUEUE: "q"}}},
        "NotScheduled",
        "",
        around(OLD, {**driven("b", "580.95.05"), "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
    ),
    "a command that wants more GPUs": (
        pod(**runs(2, "i:1", "vllm", "serve", "m", "-tp", "8")),
        "Busy",
        "it requests 2 nvidia.com/gpu Set it to 2, or request 8 GPUs (spec.containers[main].command)",
        IN_USE,
    ),
    "KAI cannot help": (kai(**NOWHERE), "FitsNowhere", "", ONE_NODE),
    "a limit of Volcano is not what keeps it": (
        pod(schedulerName="volcano", status=said("over limit"), **NOWHERE),
        "FitsNowhere",
        "",
        ONE_NODE,
    ),
    "KAI is silent, and nodes are in use": (kai(2), "Busy", "1 of 4", IN_USE),
    "KAI says why": (kai(2, status=said("over limit")), "Queued", "over limit", IN_USE),
    "KAI, with free GPUs": (kai(), "Queued", "KAI", ONE_NODE),
    "busy as the scheduler says it": (
        pod(status=said("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")),
        "Busy",
        "1 node would fit",
        around(node("a"), counts=False),
    ),
    "no node takes pods": (
        pod(),
        "NodesUnavailable",
        "all 2 nodes",
        around(node("a", unschedulable=True), node("b", ready="False")),
    ),
    "a volume": (
        pod(status=said("pod has unbound immediate PersistentVolumeClaims")),
        "Unschedulable",
        "PersistentVolumeClaims",
        ONE_NODE,
    ),
    "a dark node": (on(), "NodeNotReady", "does not report", around(node("a", ready="Unknown"))),
    "a node that is gone": (pod(nodeName="b"), "NodeNotReady", "no such node", ONE_NODE),
    "GPUs that are gone": (on(), "WithoutGpu", "offers 0 nvidia.com/gpu", around(node("a", allocatable=0))),
    "too few GPUs are left": (
        on(),
        "WithoutGpu",
        "its pods request 4",
        around(node("a", 8, allocatable=3), pods=(pod(4, "x", nodeName="a"),)),
    ),
    "a bad name of an image": (
        on(status=waits("InvalidImageName", "bad")),
        "ImageFailing",
        "InvalidImageName",
        ONE_NODE,
    ),
    "no command": (on(status=waits("RunContainerError", "no command")), "NotStarting", "no command", ONE_NODE),
    "a crash": (
        pod(
            nodeName="a",
            status=waits("CrashLoopBackOff", lastState={"terminated": {"exitCode": 1, "reason": "Error"}}),
        ),
        "Crashing",
        "exit code 1 Error",
        ONE_NODE,
    ),
    "just bound": (on(), "Starting", "has not taken it yet", ONE_NODE),
    "runs, on a node that nobody may read": (
        on(status={"phase": "Running"}),
        "Healthy",
        "with 1 nvidia.com/gpu",
        NOTHING_AROUND,
    ),
    "not ready": (
        on(status={"phase": "Running", **not_ready("main is not ready")}),
        "NotReady",
        "main is not ready",
        ONE_NODE,
    ),
    "an unknown phase": (on(status={"phase": "Unknown"}), "Unknown", "does not report", NOTHING_AROUND),
}


@pytest.mark.parametrize(("raw", "reason", "words", "known"), CASES.values(), ids=CASES)
def test_a_pod_has_one_reason(raw: dict[str, Any], reason: str, words: str, known: Surroundings) -> None:
    found = why(seen(raw), known)
    assert (str(found.code), words in f"{found.message} {found.remedy}") == (reason, True), found
    assert not any(found.remedy and found.remedy in clue.message for clue in found.evidence)
    assert "(spec." not in found.remedy or (reason != "FitsNowhere" and "Wait" not in found.remedy)


def test_a_pod_that_is_deleted_says_what_keeps_it() -> None:
    raw = pod(nodeName="a")
    raw["metadata"] |= {"deletionTimestamp": "2026-11-01T10:00:00Z", "finalizers": ["example.com/kept"]}
    found = why(seen(raw), around(node("a", ready="Unknown")))
    assert found.code is ReasonCode.TERMINATING
    assert "example.com/kept" in found.message
    assert "cannot confirm" in found.message


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        pytest.param((event("Pulling", "Pulling image", warns=False),), "ImagePulling", id="pulling"),
        pytest.param(
            (event("Pulled", "", "2026-11-01T10:00:01Z", warns=False), event("Pulling", warns=False)),
            "Starting",
            id="pulled",
        ),
        pytest.param((event("FailedMount", "secret not found"),), "NotStarting", id="a volume that is missing"),
        pytest.param((event("FailedMount", "it went well later", warns=False),), "Starting", id="no warning"),
        pytest.param(
            (event("Pulling", "Pulling image", "2026-11-01T10:00:02Z", warns=False), event("FailedMount", "sync")),
            "ImagePulling",
            id="a volume that was late",
        ),
        pytest.param(
            (event("Pulling", "Pulling image", "2026-11-01T10:00:02Z", warns=False), event("Failed", "pull: timeout")),
            "ImagePulling",
            id="a pull that is tried again",
        ),
        pytest.param(
            (event("FailedMount", "gone"), event("Pulling", "", "2026-11-01T09:00:00Z", warns=False)),
            "NotStarting",
            id="a volume that went missing later",
        ),
    ],
)
def test_events_of_the_node_tell_what_the_status_does_not(events: tuple[Any, ...], reason: str) -> None:
    raw = pod(nodeName="a", status=waits("ContainerCreating"))
    assert str(why(seen(raw, *events), ONE_NODE).code) == reason


@pytest.mark.parametrize(
    ("policy", "reason"), [("Never", "Failed"), ("Always", "Crashing"), ("OnFailure", "Crashing")], ids=str
)
def test_a_container_that_has_ended_while_others_run_is_named_with_its_exit_code(policy: str, reason: str) -> None:
    """A sidecar keeps the pod running; the condition says only that the container is not ready."""
    ended = {"name": "main", "ready": False, "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
    runs = {"name": "side", "ready": True, "state": {"running": {}}}
    ready = {"type": "Ready", "status": "False", "message": "containers with unready status: [main]"}
    status = {"phase": "Running", "conditions": [ready], "containerStatuses": [ended, runs]}
    found = why(seen(pod(nodeName="a", restartPolicy=policy, status=status)), ONE_NODE)
    assert str(found.code) == reason
    assert "exit code 137 OOMKilled" in found.message
    assert "memory limit" in found.remedy


def test_a_container_that_is_not_ready_says_how_often_it_has_ended() -> None:
    last = {"restartCount": 57, "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}
    runs = {"name": "main", "ready": False, "state": {"running": {}}, **last}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [runs]}
    found = why(seen(pod(nodeName="a", status=status)), ONE_NODE)
    assert [clue.message for clue in found.evidence] == ["57 restarts, last with exit code 1 Error"]


def test_a_queue_says_why_it_lets_a_pod_wait() -> None:
    raw = pod(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    entry = QueueEntry("Kueue", "team", "2 more needed", "Workload train")
    found = why(ObservedPod(raw, seen(raw).pod, entry=entry), Surroundings())
    assert found.message == "Kueue holds it back in queue team: 2 more needed"
    assert found.evidence[0].source == "Workload train"


def test_a_pod_that_cannot_be_read_is_unknown_with_the_fault() -> None:
    found = why(ObservedPod(pod(), None, fault="spec.containers: no list"), Surroundings())
    assert found.code is ReasonCode.UNKNOWN
    assert "spec.containers: no list" in found.message


def test_texts_of_tenants_are_cut() -> None:
    """A scheduler's message of a megabyte, and a name of a gate as long."""
    for raw in (pod(status=said("x" * 2**20)), pod(schedulingGates=[{"name": "g" * 2**20}] * 1000)):
        found = why(seen(raw), around(node("a"), pods=(pod(8, "x", nodeName="a"),)))
        assert len(found.message) <= 2000
        assert all(len(clue.message) <= 2000 for clue in found.evidence)


@golden
@pytest.mark.parametrize("spec", [{}, {"nodeName": "a"}, {"schedulingGates": [None, 3, {"name": 4}]}], ids=str)
def test_no_shape_of_a_status_is_an_error(status: dict[str, Any], spec: dict[str, Any]) -> None:
    """Whoever may write the status of a pod may write anything."""
    assert why(seen(pod(status=status, **spec)), ONE_NODE).message


def test_the_nodes_that_the_policy_keeps_a_pod_off_are_named_with_the_rule_and_its_file() -> None:
    """By asking the engine again: an author's own exclusion of other words is no injection."""
    old, small = driven("old", "470.82.01", 8, compute=7), driven("small", "580.95.05", 2)
    old["metadata"]["labels"] |= {"nvidia.com/gpu.product": "Tesla-V100-SXM2-32GB"}
    known = around(old, small)
    assert known.facts is not None
    raw = pod(**runs(4, "nvidia/cuda:13.0.1-runtime-ubuntu24.04"))
    stored = dict(engine.mutate(raw, POLICY, known.facts, namespace="team").object)
    found = why(seen(stored), known)
    assert found.code is ReasonCode.KEPT_OFF
    assert "cudaDriver" in found.message
    assert "Tesla-V100-SXM2-32GB, driver 470.82.01" in found.message
    assert any(clue.source.startswith("policy _default.yaml:") for clue in found.evidence)
    raw["spec"]["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["old"]}]}
                ]
            }
        }
    }
    assert why(seen(raw), known).code is ReasonCode.FITS_NOWHERE


def test_of_a_pod_that_crashes_it_is_said_what_its_command_wants_of_gpus() -> None:
    raw = pod(2, nodeName="a", status={"phase": "Running", **waits("CrashLoopBackOff")})
    raw["spec"]["containers"][0]["command"] = ["vllm", "serve", "meta-llama/Llama-3.1-405B-Instruct", "-tp", "4"]
    known = replace(ONE_NODE, facts=None, on_nodes=ONE_NODE.facts)
    found = why(seen(raw), known)
    clues = [one.message for one in found.evidence]
    assert found.remedy.startswith("Set it to 2, or request 4 GPUs (spec.containers[main].command). See what it wrote")
    assert any("-tp 4 of vLLM needs 4 GPUs, and the container has 2" in one for one in clues)
    assert any("needs about 810 GB in 16 bits" in one for one in clues)
    raw["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert why(seen(raw), known).evidence == ()
