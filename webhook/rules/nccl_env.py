"""Containers with several GPUs, and GPU containers of jobs on several nodes, get the platform's NCCL environment.

GPUs that come by a resource claim (DRA) count for the containers that use the claim, in the largest number that it may
bring, if the claim is known when the pod is created.

A variable that a container sets itself is kept.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from webhook.model.edits import AddEnv
from webhook.model.pod import Pod
from webhook.model.workloads.controllers import may_span_nodes
from webhook.rules.claimed_gpus import claimed_gpus, may_have
from webhook.rules.rule import Advice, Example, Facts, Rule
from webhook.rules.rule_settings import InjectionSettings


def _is_free(name: str) -> str:
    if name == "NVIDIA_VISIBLE_DEVICES":
        raise ValueError("a value in the pod beats the device plugin's and shows other GPUs; remove it")
    if name == "NVIDIA_DRIVER_CAPABILITIES":
        raise ValueError("the rule driverCapabilities sets it; write capabilities there")
    return name


EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$"), AfterValidator(_is_free)]
EnvValue = Annotated[str, Field(pattern=r"^[^\x00]*$")]


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
    """Names and values of the variables, such as `NCCL_DEBUG: WARN`; values are strings."""
    also_with_env_from: bool = False
    """Whether a container also gets the variables that its `envFrom` may set. The webhook cannot see what the ConfigMap
    or Secret holds, and a value injected into `env` takes precedence over it. By default such variables are not
    injected, with a warning."""


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[AddEnv | Advice]:
    """Add the variables that the container sets neither in `env` nor, as far as is known, by `envFrom`."""
    least = 1 if settings.multi_node and may_span_nodes(pod) else settings.min_gpus
    claimed = claimed_gpus(pod, facts) if pod.resource_claims else ()
    for container in pod.lasting_containers():
        if container.gpu_count < least and not (claimed and may_have(container, claimed, least)):
            continue
        missing = [name for name in sorted(settings.env) if not container.sets_env(name)]
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
                yield AddEnv(container, name, settings.env[name])


_WITH_ONE_OF_ITS_OWN = """
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
    - name: trainer
      image: registry.example.com/train:1
      env: [{name: NCCL_DEBUG, value: INFO}]
      resources: {limits: {nvidia.com/gpu: 8}}
"""
_ENV = {"env": {"NCCL_DEBUG": "WARN", "NCCL_SOCKET_IFNAME": "eth0"}}

RULE = Rule(
    key="ncclEnv",
    promise="Containers with several GPUs, and those of jobs on several nodes, get the platform's NCCL environment.",
    problem="Everybody who trains on several GPUs or nodes has to find out what NCCL needs on this network; until then "
    "training is slow, or ends in a time-out that does not say why.",
    examples=(Example(_WITH_ONE_OF_ITS_OWN, _ENV),),
    settings=Settings,
    mutate=mutate,
    can_mutate=lambda settings: bool(settings.env),
)
