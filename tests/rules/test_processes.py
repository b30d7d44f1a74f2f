"""What a command says of GPUs agrees with the GPUs that its container requests."""

import shlex

import pytest

from tests.build import policy
from tests.golden import each, golden
from tests.gpus import discovered_labels as labels
from tests.rules.rule_case import RuleCase, RulePods, any_of, container_with
from tests.rules.samples import NOTHING_KNOWN, Cluster, container, pod, settings_of
from webhook import engine
from webhook.facts.facts import ClusterFacts
from webhook.model.accelerators import GPUMEM
from webhook.model.claims import TEMPLATE, TOO_LARGE, Devices
from webhook.model.node import NodeClass
from webhook.model.pod_reader import pod_from_raw
from webhook.rules import processes
from webhook.rules.processes import LAUNCHERS, RULE
from webhook.rules.rule import Advice, Violation


def running(gpus, command, env=(), **parts):
    """A container that runs a command: `sh:` a script, `image:` the entry point of an image, otherwise words."""
    first, _, rest = command.partition(" ")
    one = container(gpus=gpus)
    if first == "sh:":
        one |= {"command": ["bash", "-c"], "args": [rest]}
    elif first.startswith("image:"):
        one |= {"image": first.removeprefix("image:"), "args": shlex.split(rest)}
    else:
        one |= {"args": shlex.split(command)}
    return {**one, "env": [{"name": name, "value": value} for name, value in dict(env).items()], **parts}


def one(device_class="gpu.nvidia.com", number=1, **parts):
    return (Devices(device_class, number, **parts),)


def of(raw, **metadata):
    return {**raw, "metadata": {"name": "p", **metadata}}


def judged(raw, facts=NOTHING_KNOWN):
    return list(RULE.validate(pod_from_raw(raw), settings_of(RULE, {}), facts))


@golden
def test_a_command_is_compared_with_the_gpus_of_its_container(gpus, command, env, found):
    said = [str(one) for one in judged(pod(running(gpus, command, env)))]
    assert len(said) == (found is not None)
    assert found is None or found in said[0]


EIGHT = "vllm serve m --tensor-parallel-size 8"
OF_A_GROUP = {"leaderworkerset.sigs.k8s.io/name": "a"}
TWO_SLICES = {"limits": {"nvidia.com/mig-1g.10gb": 2}}
DEV = {"volumes": [{"name": "dev", "hostPath": {"path": "/dev"}}]}


@each(
    "raw, labelled",
    {
        "a MIG slice by name": (pod(running(0, EIGHT, resources=TWO_SLICES)), {}),
        "a shared GPU by name": (pod(running(0, EIGHT, resources={"limits": {"nvidia.com/gpu.shared": 1}})), {}),
        "MIG slices by labels": (pod(running(2, EIGHT)), labels.SINGLE),
        "time-slicing by labels": (pod(running(2, EIGHT)), labels.TIME_SLICED),
        "labels that contradict each other": (pod(running(2, EIGHT)), labels.CONTRADICTING),
        "memory of a GPU": (pod(running(0, EIGHT, resources={"limits": {"nvidia.com/gpu": 1, GPUMEM: 3000}})), {}),
        "a name of a GPU's vendor that is not known": (pod(running(0, EIGHT, resources={"limits": {"x/gpu": 2}})), {}),
        "a TPU": (pod(running(0, EIGHT, resources={"limits": {"google.com/tpu": 4}})), {}),
        "no GPU": (pod(running(0, EIGHT)), {}),
        "privileged": (pod(running(2, EIGHT, securityContext={"privileged": True})), {}),
        "all GPUs of the node by variable": (pod(running(2, EIGHT, {"NVIDIA_VISIBLE_DEVICES": "all"})), {}),
        "a ConfigMap that may say so": (pod(running(2, EIGHT, envFrom=[{"configMapRef": {"name": "a"}}])), {}),
        "the device files of the node": (pod(running(2, EIGHT), **DEV), {}),
        "a group of Ray": (of(pod(running(2, EIGHT)), labels={"ray.io/cluster": "a"}), {}),
        "a LeaderWorkerSet": (of(pod(running(2, EIGHT)), labels=OF_A_GROUP), {}),
        "an argument of 1 MB": (pod(running(2, f"{EIGHT} {'a' * 2**20}")), {}),
        "a variable that makes arguments long": (pod(running(2, f"{EIGHT}{' $(A)' * 999}", {"A": "a" * 999})), {}),
        "a variable made of another one": (pod(running(2, "vllm serve m -tp $(A)", {"A": "$(B)", "B": "8"})), {}),
        "an escaped variable": (pod(running(2, "vllm serve m -tp $$(A)", {"A": "8"})), {}),
    },
)
def test_nothing_is_said_where_the_gpus_or_the_processes_are_not_certain(raw, labelled):
    assert judged(raw, Cluster(nodes=[NodeClass(labelled)])) == []


def test_a_server_may_use_the_cluster_of_a_sidecar():
    ray = {**running(0, "sh: ray start --address=head:6379 --block"), "name": "ray"}
    assert judged(pod(running(4, EIGHT), ray)) == []
    assert judged(pod(running(4, "python -m sglang.launch_server --tp 8"), ray)) != []


@pytest.mark.parametrize(("labelled", "is_said"), [(labels.WHOLE, True), ({}, False)], ids=["labels", "none"])
def test_gpus_are_left_idle_only_on_nodes_that_would_say_that_they_are_shared(labelled, is_said):
    facts = Cluster(nodes=[NodeClass(labelled)])
    assert (judged(pod(running(8, "vllm serve m -tp 4")), facts) != []) == is_said
    assert judged(pod(running(4, EIGHT)), facts) != []


@each(
    "kind, raw",
    {
        "a server that cannot start": (Violation, pod(running(2, EIGHT))),
        "processes of a script": (Advice, pod(running(2, "torchrun --nproc_per_node 8 a.py"))),
        "GPUs that are left": (Advice, pod(running(8, "vllm serve m -tp 4"))),
        "a variable": (Advice, pod(running(1, "a", {"CUDA_VISIBLE_DEVICES": "1"}))),
        "processes in a job on several nodes": (
            Advice,
            of(pod(running(2, "torchrun --nproc_per_node 8 a.py")), labels={"jobset.sigs.k8s.io/jobset-name": "a"}),
        ),
        "a server of several nodes, and what runs in each": (
            Violation,
            of(pod(running(2, f"{EIGHT} --nnodes 2")), labels=OF_A_GROUP),
        ),
        "an AMD GPU": (Violation, pod(running(0, EIGHT, resources={"limits": {"amd.com/gpu": 4}}))),
        "a GPU of a LeaderWorkerSet of one pod": (
            Violation,
            of(pod(running(2, EIGHT)), labels=OF_A_GROUP, annotations={"leaderworkerset.sigs.k8s.io/size": "1"}),
        ),
    },
)
def test_only_a_server_that_cannot_start_is_a_violation(kind, raw):
    assert [type(one) for one in judged(raw)] == [kind]


@each(
    "version, kind, is_said",
    {
        "a kind whose pods are on their own": ("apps/v1", "StatefulSet", True),
        "a kind of groups": ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", False),
        "a kind whose operator adds nodes to the arguments": ("workloads.x-k8s.io/v1alpha1", "RoleBasedGroup", False),
        "a kind that nobody knows": ("example.com/v1", "ModelServing", False),
        "a kind whose pods a runtime completes": ("serving.kserve.io/v1beta1", "InferenceService", False),
    },
)
def test_pods_of_a_template_may_work_together(version, kind, is_said):
    template = {"spec": pod(running(4, EIGHT))["spec"]}
    inside = {"leaderWorkerTemplate": {"size": 2, "workerTemplate": template}, "template": template}
    inside["predictor"] = {"model": {"modelFormat": {"name": "vLLM"}, **running(4, EIGHT)}}
    raw = {"apiVersion": version, "kind": kind, "spec": {**inside, "roles": [{"name": "a", "template": template}]}}
    outcomes = engine.template_outcomes(raw, "team", policy({"processes": {"mode": "warn"}}), ClusterFacts())
    assert outcomes
    assert any(found.rule == RULE.key for one in outcomes for found in one.findings) == is_said


RAY = (
    "sh: bash /vllm-workspace/examples/online_serving/multi-node-serving.sh leader --ray_cluster_size=$(LWS_GROUP_SIZE)"
)
SERVED = "python3 -m vllm.entrypoints.openai.api_server --model m"
FOUR_STAGES = f"{RAY}; {SERVED} --tensor-parallel-size 8 --pipeline_parallel_size 4"
FRACTIONS, H100 = {"limits": {"volcano.sh/vgpu-number": 8}}, {"limits": {"example.com/h100": 8}}
JOINS = "sh: bash multi-node-serving.sh worker --ray_address=$(LWS_LEADER_ADDRESS)"


@each(
    "leader, worker, size, found",
    {
        "as many": (running(8, f"{RAY}; {SERVED} -tp 8 -pp 2"), running(8, JOINS), 2, None),
        "too many": (running(8, FOUR_STAGES), running(8, JOINS), 2, "need 32 GPUs, and the 2 pods of a group have 16"),
        "a larger group": (running(8, FOUR_STAGES), running(8, JOINS), 4, None),
        "a leader without GPUs": (running(0, FOUR_STAGES), running(8, JOINS), 5, None),
        "Ray by hand": (running(8, "sh: ray start --head; vllm serve m -tp 8 -pp 3"), running(8, JOINS), 2, "need 24"),
        "without a leader's template": (None, running(8, "vllm serve m -tp 32"), 2, "needs 32 GPUs, and the 2 pods"),
        "any executor": (None, running(8, "vllm serve m -tp 32 --distributed-executor-backend ray"), 2, "needs 32"),
        "a server of one node": (None, running(4, "python -m sglang.launch_server --tp 16"), 2, "needs 16 GPUs"),
        "several nodes by a flag, each enough": (
            None,
            running(8, "python -m sglang.launch_server --tp 16 --nnodes $(LWS_GROUP_SIZE)"),
            2,
            None,
        ),
        "several nodes by a flag": (
            None,
            running(4, "python -m sglang.launch_server --tp 16 --nnodes $(LWS_GROUP_SIZE)"),
            2,
            "need 8 GPUs in each pod, and the container has 4",
        ),
        "another cluster of Ray": (None, running(8, "vllm serve m -tp 32", {"RAY_ADDRESS": "a:6379"}), 2, None),
        "it joins a cluster of Ray": (None, running(8, "sh: ray start --address=a; vllm serve m -tp 32"), 2, None),
        "any other script": (None, running(8, "sh: bash start.sh leader; vllm serve m -tp 32"), 2, None),
        "GPUs that Ray only believes in": (
            None,
            running(8, "sh: ray start --head --num-gpus 32; vllm serve m -tp 32"),
            2,
            "--num-gpus 32 of Ray is for 32 GPUs",
        ),
        "parts of GPUs for each rank": (
            None,
            running(8, "vllm serve m -tp 32", {"VLLM_RAY_PER_WORKER_GPUS": "0.5"}),
            2,
            None,
        ),
        "ranks in other groups": (None, running(8, "vllm serve m -tp 8 -dp 4 --data-parallel-size-local 1"), 2, None),
        "workers that may see more": (
            running(8, "vllm serve m -tp 32"),
            running(0, JOINS, securityContext={"privileged": True}),
            2,
            None,
        ),
        "workers whose GPUs are filled in later": (
            running(8, "vllm serve m -tp 32"),
            running(0, JOINS, resources={"limits": {"nvidia.com/gpu": "{{gpus}}"}}),
            2,
            None,
        ),
        "workers with claims": (
            running(8, "vllm serve m -tp 32"),
            running(0, JOINS, resources={"claims": [{"name": "g"}]}),
            2,
            None,
        ),
        "workers with parts of GPUs": (
            running(8, "vllm serve m -tp 16"),
            running(0, JOINS, resources=FRACTIONS),
            2,
            None,
        ),
        "workers with what may be GPUs": (
            running(8, "vllm serve m -tp 16"),
            running(0, JOINS, resources=H100),
            2,
            None,
        ),
        "by a variable of the script": (
            running(8, "sh: ray start --head; vllm serve m -tp 8 -pp $LWS_GROUP_SIZE"),
            running(8, JOINS),
            2,
            None,
        ),
        "a variable that says it": (
            None,
            running(4, "image:ghcr.io/huggingface/text-generation-inference:3.3", {"NUM_SHARD": "16"}),
            2,
            "env[NUM_SHARD]: NUM_SHARD 16 needs 16 GPUs",
        ),
        "a size that is filled in later": (None, running(8, "vllm serve m -tp 32"), "{{size}}", None),
    },
)
def test_a_server_is_compared_with_the_gpus_of_its_leader_worker_set(leader, worker, size, found):
    templates = {"workerTemplate": {"spec": pod(worker)["spec"]}, "size": size}
    if leader is not None:
        templates["leaderTemplate"] = {"spec": pod(leader)["spec"]}
    raw = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
    raw["spec"] = {"replicas": 3, "leaderWorkerTemplate": templates}
    warned = policy({"processes": {"mode": "warn"}})
    said = [str(it) for one in engine.template_outcomes(raw, "team", warned, ClusterFacts()) for it in one.findings]
    assert len(said) == (found is not None), said
    assert found is None or found in said[0]
    assert len(engine.validate_workload(raw, "team", warned, ClusterFacts()).findings) == len(said)


def test_a_group_that_was_too_small_before_is_no_new_finding():
    def of(size):
        template = {"spec": pod(running(8, "vllm serve m -tp 32"))["spec"]}
        raw = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
        return {**raw, "spec": {"leaderWorkerTemplate": {"size": size, "workerTemplate": template}}}

    warned = policy({"processes": {"mode": "warn"}})
    found = [engine.validate_workload(of(3), "team", warned, ClusterFacts(), old=of(old)).findings for old in (2, 4)]
    assert list(map(len, found)) == [0, 1]


def test_the_other_containers_are_read_once_however_many_servers_there_are(monkeypatch):
    asked = []

    def counted(inner):
        return lambda *of: asked.append(inner.__name__) or inner(*of)

    for name in ("_of_ray", "_gpus_of_group"):
        monkeypatch.setattr(processes, name, counted(getattr(processes, name)))
    parsed = pod_from_raw(pod(*[{**running(4, EIGHT), "name": f"c{number}"} for number in range(5)]))
    assert len(list(RULE.validate(parsed, settings_of(RULE, {}), NOTHING_KNOWN))) == 5
    list(RULE.validate_in_group(parsed, [(parsed, 2)], settings_of(RULE, {}), NOTHING_KNOWN))
    assert sorted(asked) == ["_gpus_of_group", "_of_ray", "_of_ray"]


def test_a_leader_may_use_the_cluster_of_a_sidecar():
    ray = {**running(0, "sh: ray start --address=head:6379 --block"), "name": "ray"}
    template = {"spec": pod(running(8, "vllm serve m -tp 32"), ray)["spec"]}
    raw = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
    raw["spec"] = {"leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
    outcomes = engine.template_outcomes(raw, "team", policy({"processes": {"mode": "warn"}}), ClusterFacts())
    assert [it for one in outcomes for it in one.findings] == []


@each(
    "requests, found",
    {
        "as many GPUs": ((one(number=8),), None),
        "fewer GPUs": ((one(number=4),), "needs 8 GPUs, and the container has 4"),
        "fewer by any alternative": ((one(number=2) + one(number=4),), "needs 8 GPUs, and the container has 4"),
        "as many by an alternative": ((one(number=2) + one(number=8),), None),
        "GPUs and network cards": (
            (one("mrdma.google.com", 8), one(number=4)),
            "needs 8 GPUs, and the container has 4",
        ),
        "all GPUs of a node": ((one(number=0),), None),
        "slices": ((one("mig.nvidia.com", 4),), None),
        "shares by MPS": ((one(number=4, by_mps=True),), None),
        "a class that may be GPUs": ((one("h100", 4),), None),
        "nobody knows": (None, None),
        "too much to read": (TOO_LARGE, None),
    },
)
def test_gpus_of_claims_count(requests, found):
    using = running(0, EIGHT, resources={"claims": [{"name": "gpu"}]})
    raw = pod(using, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
    claims = {} if requests is None else {(TEMPLATE, "t"): requests}
    said = [str(one) for one in judged(raw, Cluster(claims=claims))]
    assert len(said) == (found is not None)
    assert found is None or found in said[0]


L4, H100 = ({"nvidia.com/gpu.product": name} for name in ("NVIDIA-L4", "NVIDIA-H100-80GB-HBM3"))


@golden
def test_weights_that_fit_on_no_gpus_are_for_reports(gpus, command, nodes, found):
    classes = tuple([NodeClass({"l4": L4, "h100": H100}.get(one, {})) for one in nodes])
    raw = pod(running(gpus, command, env={"MODEL_ID": "meta-llama/Llama-3.1-70B-Instruct"}))
    (*others,) = [str(one) for one in judged(raw, Cluster(nodes=classes, is_thorough=True)) if "weights" in str(one)]
    assert len(others) == (found is not None)
    assert found is None or found in others[0]
    assert [one for one in judged(raw, Cluster(nodes=classes)) if "weights" in str(one)] == []


def test_every_row_says_where_it_was_read():
    assert [row.name for row in LAUNCHERS if not row.source] == []


CASE = RuleCase(
    pods=lambda raw: RulePods(
        breaks=container_with(raw, "command", ["vllm", "serve", "m", "--nnodes", "1", "-tp", "8"]),
        keeps=container_with(raw, "command", ["vllm", "serve", "m", "--nnodes", "1", "-tp", "2"]),
    ),
    values=any_of(),
    enforced={},
    fuzzed={},
)
