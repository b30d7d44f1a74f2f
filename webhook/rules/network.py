"""Jobs on several nodes use the fast network of their nodes, which NCCL reaches only if pods request it.

A job is known as in `ncclEnv`, by labels, annotations and owners. Its pods have two GPUs or more, or say that they work
with others, as `torchrun` does; pods of Ray always have to say so, and commands of JobSets, Volcano and indexed Jobs to
join nodes or train by name. An object that makes one GPU pod is no such job. Networks are known by the resources of
nodes: EFA, RDMA device plugins, Google Kubernetes Engine, and rows of the platform in `fabrics`.

- A pod that requests none of them is found if every existing node that it could run on offers the same one, and no two
  such pods fit on one of these nodes. Pods are left out that may get a network otherwise: by `hostNetwork`, privileged
  containers, devices of the node, further networks, resource claims, or resources that nobody knows.
- A container that requests a network is found if a variable turns it off for NCCL (`NCCL_IB_DISABLE`, `FI_PROVIDER`,
  `NCCL_NET`), in `env` or by `export` in a script without conditions, unless another library may use the network; and
  if it lacks what the network needs, such as the annotation of Google Kubernetes Engine.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from re import DOTALL, IGNORECASE
from re import compile as pattern
from typing import Annotated

from pydantic import Field, field_validator

from webhook.gpus.gpu_shares import GPU, number_in, share_of
from webhook.model.accelerators import Vendor, accelerator
from webhook.model.globs import closest
from webhook.model.pod import INIT, Container, Pod
from webhook.model.programs import literal
from webhook.model.quantity import is_some
from webhook.model.requirements import demand_of, is_extended
from webhook.model.shape import spelled
from webhook.model.wording import counted
from webhook.model.workloads.controllers import (
    GROUP_SIZE,
    INDEX,
    JOB_SET,
    LEADER_WORKER_SET,
    ONE_PROGRAM,
    RAY,
    TRAINING,
    VOLCANO,
    WITHOUT_COLLECTIVES,
    is_completed_elsewhere,
    may_span_nodes,
    starts_ranks_over_ssh,
)
from webhook.rules.device_access import DEVICE_KEYS, PATH_KEYS
from webhook.rules.names import KeyGlob, LabelKey
from webhook.rules.rule import Example, Facts, Rule, Violation
from webhook.rules.rule_settings import Mode, RuleSettings
from webhook.yaml_files.camel_model import CamelModel
from webhook.yaml_files.shipped_tables import read_table

NETWORKS = frozenset(
    {
        "k8s.v1.cni.cncf.io/networks",
        "v1.multus-cni.io/default-network",
        "networking.gke.io/interfaces",
        "cni.spidernet.io/rdma-resource-inject",
        "cni.spidernet.io/network-resource-inject",
    }
)
"""The annotations by which a pod gets other networks than the pod network."""
_DEVICES = pattern(r"/+(dev/*|dev/+infiniband\b.*)?")
"""Paths on the node with its network devices."""
_ONE_NODE = frozenset({"NNODES", "NUM_NODES", "PET_NNODES", "WORLD_SIZE"})
"""Variables that say with 1 that a job runs on one node."""
_WITHOUT_NCCL = pattern(
    r"(nnodes|num[-_](nodes|machines))[= ]['\"]?1(?![0-9:.])|--standalone|\bgloo\b|nvbandwidth"
    r"|(?i:master[-_]addr|rdzv[-_]endpoint)[= ]['\"]?(localhost|127[.])"
    r"|^(?!.*(expert[-_]parallel|\s-ep\b|deep_?ep)).*(--data[-_]parallel[-_]size|\s-dp)[= ](?!1\b)",
    DOTALL,
)
"""Words of what runs on one node, moves no data by NCCL, or serves in ranks of their own, as vLLM without experts."""
_DISTRIBUTED = pattern(r"MASTER_ADDR|torchrun|torch[.]distributed|deepspeed|horovod|nccl-tests")
"""Words of processes that work with others, one for each GPU."""
_JOINED = pattern(
    r"(master|coordinator|dist[-_]init)[-_]addr|nnodes|num[-_](nodes|machines)|rdzv|hostfile|multi-node-serving"
    r"|ray start|executor[-_]backend[= ]ray|ray[-_](address|init|size)"
    r"|(mpirun|mpiexec|horovodrun)\b.{0,150}\s((?-i:-H)|--?hosts?)[= ](?!['\"]?localhost)",
    IGNORECASE | DOTALL,
)
"""Words by which processes of several pods find each other."""
_TORCHRUN = pattern(r"torchrun|torch[.]distributed[.](run|launch)")
"""Launchers that use one node, whatever joins them, until they are told of more."""
_TRAINING = pattern(
    r"(?<![a-z])((pre)?train(er|ing)?|fine[-_]?tun(e|ing))([-_](?!data|eval|set|split|test)\w{1,60})?[.](py|sh)\b"
    r"|-m [\w.]*(train(er|ing)?|finetune)\b|^(\S*/)?((pre)?train|finetune)\b"
)
"""Programs that train by their name."""
_BY_ITSELF = pattern(
    r"torchrun|torch[.]distributed|accelerate|deepspeed|vllm|sglang|text-generation|lmdeploy|JOB_COMPLETION_INDEX"
    r"|(?<![a-z_])(shard|sweep|trial)(?!_grad|[a-z])",
    IGNORECASE,
)
"""Programs that use one node unless words join them, and words of pods with parts of their own."""
_SEVERAL = pattern(r"nnodes[= ]['\"]?([2-9]|1[0-9:])")
_BY_LABEL = (INDEX, JOB_SET, VOLCANO)
"""Labels of jobs whose pods may work on parts of their own."""
_JOBS = "jobset.sigs.k8s.io/global-replicas"
_PLUGINS = frozenset({"NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_PLUGIN_P2P"})
"""Variables that choose who sends data for NCCL, so that other variables may not matter."""
_BESIDE_NCCL = pattern(r"UC[CX]_|NVSHMEM|NIXL|mooncake|deep_?ep|LMCACHE|pplx|gdrcopy", IGNORECASE)
"""Words of other libraries that may use the network in the place of NCCL."""
_INJECTED = "rdma.ome.io/auto-inject"  # OME adds the devices of the node (pkg/webhook/admission/pod/rdma_injector.go)
_LOCKING = frozenset({"IPC_LOCK", "CAP_IPC_LOCK", "ALL"})
"""Capabilities with which a container may lock any amount of memory."""


class Fabric(CamelModel):
    """A network between nodes."""

    resource: KeyGlob
    """The extended resource with which nodes offer it, or a glob of such resources: `example.com/roce-*`."""
    disabled_by: Mapping[Annotated[str, Field(min_length=1)], tuple[str, ...]] = Field(default_factory=dict)
    """Variables with the values under which NCCL does not use it: `{NCCL_IB_DISABLE: ["1"]}`. Case does not matter."""
    annotation: LabelKey | None = None
    """An annotation without which pods get no interface of it, and which requests it on its own."""
    ipc_lock: bool = False
    """Whether containers need the capability `IPC_LOCK` for it, because nodes limit the memory that they may lock."""
    carries_nccl: bool = True
    """`false` for a network that is not for NCCL, such as one of storage: the rule does not mention it."""
    source: str = ""
    """Where this was read."""

    def is_off(self, variable: str, value: str | None) -> bool:
        """Whether NCCL does not use it with this value of a variable."""
        return value is not None and value.casefold() in map(str.casefold, self.disabled_by.get(variable, ()))


_SHIPPED = {
    one.resource: one
    for row in read_table(Path(__file__).with_name("data") / "fabrics.yaml")["fabrics"]
    if (one := Fabric.model_validate(row, strict=False))
}


class Settings(RuleSettings):
    """Settings of `network`."""

    fabrics: tuple[Fabric, ...] = ()
    """Networks that this release does not know: `[{resource: example.com/roce}]`. A row replaces a known one with
    the same `resource`; of several globs that match, the longest counts."""

    @field_validator("fabrics")
    @classmethod
    def _are_different(cls, fabrics: tuple[Fabric, ...]) -> tuple[Fabric, ...]:
        names = [one.resource for one in fabrics]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{name} stands there twice; keep one of the rows")
        return fabrics

    @cached_property
    def table(self) -> Mapping[str, Fabric]:
        """Resource or glob -> fabric."""
        return _SHIPPED | {one.resource: one for one in self.fabrics}

    @cached_property
    def globs(self) -> tuple[str, ...]:
        return tuple(self.table)

    def fabric(self, resource: str) -> Fabric | None:
        """The fabric of a resource; None where the resource is none that NCCL could use."""
        found = self.table.get(_closest(resource, self.globs))
        return found if found is not None and found.carries_nccl else None


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation]:
    """Find pods of jobs that do not request the network of their nodes, or turn off what they request."""
    if not (pod.requests_gpus_of(Vendor.NVIDIA) and may_span_nodes(pod)):
        return
    containers = [
        one for one in pod.lasting_containers() if one.gpu_count and (one.list_name != INIT or one.is_sidecar)
    ]
    requested = [(container, *one) for container in containers for one in _requested(container, settings)]
    known = _known(facts.resources(), settings.globs)
    if not (requested or known) or not containers or not _uses_nccl(pod, containers) or is_completed_elsewhere(pod):
        return
    for container, resource, fabric in requested:
        yield from _unusable(pod, container, resource, fabric)
    if known and not _may_have_a_network(pod, containers, settings):
        yield from _not_requested(pod, containers, known, settings, facts)


def _requested(container: Container, settings: Settings) -> Iterable[tuple[str, Fabric]]:
    """The first resource of each network that a container requests."""
    found: dict[str, tuple[str, Fabric]] = {}
    for resource, amount in {**container.limits, **container.requests}.items():
        if "/" in resource and (fabric := settings.fabric(resource)) is not None and is_some(amount):
            found.setdefault(fabric.resource, (resource, fabric))
    return found.values()


@lru_cache(maxsize=1024)
def _closest(resource: str, globs: tuple[str, ...]) -> str:
    return (closest(globs, resource) if is_extended(resource) and accelerator(resource) is None else None) or ""


@lru_cache(maxsize=64)
def _known(resources: frozenset[str], globs: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([name for name in sorted(resources) if _closest(name, globs)])


def _unusable(pod: Pod, container: Container, resource: str, fabric: Fabric) -> Iterator[Violation]:
    """What keeps NCCL off a network that a container requests."""
    why = f"the container requests {resource}"
    variables, words = dict(container.env), " ".join(container.words)
    for name in () if starts_ranks_over_ssh(pod) else fabric.disabled_by:
        value, where, others = variables.get(name), f"{container.path}.env[{name}]", _PLUGINS - {name}
        if name in words:
            ran = literal(container.words if container.command else (), variables)
            value = ran.given.get(name) if len(ran.active) == words.count(name) == 1 else None
            where = f"{container.path}.{'args' if name in ' '.join(container.args) else 'command'}"
        if not fabric.is_off(name, value):
            continue
        may_differ = any(container.sets_env(one) or container.may_take_env(one) or one in words for one in others)
        if not (may_differ or _BESIDE_NCCL.search(_text([container]))):
            found = f"is {spelled(value)}" if where.endswith("]") else f"sets {name} to {spelled(value)}"
            remedy = "Remove the variable, or the request"
            yield Violation(where, f"{found}, and {why}", "NCCL then uses plain TCP", remedy)
    if fabric.ipc_lock and not container.is_privileged and _LOCKING.isdisjoint(container.capabilities):
        where, found = f"{container.path}.securityContext.capabilities.add", f"lacks IPC_LOCK, and {why}"
        yield Violation(where, found, "NCCL cannot lock the memory that it sends from", "Add IPC_LOCK")
    if fabric.annotation and not pod.host_network and not pod.annotations.get(fabric.annotation):
        where, found = "metadata.annotations", f"lacks {fabric.annotation}, and {container.path} requests {resource}"
        yield Violation(where, found, "the pod gets no interface of that network", "Name its networks there")


_DEFAULT = Settings(mode=Mode.WARN)
SWITCHES = frozenset(name for one in _SHIPPED.values() for name in one.disabled_by)
"""Variables that turn a network off for NCCL."""


def turned_off(container: Container, variable: str, value: str) -> str:
    """The network that a container requests and NCCL does not use with this value of a variable; empty for none."""
    return next((resource for resource, one in _requested(container, _DEFAULT) if one.is_off(variable, value)), "")


def _may_have_a_network(pod: Pod, containers: list[Container], settings: Settings) -> bool:
    """Whether the pod may get a fast network in a way that does not show, or nobody knows yet where it will run."""
    if pod.host_network or pod.is_held or pod.resource_claims:
        return True
    if any(one.is_privileged or one.unknown_classes for one in containers):
        return True
    if any(_DEVICES.fullmatch(volume.host_path) for volume in pod.volumes) or pod.annotations.get(_INJECTED) == "true":
        return True
    naming = NETWORKS.union([one.annotation for one in settings.table.values() if one.annotation])
    if any(key in naming or key.startswith((*DEVICE_KEYS, *PATH_KEYS)) for key in pod.annotations):
        return True
    return any(is_extended(name) and pod.known.of(name) is None for name in demand_of(pod))


def _not_requested(
    pod: Pod, containers: list[Container], known: Sequence[str], settings: Settings, facts: Facts
) -> Iterator[Violation]:
    """The first network that all existing nodes with room offer, if none has the GPUs of two such pods."""
    if [*pod.gpus] != [GPU]:
        return
    amounts = facts.amounts_on(pod, (GPU, *known))
    if not amounts or any(has is None or has >= 2 * pod.gpus[GPU] for has, *_ in amounts):
        return
    offered = [name for at, name in enumerate(known, start=1) if all(one[at] for one in amounts)]
    fabrics = {name: fabric for name in offered if (fabric := settings.fabric(name)) is not None}
    nodes = facts.feasible_nodes(pod) if fabrics else ()
    number = sum([one.count for one in nodes])
    if not number or any(share.fault or share.part(GPU) < 1 for share in [share_of(one.labels) for one in nodes]):
        return
    if not _are_joined(pod, containers):
        return
    name, fabric = next(iter(fabrics.items()))
    node = "node" if all(one.count for one in nodes) else "node of today"
    found = f"requests no {name}, which every {node} that the pod could run on offers ({counted(number, 'node')})"
    where, remedy = f"{containers[0].path}.resources", "Request it in limits"
    if fabric.annotation:
        where, remedy = "metadata.annotations", f"Name its networks in {fabric.annotation}"
    why = "without it NCCL uses plain TCP over the pod network"
    yield Violation(where, found, why, remedy, follows_nodes=True, softens_on_update=True)


def _text(containers: Sequence[Container]) -> str:
    """What containers say: images, variables with their values, and words."""
    words: list[str] = []
    for one in containers:
        words += [one.image, *[f"{name}={value}" for name, value in one.env], *one.words]
    return " ".join(words)


def _uses_nccl(pod: Pod, containers: list[Container]) -> bool:
    """Whether the pod uses NCCL between nodes, as far as that shows.

    Pods with one GPU, and workers of Ray, often work on parts of their own, unless their words say otherwise.
    """
    if [1 for one in containers for name, value in one.env if value == "1" and name in _ONE_NODE]:
        return False
    if pod.owner_kind in WITHOUT_COLLECTIVES or _WITHOUT_NCCL.search(_text(containers)):
        return False
    if pod.gpu_count >= 2 and RAY not in pod.labels and pod.owner_kind != "RayCluster":
        return True
    words = " ".join([f"{one.image} {' '.join((*one.env_names, *one.words))}" for one in containers])
    return _DISTRIBUTED.search(words) is not None


def _are_joined(pod: Pod, containers: list[Container]) -> bool:
    """Whether the pods of a job run one program, and not each a part or a copy of its own.

    Operators of training join the pods of their jobs. Other labels are no proof, least of all on a pod by itself, whose
    job may have no other pod.
    """
    marks, words = {**pod.annotations, **pod.labels}, " ".join([word for one in containers for word in one.words])
    env = [entry for one in containers for entry in one.env]
    said = " ".join([*[name for name, _ in env], words])
    is_on_one = _TORCHRUN.search(words) is not None and "nnodes" not in said.casefold()
    is_joined = not is_on_one and _JOINED.search(said) is not None
    is_by_itself = not is_joined and _BY_ITSELF.search(_text(containers)) is not None
    if LEADER_WORKER_SET in marks:
        return not (words and is_by_itself) and (not marks[LEADER_WORKER_SET] or _is_several(marks.get(GROUP_SIZE)))
    values = [marks[name] for name in _BY_LABEL if name in marks]
    if not values or not marks.keys().isdisjoint((ONE_PROGRAM, TRAINING, RAY)):
        return True
    if any(values):
        ranks = "WORLD_SIZE", str(pod.gpu_count)
        sizes = [value for name, value in env if name in _ONE_NODE and (name, value) != ranks]
        is_large = _SEVERAL.search(words) is not None or any(map(_is_several, sizes))
        return is_large or (is_joined and _is_several(marks.get(_JOBS)))
    return is_joined or (not is_by_itself and (not words or _TRAINING.search(words) is not None))


def _is_several(value: str | None) -> bool:
    return (number_in(value) or 0) > 1


_POD = """\
apiVersion: v1
kind: Pod
metadata: {name: train-0, labels: {jobset.sigs.k8s.io/jobset-name: train}}
spec:
  containers:
    - name: trainer
      image: registry.example.com/train:1
      env: [{name: NCCL_IB_DISABLE, value: "1"}]
      resources: {limits: {nvidia.com/gpu: 8, rdma/ib: 8, memory: 800Gi}}
"""

RULE = Rule(
    key="network",
    promise="Jobs on several nodes use the fast network of their nodes.",
    problem="A job on several nodes does not request their fast network, or turns it off, and runs many times slower "
    "over TCP.",
    example=Example(_POD, {}, Mode.WARN),
    settings=Settings,
    validate=validate,
    is_about_groups=True,
)
