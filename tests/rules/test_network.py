"""Jobs on several nodes request the fast network of their nodes, and turn it off for NCCL nowhere."""

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.golden import each
from tests.rules.gpu_cluster import gpu_node
from tests.rules.rule_case import RuleCase, RulePods
from tests.rules.samples import container, pod, settings_of, violations
from webhook.facts.facts import ClusterFacts
from webhook.model.pod_reader import pod_from_raw
from webhook.model.workloads import templates_of
from webhook.model.workloads.controllers import (
    COMPLETED_ELSEWHERE,
    GROUP_SIZE,
    INDEX,
    JOB_SET,
    LEADER_WORKER_SET,
    ONE_PROGRAM,
    RAY,
    TRAINING,
    VOLCANO,
    may_span_nodes,
)
from webhook.rules.network import RULE

GPU, EFA, IB = "nvidia.com/gpu", "vpc.amazonaws.com/efa", "rdma/ib"
JOBS = "jobset.sigs.k8s.io/global-replicas"
MULTUS, GKE = "k8s.v1.cni.cncf.io/networks", "networking.gke.io/interfaces"
SHARED = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED",
    "nvidia.com/gpu.replicas": "4",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
}


def offering(*nodes, **labels):
    """Nodes with these GPUs, each with so many devices of a network."""
    found = [gpu_node(f"n{at}", "NVIDIA-H100-80GB-HBM3", each, "2000Gi", (), **labels) for at, each in enumerate(nodes)]
    return ClusterFacts.of(found)


EIGHT = {GPU: "8", EFA: "32"}
FOUR_NODES = offering(*[EIGHT] * 4)


def job(*containers, label=TRAINING, annotations=None, **spec):
    """A pod of a job."""
    raw = pod(*containers or [trainer()], **spec)
    raw["metadata"] |= {"labels": {label: "a"}, "annotations": annotations or {}}
    return raw


def trainer(gpus=8, resources=None, **parts):
    """A container with GPUs, and with so many units of other resources."""
    limits = {GPU: gpus, **(resources or {})}
    env = [{"name": name, "value": value} for name, value in parts.pop("env", {}).items()]
    return container(resources={"limits": limits, "requests": limits}, env=env, **parts)


def said(raw, facts=FOUR_NODES, **settings):
    return [str(one) for one in violations(RULE, raw, settings, facts)]


PRIVILEGED = {"securityContext": {"privileged": True}}
TORCHRUN = {"command": ["torchrun", "--nnodes=2", "train.py"]}


@each(
    "raw",
    {
        "all GPUs of the nodes": job(),
        "more than half of the GPUs": job(trainer(5)),
        "GPUs in two containers": job(trainer(4), trainer(4, name="b")),
        "a sidecar without GPUs": job(trainer(), container("log", **PRIVILEGED)),
        "a leader of a group": job(label=LEADER_WORKER_SET, annotations={GROUP_SIZE: "2"}),
        "a worker of Ray that says what it runs": job(trainer(**TORCHRUN), label=RAY),
        "an elastic job": job(trainer(command=["torchrun", "--nnodes=1:4", "train.py"])),
        "another path of the node": job(volumes=[{"name": "a", "hostPath": {"path": "/dev/shm"}}]),
    },
)
def test_pods_that_share_no_node_are_found_without_a_network(raw):
    assert [EFA in one for one in said(raw)] == [True]


@each(
    "raw",
    {
        "no job": pod(trainer()),
        "a job on one node by its words": job(trainer(command=["sh", "-c", "torchrun --nnodes 1 train.py"])),
        "a job on one node by its variables": job(trainer(env={"PET_NNODES": "1"})),
        "a job on one node by another word": job(trainer(command=["train", "trainer.num_nodes=1"])),
        "each pod by itself": job(trainer(command=["torchrun", "--standalone", "train.py"])),
        "its own master": job(trainer(env={"MASTER_ADDR": "localhost"})),
        "its own meeting point": job(trainer(command=["torchrun", "--rdzv-endpoint=127.0.0.1:29400", "train.py"])),
        "Gloo": job(trainer(args=["--backend", "gloo"])),
        "a group of one": job(label=LEADER_WORKER_SET, annotations={GROUP_SIZE: "1"}),
        "a group of unknown size": job(label=LEADER_WORKER_SET),
        "a runtime may request it": job(label=next(iter(COMPLETED_ELSEWHERE))),
        "OME gives the devices of the node": job(annotations={"rdma.ome.io/auto-inject": "true"}),
        "two fit on a node": job(trainer(4)),
        "more GPUs than any node has": job(trainer(16)),
        "slices": job(container(gpus=7, resource="nvidia.com/mig-1g.10gb")),
        "an init container": job(container("main"), initContainers=[trainer()]),
        "a worker of Ray, which may serve alone": job(label=RAY),
        "a queue decides where": job(schedulingGates=[{"name": "queue"}]),
        "the network of the node": job(hostNetwork=True),
        "privileged": job(trainer(**PRIVILEGED)),
        "the devices of the node": job(volumes=[{"name": "a", "hostPath": {"path": "/dev/infiniband/uverbs0"}}]),
        "all of the node": job(volumes=[{"name": "a", "hostPath": {"path": "/"}}]),
        "a network of Multus": job(annotations={MULTUS: "rdma-net"}),
        "a network of GKE": job(annotations={GKE: "[]"}),
        "devices by CDI": job(annotations={"cdi.k8s.io/a": "example.com/nic=all"}),
        "a claim": job(resourceClaims=[{"name": "a", "resourceClaimName": "nics"}]),
        "a resource that nobody knows": job(trainer(resources={"example.com/nic": 8})),
        "a device class": job(trainer(resources={"deviceclass.resource.kubernetes.io/nic": 8})),
        "a sidecar with the network": job(trainer(), container("daemon", gpus=1, resource=IB)),
        "the network itself": job(trainer(resources={EFA: 32})),
    },
)
def test_nothing_is_said_where_a_network_may_be_there_or_is_not_needed(raw):
    assert said(raw) == []


def template(words="", label=INDEX, env=(), annotations=None, of=(), **parts):
    """A pod of a template, on which the label of its controller has no value yet."""
    raw = job(trainer(command=words.split() or None, env=dict(env), **parts), label=label, annotations=annotations)
    raw["metadata"]["labels"] = {label: "", **dict.fromkeys(of, "")}
    return raw


@pytest.mark.parametrize("label", [INDEX, JOB_SET, VOLCANO])
@each(
    "words, env, is_found",
    {
        "what the image runs": ("", {}, True),
        "torchrun over nodes": ("torchrun --nnodes=2 --node-rank=$(JOB_COMPLETION_INDEX) train.py", {}, True),
        "torchrun told by a variable": ("torchrun train.py", {"PET_NNODES": "2"}, True),
        "torchrun on each node": ("torchrun --nproc-per-node=8 train.py", {}, False),
        "torchrun with a master": ("python -m torch.distributed.run --master-addr a-0 run.py", {}, False),
        "a master": ("python run.py", {"MASTER_ADDR": "a-0.a"}, True),
        "hosts of mpirun": ("mpirun -np 16 -H a-0:8,a-1:8 all_reduce_perf", {}, True),
        "mpirun on each node": ("mpirun -np 8 all_reduce_perf", {}, False),
        "a hostfile": ("deepspeed --hostfile=/job/hostfile run.py", {}, True),
        "machines of Accelerate": ("accelerate launch --num_machines 2 run.py", {}, True),
        "Accelerate on each node": ("accelerate launch train.py", {}, False),
        "Lightning over nodes": ("python run.py trainer.num_nodes=2", {}, True),
        "training by name": ("python pretrain_gpt.py", {}, True),
        "a module that trains": ("python -m torchtitan.train", {}, True),
        "a program that trains": ("/opt/train --epochs 3", {}, True),
        "anything": ("python run.py", {}, False),
        "data for training": ("python prepare_train_data.py --split train", {}, False),
        "a model that was trained": ("python evaluate.py --model pretrained.py", {}, False),
        "shards": ("python train.py --shard $(JOB_COMPLETION_INDEX)", {}, False),
        "shards by a variable": ("python train.py", {"SHARD": "$(JOB_COMPLETION_INDEX)"}, False),
        "shards of the parameters": ("python train.py --fsdp=full_shard", {}, True),
        "a sweep": ("python train.py", {"SWEEP_ID": "a"}, False),
        "vLLM": ("vllm serve train/model --tensor-parallel-size=8", {}, False),
        "vLLM over nodes": ("vllm serve m --nnodes=2", {}, True),
        "vLLM over nodes of Ray": ("vllm serve m --distributed-executor-backend=ray", {}, True),
        "SGLang": ("python -m sglang.launch_server", {}, False),
        "SGLang over nodes": ("python -m sglang.launch_server --dist-init-addr a:1", {}, True),
        "TGI": ("text-generation-launcher --num-shard 8", {}, False),
        "LMDeploy": ("lmdeploy serve api_server m --tp 8", {}, False),
    },
)
def test_pods_of_jobs_that_may_work_alone_count_where_their_words_join_them(label, words, env, is_found):
    assert len(said(template(words, label, env))) == is_found


@each(
    "raw, is_found",
    {
        "an image that serves": (template(image="vllm/vllm-openai:v0.11.0"), False),
        "a job of Kubeflow's Trainer": (template("torchrun train.py", JOB_SET, of=[ONE_PROGRAM]), True),
        "workers of MPI in Kubeflow's Trainer": (template("/usr/sbin/sshd -De", JOB_SET, of=[ONE_PROGRAM]), True),
        "a PyTorchJob": (template("torchrun train.py", TRAINING), True),
        "workers of an MPIJob": (template("/usr/sbin/sshd -De", TRAINING), True),
        "a group": (template("sglang serve --nnodes 2", LEADER_WORKER_SET), True),
        "a group of the image's program": (template("", LEADER_WORKER_SET, image="example.com/vllm:1"), True),
        "a group of copies": (template("torchrun run.py", LEADER_WORKER_SET), False),
        "a group of servers": (template("vllm serve m", LEADER_WORKER_SET), False),
        "ranks of vLLM": (template("ray start && vllm serve m --data-parallel-size 2", LEADER_WORKER_SET), False),
        "ranks of vLLM, in short": (template("vllm serve m -dp 2 --nnodes 2", LEADER_WORKER_SET), False),
        "one rank of vLLM": (template("vllm serve m -dp 1 --nnodes 2", LEADER_WORKER_SET), True),
        "ranks that share experts": (
            template("vllm serve m --enable-expert-parallel -dp 16 --nnodes 2", LEADER_WORKER_SET),
            True,
        ),
    },
)
def test_of_other_jobs_their_controller_or_their_words_tell(raw, is_found):
    assert len(said(raw)) == is_found


@pytest.mark.parametrize("label", [INDEX, JOB_SET, VOLCANO])
@each(
    "words, env, marks, is_found",
    {
        "nothing": ("", {}, {}, False),
        "training by name": ("python train.py", {}, {}, False),
        "a master": ("python train.py", {"MASTER_ADDR": "a-0"}, {}, False),
        "nodes by a word": ("torchrun --nnodes=2 train.py", {}, {}, True),
        "nodes by a word without a number": ("torchrun --nnodes=$N train.py", {}, {}, False),
        "nodes by a variable": ("train", {"PET_NNODES": "2"}, {}, True),
        "eight nodes": ("train", {"NNODES": "8"}, {}, True),
        "ranks of two nodes": ("train", {"WORLD_SIZE": "16"}, {}, True),
        "ranks of one node": ("train", {"WORLD_SIZE": "8"}, {}, False),
        "no number": ("train", {"WORLD_SIZE": "$(N)"}, {}, False),
        "jobs with a master": (
            "python a.py",
            {"MASTER_ADDR": "a-0"},
            {JOBS: "2"},
            True,
        ),
        "a job with a master": ("train", {"MASTER_ADDR": "a-0"}, {JOBS: "1"}, False),
        "jobs without a word": ("train", {}, {JOBS: "2"}, False),
    },
)
def test_a_pod_by_itself_counts_where_it_says_how_many_there_are(label, words, env, marks, is_found):
    raw = job(trainer(command=words.split() or None, env=env), label=label, annotations=marks)
    assert len(said(raw)) == is_found


@pytest.mark.parametrize("kind", ["TFJob", "MXJob", "XGBoostJob"])
def test_pods_with_parameter_servers_need_no_network(kind):
    role = {"template": {"spec": template("python train.py")["spec"]}, "replicas": 2}
    roles = {"TFJob": "tfReplicaSpecs", "MXJob": "mxReplicaSpecs", "XGBoostJob": "xgbReplicaSpecs"}
    raw = {"apiVersion": "kubeflow.org/v1", "kind": kind, "spec": {roles[kind]: {"Worker": role}}}
    trial = {"apiVersion": "kubeflow.org/v1beta1", "kind": "Experiment", "spec": {"trialTemplate": {"trialSpec": raw}}}
    (made,), (tried,) = templates_of(raw), templates_of(trial)
    assert [said(made.made), said(tried.made)] == [[], []]
    assert may_span_nodes(pod_from_raw(tried.made))


@each(
    "facts, is_found",
    {
        "a node too small does not count": (offering(EIGHT, {GPU: "4"}), True),
        "a node without GPUs does not count": (offering(EIGHT, {EFA: "1"}), True),
        "one node does not offer it": (offering(EIGHT, {GPU: "8"}), False),
        "one node has none of it now": (offering(EIGHT, {GPU: "8", EFA: "0"}), False),
        "nodes offer different networks": (offering(EIGHT, {GPU: "8", IB: "8"}), False),
        "two such pods fit on one node": (offering(EIGHT, {GPU: "16", EFA: "32"}), False),
        "GPUs are shared": (offering(EIGHT, **SHARED), False),
        "no network that is known": (offering({GPU: "8", "example.com/nic": "8"}), False),
        "no node": (ClusterFacts.of([]), False),
    },
)
def test_every_node_with_enough_gpus_has_to_offer_the_network(facts, is_found):
    assert len(said(job(), facts)) == is_found


@each(
    "allocatable, is_found",
    {
        "all": ({EFA: "32"}, True),
        "some": ({EFA: "31"}, True),
        "none, since they are ill": ({EFA: "0"}, False),
        "no GPU, which may recover": ({GPU: "0"}, True),
    },
)
def test_a_node_offers_what_it_can_give_now(allocatable, is_found):
    raw = gpu_node("n0", "NVIDIA-H100-80GB-HBM3", EIGHT, "2000Gi", ())
    raw["status"]["allocatable"] = {**raw["status"]["capacity"], **allocatable}
    assert len(said(job(), ClusterFacts.of([raw]))) == is_found


def test_a_node_does_not_offer_what_it_had_earlier():
    had, has = (
        gpu_node("n0", "NVIDIA-H100-80GB-HBM3", {GPU: "8", EFA: amount}, "2000Gi", ()) for amount in ("32", "0")
    )
    facts = ClusterFacts.of([had])
    assert len(said(job(), facts)) == 1
    assert said(job(), ClusterFacts(facts.cluster.with_node(has))) == []
    assert len(said(job(), ClusterFacts(facts.cluster.with_node(has).with_node(had)))) == 1


@pytest.mark.parametrize(("words", "is_found"), [({}, False), (TORCHRUN, True), ({"env": {"MASTER_ADDR": "a"}}, True)])
def test_pods_with_one_gpu_count_where_they_say_that_they_work_with_others(words, is_found):
    assert len(said(job(trainer(1, **words)), offering({GPU: "1", EFA: "1"}))) == is_found


def test_what_is_found_names_the_network_the_nodes_and_the_remedy(says):
    says(said(job()))
    says(said(job(), offering({GPU: "8", "networking.gke.io.networks/rdma-0": "1"})))
    says(said(job(), offering(EIGHT, **{"karpenter.sh/nodepool": "p5"})))


@each(
    "variables, words, resource, is_found",
    {
        "verbs are off": ({"NCCL_IB_DISABLE": "1"}, "", IB, True),
        "verbs are on": ({"NCCL_IB_DISABLE": "0"}, "", IB, False),
        "EFA needs no verbs": ({"NCCL_IB_DISABLE": "1"}, "", EFA, False),
        "another provider": ({"FI_PROVIDER": "tcp"}, "", EFA, True),
        "its provider": ({"FI_PROVIDER": "efa"}, "", EFA, False),
        "sockets": ({"NCCL_NET": "socket"}, "", IB, True),
        "a plug-in may use them": ({"NCCL_NET": "gIB", "NCCL_IB_DISABLE": "1"}, "", IB, False),
        "an interface is for the bootstrap": ({"NCCL_SOCKET_IFNAME": "eth0"}, "", IB, False),
        "the command sets it": ({"NCCL_IB_DISABLE": "1"}, "NCCL_IB_DISABLE=0 ./train", IB, False),
        "UCX uses it": ({"NCCL_IB_DISABLE": "1", "UCX_TLS": "rc"}, "", IB, False),
        "DeepEP uses it": ({"NCCL_IB_DISABLE": "1"}, "--moe-a2a-backend deepep", IB, False),
        "a back-end uses it": ({"NCCL_IB_DISABLE": "1", "VLLM_ALL2ALL_BACKEND": "deepep_low_latency"}, "", IB, False),
        "kernels of pplx use it": ({"NCCL_IB_DISABLE": "1", "VLLM_ALL2ALL_BACKEND": "pplx"}, "", IB, False),
        "a cache uses it": ({"NCCL_IB_DISABLE": "1", "LMCACHE_CONFIG_FILE": "/a"}, "", IB, False),
        "GDRCopy": ({"NCCL_IB_DISABLE": "1", "LD_LIBRARY_PATH": "/opt/GDRCopy/lib"}, "", IB, False),
        "a resource that nobody knows": ({"NCCL_IB_DISABLE": "1"}, "", "example.com/nic", False),
        "none of it": ({"NCCL_IB_DISABLE": "1"}, "", None, False),
    },
)
def test_a_variable_that_turns_a_requested_network_off_is_found(variables, words, resource, is_found):
    raw = job(trainer(resources={resource: 1} if resource else {IB: 0}, env=variables, args=[words]))
    assert [next(iter(variables)) in one for one in said(raw, ClusterFacts())] == [True] * is_found


@each(
    "script, is_found",
    {
        "from then on": ("export NCCL_IB_DISABLE=1 NCCL_DEBUG=WARN; exec torchrun a.py", True),
        "for the program": ("set -e\ncd /a && NCCL_IB_DISABLE='1' torchrun a.py", True),
        "by env": ("env NCCL_IB_DISABLE=1 torchrun a.py", True),
        "not off": ("export NCCL_IB_DISABLE=0; torchrun a.py", False),
        "never exported": ("NCCL_IB_DISABLE=1\ntorchrun a.py", False),
        "for an installer": ("NCCL_IB_DISABLE=1 pip install a; torchrun a.py", False),
        "afterwards": ("torchrun a.py; export NCCL_IB_DISABLE=1", False),
        "if there is no device": ("ls /dev/infiniband || export NCCL_IB_DISABLE=1; torchrun a.py", False),
        "if there is a file": ("ls /etc/off && export NCCL_IB_DISABLE=1; torchrun a.py", False),
        "in another shell": ("export NCCL_IB_DISABLE=1 | tee a; torchrun a.py", False),
        "in the background": ("export NCCL_IB_DISABLE=1 & torchrun a.py", False),
        "taken back": ("export -n NCCL_IB_DISABLE=1; torchrun a.py", False),
        "cleared": ("export NCCL_IB_DISABLE=1; env -i torchrun a.py", False),
        "in a shell that tells nobody": ("declare NCCL_IB_DISABLE=1; torchrun a.py", False),
        "for a test before it": ("NCCL_IB_DISABLE=1 ./check; torchrun a.py", False),
        "under a condition": ("if [ ! -d /dev/infiniband ]; then export NCCL_IB_DISABLE=1; fi; torchrun a.py", False),
        "set twice": ("export NCCL_IB_DISABLE=1; export NCCL_IB_DISABLE=0; torchrun a.py", False),
        "unset": ("unset NCCL_IB_DISABLE; torchrun a.py", False),
        "computed": ("export NCCL_IB_DISABLE=$OFF; torchrun a.py", False),
        "a plug-in is chosen": ("export NCCL_IB_DISABLE=1 NCCL_NET=gIB; torchrun a.py", False),
    },
)
def test_a_script_that_turns_a_requested_network_off_is_found(script, is_found):
    of_the_script = {"command": ["bash", "-c"], "args": [script], "resources": {IB: 1}}
    found = said(job(trainer(env={"A": "b"}, **of_the_script)), ClusterFacts())
    assert ['args: sets NCCL_IB_DISABLE to "1"' in one for one in found] == [True] * is_found
    assert said(job(trainer(command=["train"], args=[script], resources={IB: 1})), ClusterFacts()) == []
    assert said(job(trainer(args=[script], resources={IB: 1})), ClusterFacts()) == []


def test_a_network_of_several_resources_is_judged_once():
    off = trainer(resources={"rdma/a": 1, "rdma/b": 1}, env={"NCCL_IB_DISABLE": "1"})
    assert len(said(job(off), ClusterFacts())) == 1


def test_variables_of_others_do_not_matter(says):
    off = trainer(resources={IB: 8}, env={"NCCL_IB_DISABLE": "1"})
    says(said(job(off)))
    assert said(pod(off)) == []
    over_ssh = job(off)
    over_ssh["metadata"]["labels"]["training.kubeflow.org/operator-name"] = "mpi-operator"
    assert said(over_ssh) == []
    assert said(job({**off, "envFrom": [{"configMapRef": {"name": "nccl"}}]})) == []
    assert said(job({**off, "envFrom": [{"prefix": "DB_", "configMapRef": {"name": "db"}}]})) != []


@pytest.mark.parametrize(
    ("security", "is_found"),
    [
        ({}, True),
        ({"capabilities": {"add": ["SYS_PTRACE"]}}, True),
        ({"capabilities": {"add": ["IPC_LOCK"]}}, False),
        ({"capabilities": {"add": ["ALL"]}}, False),
        ({"privileged": True}, False),
    ],
)
def test_a_platform_says_where_containers_need_to_lock_memory(security, is_found):
    raw = job(trainer(resources={"example.com/roce": 8}, securityContext=security))
    assert said(raw) == []
    found = said(raw, fabrics=[{"resource": "example.com/roce*", "ipcLock": True}])
    assert ["lacks IPC_LOCK" in one for one in found] == [True] * is_found


def test_a_network_of_gke_needs_its_annotation(says):
    raw = job(trainer(resources={"networking.gke.io.networks/rdma-0": 1}))
    says(said(raw))
    says(said(raw, fabrics=[{"resource": "networking.gke.io.networks/rdma-?", "ipcLock": True}]))
    assert said({**raw, "spec": {**raw["spec"], "hostNetwork": True}}) == []
    raw["metadata"]["annotations"][GKE] = '[{"interfaceName": "eth0", "network": "default"}]'
    assert said(raw) == []


@each(
    "fabrics, is_found",
    {
        "none": ([], False),
        "by name": ([{"resource": "example.com/nic"}], True),
        "by a glob": ([{"resource": "example.com/*"}], True),
        "the closest counts": (
            [{"resource": "example.com/*"}, {"resource": "example.com/nic", "carriesNccl": False}],
            False,
        ),
        "GPUs are no network": ([{"resource": "nvidia.com/*"}], False),
    },
)
def test_a_platform_adds_networks_and_takes_them_away(fabrics, is_found):
    assert len(said(job(), offering({GPU: "8", "example.com/nic": "8"}), fabrics=fabrics)) == is_found


@each(
    "fabrics, told",
    {
        "a resource twice": ([{"resource": "rdma/a"}] * 2, "rdma/a stands there twice"),
        "no name": ([{"resource": "roce devices"}], "is not a key or a glob"),
        "no resource": ([{"ipcLock": True}], "Field required"),
        "another key": ([{"resource": "rdma/a", "off": {}}], "Extra inputs"),
        "a number": ([{"resource": "rdma/a", "disabledBy": {"NCCL_IB_DISABLE": [1]}}], "valid string"),
    },
)
def test_rows_that_cannot_be_read_are_errors(fabrics, told):
    with pytest.raises(ValidationError, match=told):
        settings_of(RULE, {"fabrics": fabrics})


def test_every_network_that_is_shipped_has_a_source():
    assert [row.resource for row in settings_of(RULE, {}).table.values() if not (row.source and row.disabled_by)] == []


def _job(raw):
    labelled = {**raw["metadata"], "labels": {**raw["metadata"].get("labels", {}), TRAINING: "a"}}
    (only,) = raw["spec"]["containers"]
    amounts = {key: {**of, IB: 1} for key, of in only["resources"].items()}
    off = {**only, "resources": amounts, "env": [{"name": "NCCL_IB_DISABLE", "value": "1"}]}
    return {**raw, "metadata": labelled, "spec": {**raw["spec"], "containers": [off]}}


CASE = RuleCase(
    pods=lambda raw: RulePods(breaks=_job(raw), keeps=raw),
    values=st.fixed_dictionaries(
        {}, optional={"fabrics": st.lists(st.just({"resource": "example.com/roce", "ipcLock": True}), max_size=1)}
    ),
    enforced={"fabrics": [{"resource": "example.com/roce", "ipcLock": True}]},
    fuzzed={"fabrics": [{"resource": "rdma/roce", "ipcLock": True}]},
)
