"""Containers with several GPUs, and those of jobs on several nodes, get the NCCL environment of the platform.

They never lose a variable of their own.
"""

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.golden import each, golden
from tests.rules.rule_case import RuleCase, RulePods, any_of
from tests.rules.samples import advice, container, is_left_alone, mutated, pod, settings_of
from webhook.rules.nccl_env import RULE

SETTINGS = {"env": {"NCCL_DEBUG": "WARN", "NCCL_IB_HCA": "mlx5"}}
OURS = [{"name": "NCCL_DEBUG", "value": "WARN"}, {"name": "NCCL_IB_HCA", "value": "mlx5"}]
FROM_CONFIG = [{"configMapRef": {"name": "nccl"}}]


def env_of(raw, values=SETTINGS):
    return mutated(RULE, raw, values)["spec"]["containers"][0].get("env")


@pytest.mark.parametrize("env", [{}, {"env": None}, {"env": []}], ids=["absent", "null", "empty"])
def test_a_container_with_two_gpus_gets_the_variables_by_name(env):
    assert env_of(pod(container(gpus=2, **env))) == OURS


def test_what_the_container_sets_stays_first_and_as_it_is():
    own = [{"name": "HOME", "value": "/home"}]
    assert env_of(pod(container(gpus=2, env=own))) == [*own, *OURS]


@each(
    "name, value, network, is_injected",
    {
        "InfiniBand is off, and requested": ("NCCL_IB_DISABLE", "1", "rdma/ib", False),
        "InfiniBand is off, and not requested": ("NCCL_IB_DISABLE", "1", "", True),
        "InfiniBand is on": ("NCCL_IB_DISABLE", "0", "rdma/ib", True),
        "a variable that EFA does not read": ("NCCL_IB_DISABLE", "1", "vpc.amazonaws.com/efa", True),
        "EFA is off": ("FI_PROVIDER", "TCP", "vpc.amazonaws.com/efa", False),
    },
)
def test_a_container_keeps_the_network_that_it_requests(name, value, network, is_injected):
    raw = pod(container(gpus=2, resources={"limits": {"nvidia.com/gpu": 2, **({network: 1} if network else {})}}))
    values = {"env": {name: value}}
    assert env_of(raw, values) == ([{"name": name, "value": value}] if is_injected else None)
    assert [network in one for one in advice(RULE, raw, values)] == [True] * (not is_injected)


@each(
    "own",
    {
        "a value": {"value": "INFO"},
        "an empty value": {"value": ""},
        "no value": {},
        "null": {"value": None},
        "a number": {"value": 1},
        "valueFrom": {"valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}},
    },
)
def test_a_name_that_the_container_sets_in_any_form_is_never_overridden(own):
    mine = [{"name": "NCCL_DEBUG", **own}, {"name": "NCCL_DEBUG", "value": "twice"}]
    assert env_of(pod(container(gpus=2, env=mine))) == [*mine, OURS[1]]


@each(
    "raw",
    {
        "one GPU": pod(container(gpus=1)),
        "no GPU": pod(container()),
        "one GPU in each of two": pod(container("a", 1), container("b", 1)),
        "an ephemeral container": pod(container(gpus=1), ephemeralContainers=[container("debug", 2)]),
    },
)
def test_containers_with_fewer_gpus_are_left_alone(raw):
    assert is_left_alone(RULE, raw, SETTINGS)
    assert advice(RULE, raw, SETTINGS) == []


def test_only_the_containers_with_enough_gpus_get_them():
    raw = pod(container("launcher"), container("worker", 4), initContainers=[container("check", 2)])
    spec = mutated(RULE, raw, SETTINGS)["spec"]
    assert spec["containers"] == [container("launcher"), {**container("worker", 4), "env": OURS}]
    assert spec["initContainers"][0]["env"] == OURS


@pytest.mark.parametrize(("least", "gpus", "left_alone"), [(1, 1, False), (8, 7, True), (8, 8, False)])
def test_min_gpus_says_from_how_many_on(least, gpus, left_alone):
    assert is_left_alone(RULE, pod(container(gpus=gpus)), {**SETTINGS, "minGpus": least}) is left_alone


def test_without_variables_nothing_is_done():
    raw = pod(container(gpus=2, envFrom=FROM_CONFIG))
    assert is_left_alone(RULE, raw)
    assert advice(RULE, raw) == []


def test_a_container_with_env_from_is_left_alone_and_warned_about(says):
    raw = pod(container(gpus=2, envFrom=FROM_CONFIG))
    assert is_left_alone(RULE, raw, SETTINGS)
    says(advice(RULE, raw, SETTINGS))


def test_one_variable_is_spoken_of_in_the_singular(says):
    raw = pod(container(gpus=2, envFrom=FROM_CONFIG, env=[OURS[0]]))
    says(advice(RULE, raw, SETTINGS))


def test_variables_that_carry_another_prefix_are_no_reason_to_leave_a_container_alone(says):
    sources = [{"prefix": "DB_", "secretRef": {"name": "db"}}, {"prefix": "NCCL_I", "configMapRef": {"name": "ib"}}]
    raw = pod(container(gpus=2, envFrom=sources))
    assert env_of(raw) == [OURS[0]]
    says(advice(RULE, raw, SETTINGS))


def test_the_policy_may_ask_for_it_with_env_from_too():
    raw = pod(container(gpus=2, envFrom=FROM_CONFIG))
    assert env_of(raw, {**SETTINGS, "alsoWithEnvFrom": True}) == OURS
    assert advice(RULE, raw, {**SETTINGS, "alsoWithEnvFrom": True}) == []


@pytest.mark.parametrize(
    "env",
    [
        {"NCCL DEBUG": "WARN"},
        {"": "WARN"},
        {"1A": "WARN"},
        {"A=B": "WARN"},
        {"A\n": "WARN"},
        {"NCCL_IB_TIMEOUT": 22},
        {"NCCL_DEBUG": None},
        {"NVIDIA_VISIBLE_DEVICES": "all"},
        {"NVIDIA_DRIVER_CAPABILITIES": "all"},
    ],
    ids=str,
)
def test_variables_that_no_pod_may_get_are_refused_in_the_policy(env):
    with pytest.raises(ValidationError):
        settings_of(RULE, {"env": env})


def test_a_value_that_no_process_can_have_is_a_policy_error():
    """The kernel ends a variable at the first NUL."""
    with pytest.raises(ValidationError):
        settings_of(RULE, {"env": {"NCCL_DEBUG": "a\0b"}})


def owned(kind, **spec):
    raw = pod(container(gpus=1), **spec)
    raw["metadata"]["ownerReferences"] = [{"kind": kind, "name": "a", "controller": True}]
    return raw


def marked(*names, **annotations):
    raw = pod(container(gpus=1))
    raw["metadata"] |= {"labels": dict.fromkeys(names, "a"), "annotations": annotations}
    return raw


OF_SEVERAL_NODES = [
    *[
        pytest.param(owned(kind), id=f"owned by a {kind}")
        for kind in ("PyTorchJob", "MPIJob", "TFJob", "JAXJob", "PaddleJob", "XGBoostJob", "MXJob", "RayCluster")
    ],
    *[
        pytest.param(marked(name), id=f"labelled {name}")
        for name in (
            "training.kubeflow.org/job-name",
            "jobset.sigs.k8s.io/jobset-name",
            "leaderworkerset.sigs.k8s.io/name",
            "ray.io/cluster",
            "volcano.sh/job-name",
            "batch.kubernetes.io/job-completion-index",
        )
    ],
    pytest.param(
        marked(**{"batch.kubernetes.io/job-completion-index": "0"}), id="an indexed Job before Kubernetes 1.28"
    ),
    pytest.param(
        marked("leaderworkerset.sigs.k8s.io/name", **{"leaderworkerset.sigs.k8s.io/size": "2"}), id="a group of two"
    ),
]


@pytest.mark.parametrize("raw", OF_SEVERAL_NODES)
def test_one_gpu_is_enough_in_a_job_that_may_run_on_several_nodes(raw):
    assert env_of(raw) == OURS
    assert is_left_alone(RULE, raw, SETTINGS | {"multiNode": False})


@each(
    "raw",
    {
        "a Job": owned("Job"),
        "a Deployment": owned("ReplicaSet"),
        "a StatefulSet": owned("StatefulSet"),
        "other labels": marked("job-name", "app"),
        "a group of one": marked("leaderworkerset.sigs.k8s.io/name", **{"leaderworkerset.sigs.k8s.io/size": "1"}),
    },
)
def test_any_other_container_with_one_gpu_is_left_alone(raw):
    assert is_left_alone(RULE, raw, SETTINGS)


def test_a_container_without_gpus_is_left_alone_in_every_job():
    raw = owned("MPIJob")
    raw["spec"]["containers"].append(container("side"))
    containers = mutated(RULE, raw, SETTINGS)["spec"]["containers"]
    assert [one.get("env") for one in containers] == [OURS, None]


NETWORK = {"env": {"NCCL_DEBUG": "WARN", "NCCL_SOCKET_IFNAME": "eth0", "NCCL_IB_HCA": "mlx5"}}
BY_SSH = {"training.kubeflow.org/operator-name": "mpi-operator"}


def networked(labels=None, annotations=None, **spec):
    raw = pod(container(gpus=8), **spec)
    raw["metadata"] |= {"labels": labels or {}, "annotations": annotations or {}}
    return raw


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param(
            networked(hostNetwork=True),
            "spec.hostNetwork: NCCL_IB_HCA, NCCL_SOCKET_IFNAME are not injected, because the policy has the names of "
            "the pod network, and the pod uses the network of its node. Set the node's names in env, or ask the "
            "platform team for hostNetworkEnv.",
            id="the node's network",
        ),
        *[
            pytest.param(
                networked(annotations={key: value}),
                f"metadata.annotations[{key}]: NCCL_IB_HCA, NCCL_SOCKET_IFNAME are not injected, because the policy "
                "has the names of the pod network, and the pod has other networks. Set the names of these in env.",
                id=key,
            )
            for key, value in {
                "k8s.v1.cni.cncf.io/networks": "rdma-net",
                "networking.gke.io/interfaces": '[{"interfaceName":"eth1","network":"gvnic-1"}]',
                "v1.multus-cni.io/default-network": "kube-system/macvlan",
                "cni.spidernet.io/rdma-resource-inject": "rdma",
            }.items()
        ],
        pytest.param(
            networked(BY_SSH),
            "spec.containers: NCCL_IB_HCA, NCCL_SOCKET_IFNAME are not injected, because ranks that mpirun starts over "
            "ssh do not inherit the environment of their container. Pass variables with mpirun -x.",
            id="ranks over ssh",
        ),
    ],
)
def test_names_of_the_pod_network_are_not_injected_where_they_are_wrong(raw, message):
    assert env_of(raw, NETWORK) == OURS[:1]
    assert advice(RULE, raw, NETWORK) == [message]


@each(
    "raw",
    {
        "nothing": networked(),
        "not the node's network": networked(hostNetwork=False),
        "no network": networked(annotations={"k8s.v1.cni.cncf.io/networks": ""}),
        "an empty list of networks": networked(annotations={"k8s.v1.cni.cncf.io/networks": "[ ]"}),
        "another annotation": networked(annotations={"k8s.v1.cni.cncf.io/network-status": "[{}]"}),
        "ranks by kubectl": networked({"training.kubeflow.org/operator-name": "mpijob-controller"}),
    },
)
def test_in_the_pod_network_they_are_injected(raw):
    assert {one["name"] for one in env_of(raw, NETWORK)} == set(NETWORK["env"])
    assert advice(RULE, raw, NETWORK) == []


@golden
def test_only_variables_that_name_interfaces_or_hcas_are_withheld(name, is_withheld):
    assert is_left_alone(RULE, networked(hostNetwork=True), {"env": {name: "x"}}) is is_withheld


def test_the_policy_may_say_what_is_right_in_the_network_of_nodes():
    values = {**NETWORK, "hostNetworkEnv": {"NCCL_SOCKET_IFNAME": "ens32", "NCCL_DEBUG": "INFO"}}
    raw = networked(hostNetwork=True)
    assert env_of(raw, values) == [
        {"name": "NCCL_DEBUG", "value": "INFO"},
        {"name": "NCCL_SOCKET_IFNAME", "value": "ens32"},
    ]
    assert [one.partition(" not")[0] for one in advice(RULE, raw, values)] == ["spec.hostNetwork: NCCL_IB_HCA is"]
    assert {one["value"] for one in env_of(networked(), values)} == {"WARN", "eth0", "mlx5"}
    elsewhere = networked(annotations={"k8s.v1.cni.cncf.io/networks": "rdma-net"})
    assert env_of(elsewhere, values) == OURS[:1], "names of the node are no names in the pod"


def test_nothing_is_said_where_every_container_sets_them_itself():
    raw = pod(container(gpus=8, env=[{"name": name, "value": "x"} for name in NETWORK["env"]]), hostNetwork=True)
    assert advice(RULE, raw, NETWORK) == []


def test_it_is_said_once_for_all_containers():
    raw = pod(container("a", 2), container("b", 2), hostNetwork=True)
    assert len(advice(RULE, raw, NETWORK)) == 1


CASE = RuleCase(
    pods=RulePods,
    values=any_of(
        minGpus=st.integers(1, 4),
        env=st.dictionaries(st.sampled_from(("NCCL_DEBUG", "NCCL_IB_HCA", "HOME")), st.just("1"), max_size=3),
        alsoWithEnvFrom=st.booleans(),
    ),
    enforced={"env": {"NCCL_DEBUG": "WARN", "NCCL_IB_DISABLE": "1"}},
    injecting={"env": {"NCCL_DEBUG": "WARN"}},
    fuzzed={"minGpus": 2, "env": {"NCCL_DEBUG": "WARN"}, "alsoWithEnvFrom": False},
    completes_every_gpu_pod=True,
)
