"""Jobs on several nodes request the fast network of their nodes, and turn it off for NCCL nowhere."""

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.golden import each
from tests.rules.gpu_cluster import gpu_node
from tests.rules.rule_case import RuleCase, RulePods
from tests.rules.samples import container, pod, settings_of, violations
from webhook.facts.facts import ClusterFacts
from webhook.model.workloads.controllers import INDEX, LEADER_WORKER_SET, RAY, TRAINING
from webhook.rules.network import RULE

GPU, EFA, IB = "nvidia.com/gpu", "vpc.amazonaws.com/efa", "rdma/ib"
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
        "a leader of a group": job(label=LEADER_WORKER_SET),
        "an index of a Job": job(label=INDEX),
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
        "Gloo": job(trainer(args=["--backend", "gloo"])),
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
