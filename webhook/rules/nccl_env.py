"""Containers with several GPUs, and GPU containers of jobs on several nodes, get the platform's NCCL environment.

GPUs by a resource claim count for the containers that use it ([dra.md](dra.md)). A variable that a container sets
itself is kept.

Variables that name network interfaces or HCAs (`*_SOCKET_IFNAME`, `NCCL_IB_HCA`, `UCX_NET_DEVICES`, `GLOO_*` and the
like) are right in one network only, which is the pod network for `env`. So pods with `hostNetwork` get the variables of
`hostNetworkEnv` instead, and pods with additional networks (Multus, Google Kubernetes Engine, Spiderpool) get none,
with a warning. Neither do pods of an MPIJob (kubeflow.org/v2beta1), whose ranks do not inherit the environment of their
container: pass variables with `mpirun -x`. No container that requests a network gets a variable that turns it off, such
as `NCCL_IB_DISABLE: "1"`; rows of `network.fabrics` do not count here.
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
from webhook.rules.network import NETWORKS, SWITCHES, turned_off
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


class Settings(InjectionSettings):
    """Settings of `ncclEnv`."""

    min_gpus: Annotated[int, Field(ge=1)] = 2
    """Least number of GPUs that a container has to request to get the variables."""
    multi_node: bool = True
    """Whether a container with at least one GPU also gets the variables if its pod belongs to a job that may run on
    several nodes (Kubeflow, Ray, JobSet, LeaderWorkerSet, Volcano, indexed Jobs)."""
    env: Mapping[EnvName, EnvValue] = Field(default_factory=dict)
    """The variables, such as `NCCL_DEBUG: WARN`, with strings as values. Names of interfaces and HCAs are right in the
    pod network."""
    host_network_env: Mapping[EnvName, EnvValue] = Field(default_factory=dict)
    """The variables of pods with `hostNetwork`, beside `env`; they take precedence. A name of an interface or HCA in
    `env` only is not injected there, with a warning."""
    also_with_env_from: bool = False
    """Whether a container also gets the variables that its `envFrom` may set. By default there is a warning instead."""

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
        missing = []
        for name in [name for name in sorted(env) if not container.sets_env(name)]:
            if name in SWITCHES and (network := turned_off(container, name, env[name])):
                why = f"the container requests {network}, which NCCL does not use with {env[name]}"
                remedy = "Set it in env if the container wants it nevertheless"
                yield Advice(f"{container.path}.resources", f"{name} is not injected, because {why}", remedy)
            else:
                missing.append(name)
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
        why = "the policy has the names of the pod network, and the pod uses the network of its node"
        return "spec.hostNetwork", why, remedy
    why = "the policy has the names of the pod network, and the pod has other networks"
    named = [] if NETWORKS.isdisjoint(pod.annotations) else sorted(NETWORKS & pod.annotations.keys())
    networks = [key for key in named if str(pod.annotations[key] or "").strip("[] \n")]
    return (f"metadata.annotations[{networks[0]}]", why, "Set the names of these in env") if networks else None


RULE = Rule(
    key="ncclEnv",
    promise="Containers with several GPUs, and those of jobs on several nodes, get the platform's NCCL environment.",
    problem="Everybody has to find out what NCCL needs on this network; until then training is slow, or ends in "
    "a time-out.",
    example=Example(
        training_pod(container="env: [{name: NCCL_DEBUG, value: INFO}]", resources="{limits: {nvidia.com/gpu: 8}}"),
        {"env": {"NCCL_DEBUG": "WARN", "NCCL_IB_TIMEOUT": "22"}},
    ),
    settings=Settings,
    mutate=mutate,
    can_mutate=lambda settings: bool(settings.env or settings.host_network_env),
)
