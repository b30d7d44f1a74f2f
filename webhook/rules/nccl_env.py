"""Containers with several GPUs, and GPU containers of jobs on several nodes, get the platform's NCCL environment.

GPUs that come by a resource claim (DRA) count for the containers that use the claim, in the largest number that it may
bring, if the claim is known when the pod is created.

A variable that a container sets itself is kept.

Variables that name network interfaces or HCAs (`*_SOCKET_IFNAME`, `NCCL_IB_HCA`, `UCX_NET_DEVICES`, `GLOO_*` and the
like) are right in one network only, which is the pod network for `env`: with a wrong name NCCL ends the job. So pods
with `hostNetwork` get those of `hostNetworkEnv` instead, and pods with additional networks get none, with a warning.
Additional networks are known by annotations of Multus, Google Kubernetes Engine and Spiderpool. Pods of an MPIJob
(kubeflow.org/v2beta1) get none either: ranks that mpirun starts over ssh do not inherit the environment of their
container, so nothing that the rule injects reaches them. mpirun passes variables with `-x`.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator, Field

from webhook.model.edits import AddEnv
from webhook.model.pod import Pod
from webhook.model.workloads.controllers import may_span_nodes, starts_ranks_over_ssh
from webhook.rules.claimed_gpus import asking
from webhook.rules.rule import Advice, Example, Facts, Rule, training_pod
from webhook.rules.rule_settings import InjectionSettings


def _is_free(name: str) -> str:
    if name == "NVIDIA_VISIBLE_DEVICES":
        raise ValueError("a value in the pod beats the device plugin's and shows other GPUs; remove it")
    if name == "NVIDIA_DRIVER_CAPABILITIES":
        raise ValueError("the rule driverCapabilities sets it; write capabilities there")
    return name


EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$"), AfterValidator(_is_free)]
EnvValue = Annotated[str, Field(pattern=r"^[^\x00]*$")]

_OF_A_NETWORK = re.compile(r"GLOO_.*|.*_(IFNAME|IFACE|if_(in|ex)clude|HCA|HCA_LIST|DEV_LIST|NET_DEVICES|CTRL_DEV)")
"""Variables of NCCL and its plug-ins, Gloo, UCX, NVSHMEM, libfabric and Open MPI that name interfaces or HCAs."""
_NETWORKS = frozenset(
    {
        "k8s.v1.cni.cncf.io/networks",
        "v1.multus-cni.io/default-network",
        "networking.gke.io/interfaces",
        "cni.spidernet.io/rdma-resource-inject",
        "cni.spidernet.io/network-resource-inject",
    }
)
"""The annotations by which a pod gets other networks than the pod network."""


class Settings(InjectionSettings):
    """Settings of `ncclEnv`."""

    min_gpus: Annotated[int, Field(ge=1)] = 2
    """Least number of GPUs that a container has to request to get the variables."""
    multi_node: bool = True
    """Whether a container with fewer than `minGpus` GPUs, but at least one, also gets the variables if its pod belongs
    to a job that may run on several nodes, where NCCL connects the pods. Such a job is known by the owner of its pods
    (PyTorchJob, MPIJob, TFJob, JAXJob, PaddleJob, XGBoostJob, MXJob, RayCluster) or by their labels and annotations
    (`training.kubeflow.org/job-name`, `jobset.sigs.k8s.io/jobset-name`, `leaderworkerset.sigs.k8s.io/name` unless the
    group has a size of 1, `ray.io/cluster`, `volcano.sh/job-name`, and `batch.kubernetes.io/job-completion-index` of
    indexed Jobs)."""
    env: Mapping[EnvName, EnvValue] = Field(default_factory=dict)
    """Names and values of the variables, such as `NCCL_DEBUG: WARN`; values are strings. Names of interfaces and HCAs,
    such as `NCCL_SOCKET_IFNAME`, are those of the pod network."""
    host_network_env: Mapping[EnvName, EnvValue] = Field(default_factory=dict)
    """The variables of pods with `hostNetwork`, beside those of `env` and before them, such as `NCCL_SOCKET_IFNAME:
    ens32`. A name of an interface or HCA that stands in `env` only is not injected into such pods, with a warning."""
    also_with_env_from: bool = False
    """Whether a container also gets the variables that its `envFrom` may set. The webhook cannot see what the ConfigMap
    or Secret holds, and a value injected into `env` takes precedence over it. By default such variables are not
    injected, with a warning."""

    @cached_property
    def of_the_network(self) -> list[str]:
        """The names in `env` of variables that name interfaces or HCAs, sorted."""
        return [name for name in sorted(self.env) if _OF_A_NETWORK.fullmatch(name)]


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[AddEnv | Advice]:
    """Add the variables that the container sets neither in `env` nor, as far as is known, by `envFrom`."""
    least = 1 if settings.multi_node and may_span_nodes(pod) else settings.min_gpus
    containers, _ = asking(pod, least, facts)
    own = settings.host_network_env if pod.host_network and not starts_ranks_over_ssh(pod) else {}
    env = {**settings.env, **own}
    if containers and settings.of_the_network and (elsewhere := _elsewhere(pod)) is not None:
        wrong = [name for name in settings.of_the_network if name not in own]
        env = {name: value for name, value in env.items() if name not in wrong}
        where, why, remedy = elsewhere
        if lacked := [name for name in wrong if not all(container.sets_env(name) for container in containers)]:
            are = "is" if len(lacked) == 1 else "are"
            yield Advice(where, f"{', '.join(lacked)} {are} not injected, because {why}", remedy)
    for container in containers:
        missing = [name for name in sorted(env) if not container.sets_env(name)]
        unsure = [] if settings.also_with_env_from else [name for name in missing if container.may_take_env(name)]
        if unsure:
            are, them = ("is", "it") if len(unsure) == 1 else ("are", "them")
            yield Advice(
                f"{container.path}.envFrom",
                f"{', '.join(unsure)} {are} not injected, because envFrom may set {them}",
                f"Set {them} in env, or ask the platform team for alsoWithEnvFrom",
            )
        for name in missing:
            if name not in unsure:
                yield AddEnv(container, name, env[name])


def _elsewhere(pod: Pod) -> tuple[str, str, str] | None:
    """Why names of the pod network are wrong in a pod: the place, the reason and a remedy; None where they are not."""
    if starts_ranks_over_ssh(pod):
        why = "ranks that mpirun starts over ssh do not inherit the environment of their container"
        return "spec.containers", why, "Pass variables with mpirun -x"
    if pod.host_network:
        remedy = "Set the node's names in env, or ask the platform team for hostNetworkEnv"
        return "spec.hostNetwork", "the policy has the names of the pod network, and the pod uses its node's", remedy
    why = "the policy has the names of the pod network, and the pod has other networks"
    named = [] if _NETWORKS.isdisjoint(pod.annotations) else sorted(_NETWORKS & pod.annotations.keys())
    networks = [key for key in named if str(pod.annotations[key] or "").strip("[] \n")]
    return (f"metadata.annotations[{networks[0]}]", why, "Set the names of these in env") if networks else None


_EIGHT, _OWN = "{limits: {nvidia.com/gpu: 8}}", "env: [{name: NCCL_DEBUG, value: INFO}]"
_ENV = {"env": {"NCCL_DEBUG": "WARN", "NCCL_IB_TIMEOUT": "22"}}
_NETWORK_ENV = {"env": {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_IB_HCA": "mlx5"}, "hostNetworkEnv": {"NCCL_IB_HCA": "ibp"}}

RULE = Rule(
    key="ncclEnv",
    promise="Containers with several GPUs, and those of jobs on several nodes, get the platform's NCCL environment.",
    problem="Everybody who trains on several GPUs or nodes has to find out what NCCL needs on this network; until then "
    "training is slow, or ends in a time-out that does not say why.",
    examples=(
        Example(training_pod(container=_OWN, resources=_EIGHT), _ENV),
        Example(training_pod("hostNetwork: true", resources=_EIGHT), _NETWORK_ENV),
    ),
    settings=Settings,
    mutate=mutate,
    can_mutate=lambda settings: bool(settings.env or settings.host_network_env),
)
