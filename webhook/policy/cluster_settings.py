"""What policies declare of a cluster: names of GPUs, what devices of DeviceClasses are, and pools of nodes.

Names of GPUs that only the platform knows stand in `_default.yaml`, for all namespaces: the API server has to send pods
that request these GPUs, and there is one webhook configuration for all namespaces.

Pods may select nodes of pools by labels of GPU Feature Discovery. The labels that it will publish on the nodes of a
pool follow from `driver`, `product` and `gpus`.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PrivateAttr, ValidationInfo, model_validator

from webhook.cuda.cuda_tables import SHIPPED, CudaTables, tables_in
from webhook.gpus.gpu_model import GpuTraits
from webhook.model.accelerators import (
    BUILT_IN,
    DEVICE_CLASSES,
    GPU_ATTRIBUTES,
    Accelerators,
    Declared,
    Share,
    Vendor,
    accelerators_in,
)
from webhook.model.globs import is_glob
from webhook.model.node import CUDA_LABELS, NextDriver, NodePool, Taint, driver_labels
from webhook.model.shape import spelled
from webhook.model.versions import parse_version
from webhook.policy.exception_times import read_instant, told
from webhook.quota.quotas import CLASSES_CONTEXT, DeclaredClass
from webhook.rules.names import LabelKey, LabelValue, ModelName, TaintKey, Weight
from webhook.yaml_files.camel_model import CamelModel, readable
from webhook.yaml_files.yaml_lines import YamlNode

MOST_DECLARED = 64
"""Names that may be declared. The API server compares each of them with every resource of a pod."""
_DOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9*?]([A-Za-z0-9*?._-]*[A-Za-z0-9*?])?", re.ASCII)
_LONGEST_DOMAIN, _LONGEST_NAME = 253, 63
_NATIVE = "kubernetes.io"


def _resource_name(value: str) -> str:
    domain, _, name = value.partition("/")
    if not _DOMAIN.fullmatch(domain) or not _NAME.fullmatch(name) or len(domain) > _LONGEST_DOMAIN:
        raise ValueError(
            f"{spelled(value)} cannot be the name of a resource; write a domain, a slash and a name of letters, digits "
            "and inner - _ ., which may hold * and ?, such as example.com/vgpu-*"
        )
    if len(name) > _LONGEST_NAME:
        raise ValueError(
            f"{spelled(value)} is too long; no name of a resource has more than {_LONGEST_NAME} characters"
        )
    if f".{domain}".endswith(f".{_NATIVE}") and not value.startswith(DEVICE_CLASSES):
        raise ValueError(f"{spelled(value)} is a name of Kubernetes itself; no GPU has it")
    if value in GPU_ATTRIBUTES:
        raise ValueError(f"{spelled(value)} is a share of a GPU, counted in its own unit, and no GPU; remove the entry")
    return value


class DeclaredSettings(CamelModel):
    """Names of one kind of GPUs."""

    name: Annotated[str, AfterValidator(_resource_name), Field(examples=["example.com/vgpu"])]
    """Name of the resource, or a glob of names in one domain (`*` is any text, `?` one character). Known GPUs keep
    their meaning."""
    gpu: bool = True
    """`false`: the devices of a device class (`deviceclass.resource.kubernetes.io/...`) are no GPUs. No other name
    needs it."""
    vendor: Vendor | None = None
    """Who made the GPUs. The limit of a model in a quota counts only GPUs of its vendor. Required, unless `gpu` is
    false."""
    share: Share = Share.WHOLE
    """What one unit gives: a `whole` GPU, one that is `shared`, a `slice`, one that goes to a virtual machine
    (`passthrough`), or all GPUs of the `node`. `weights` of a quota say what it weighs, else it is 1."""
    dra: bool = False
    """Whether a DRA driver gives it, by an `extendedResourceName`: then no node lists it, and its pods get no
    RuntimeClass and no environment variables. Always true of a device class."""

    @model_validator(mode="after")
    def _says_something(self) -> "DeclaredSettings":
        if not self.gpu and not self.name.startswith(DEVICE_CLASSES):
            raise ValueError(
                f"{self.name} is no device class, so it is no GPU unless it is declared as one; remove the entry"
            )
        if not self.gpu and self.model_fields_set & {"vendor", "share", "dra"}:
            raise ValueError(f"{self.name} is no GPU, so it has no vendor, share or dra; keep name and gpu")
        if self.gpu and self.vendor is None:
            raise ValueError(f"{self.name} has no vendor; write vendor: and one of {', '.join(Vendor)}")
        known = None if is_glob(self.name) else BUILT_IN.of(self.name)
        if known is not None:
            raise ValueError(f"{self.name} is already known as GPUs of {known.vendor}, {known.share}; remove the entry")
        return self

    @property
    def declared(self) -> Declared:
        return Declared(self.name, self.vendor or Vendor.OTHER, self.share if self.gpu else None, self.dra)


class AcceleratorSettings(CamelModel):
    """Names of GPUs in addition to the built-in ones."""

    extra: Annotated[tuple[DeclaredSettings, ...], Field(max_length=MOST_DECLARED)]
    """Resource names of GPUs that are not built in, such as names of vGPU plugins and the `extendedResourceName` of a
    DeviceClass. They are GPUs for every rule, quota and report. `accelerators.extra` of the chart has to name them,
    too, so that pods which request them are sent to the webhook."""

    @property
    def accelerators(self) -> Accelerators:
        """All names of GPUs. Without declared names this is one object for all policies."""
        return Accelerators(tuple(one.declared for one in self.extra)) if self.extra else BUILT_IN


class DeclaredClassSettings(CamelModel):
    """What one device of a DeviceClass counts in quotas."""

    model: ModelName | None = None
    """The GPU model of the devices, such as `H100`: a name that `byModel` of a quota may have. Unset: the model that a
    selector of the claim names as productName, or else any."""
    weight: Weight | None = None
    """How many GPUs one device counts as, as a whole number or a fraction in quotes: `"1/7"` for a class of small MIG
    devices. Unset: 1."""

    @model_validator(mode="after")
    def _says_something(self) -> "DeclaredClassSettings":
        if self.model is None and self.weight is None:
            raise ValueError("says nothing; write model, weight, or both")
        return self

    @property
    def declared(self) -> DeclaredClass:
        return DeclaredClass(self.model, self.weight)


@dataclass(frozen=True, slots=True)
class DeclaredClasses:
    """The DeviceClasses that a file, or the file that it is merged over, declares, with their places."""

    settings: Mapping[str, DeclaredClassSettings] = field(default_factory=dict)
    nodes: Mapping[str, YamlNode] = field(default_factory=dict)

    def over(self, base: "DeclaredClasses") -> "DeclaredClasses":
        """These classes, and further ones of another file."""
        return DeclaredClasses({**base.settings, **self.settings}, {**base.nodes, **self.nodes})

    def __bool__(self) -> bool:
        return bool(self.settings)

    @property
    def written(self) -> dict[str, Any]:
        return {
            name: settings.model_dump(mode="json", by_alias=True, exclude_none=True)
            for name, settings in sorted(self.settings.items())
        }

    @property
    def context(self) -> dict[str, Any]:
        """The part of the context with which settings of quotas are validated."""
        return {CLASSES_CONTEXT: {name: settings.declared for name, settings in self.settings.items()}}


ARCH = "kubernetes.io/arch"
PRESENT = "nvidia.com/gpu.present"
OS = "kubernetes.io/os"

_OLDEST_BRANCH = 100
"""The least first number of a driver version. A smaller number is most likely a version of CUDA."""


def _driver(value: str) -> str:
    version = parse_version(value)
    if len(version.parts) > 3 or version.major < _OLDEST_BRANCH:
        raise ValueError(f"{spelled(value)} is not a driver version; write one such as 550.54.15, or its branch, 550")
    return value


def _gpu_resource(value: str, info: ValidationInfo) -> str:
    gpu = accelerators_in(info.context).of(value)
    if gpu is None or not gpu.is_listed:
        raise ValueError(
            f"{spelled(value)} is not a GPU resource; write one such as nvidia.com/gpu, nvidia.com/mig-1g.10gb, "
            "amd.com/gpu or gpu.intel.com/xe"
        )
    return value


class PoolTaint(CamelModel):
    """A taint of every node of a pool."""

    key: Annotated[TaintKey, Field(min_length=1, examples=["nvidia.com/gpu"])]
    """Key of the taint, such as `nvidia.com/gpu`."""
    value: LabelValue = ""
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    """What the taint does to pods that do not tolerate it."""


class NextDriverSettings(CamelModel):
    """The driver that the nodes of a pool will have, and from when on."""

    driver: Annotated[str, AfterValidator(_driver), Field(examples=["595.71.05"])]
    """Version of the driver, in quotes, such as `"595.71.05"`, or its branch alone, `"595"`."""
    from_: Annotated[str, AfterValidator(readable(read_instant)), Field(alias="from", examples=["2026-12-01"])]
    """When it is rolled out: a time with its zone, or a day, which begins at 00:00 UTC. The clock of the API server
    decides."""

    def change(self, members: Mapping[str, str]) -> NextDriver:
        """The change as a value, for a pool whose existing nodes have the labels `members`."""
        begins = read_instant(self.from_).begins
        labels, own = driver_labels(self.driver), sorted(members.items())
        moment = datetime.fromtimestamp(begins, UTC)
        day = f"{moment.day} {moment:%B %Y}"  # 1 December 2026, or 1 December 2026, 18:00 UTC
        if (moment.hour, moment.minute, moment.second) != (0, 0, 0):
            day += f", {moment:%H:%M} UTC"
        return NextDriver(self.driver, begins, day, tuple(labels.items()), tuple(own))


class PoolSettings(CamelModel):
    """A pool of nodes that may have none at the moment."""

    name: Annotated[LabelValue, Field(min_length=1, examples=["h100-spot"])]
    """Name of the pool, for messages; unique in its list."""
    labels: Mapping[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels of its nodes that pods may select, besides the labels that follow from the keys below; `kubernetes.io/os`
    is `linux` unless written here."""
    taints: tuple[PoolTaint, ...] = ()
    """Taints of its nodes."""
    driver: Annotated[str, AfterValidator(_driver), Field(examples=["550.54.15"])] | None = None
    """Version of the NVIDIA driver, in quotes, such as `"550.54.15"`, or its branch, `"550"`. Unset: not known."""
    product: Annotated[LabelValue, Field(min_length=1, examples=["NVIDIA-H100-80GB-HBM3"])] | None = None
    """The GPU as the label `nvidia.com/gpu.product` names it. Of a known GPU the nodes also have
    `nvidia.com/gpu.family` and `nvidia.com/gpu.compute.*`; write others in `labels`. Unset: pods that select a product
    do not fit the pool."""
    gpus: Annotated[int, Field(ge=1, le=1024)] | None = None
    """GPUs on each node (`nvidia.com/gpu.count`). Unset: not known."""
    resource: Annotated[str, AfterValidator(_gpu_resource), Field(examples=["nvidia.com/gpu"])] = "nvidia.com/gpu"
    """Name of the GPU resource that its nodes offer. Nodes with NVIDIA GPUs also get the label
    `nvidia.com/gpu.present`."""
    arch: Literal["amd64", "arm64"] | None = None
    """CPU architecture. Unset: as `labels` say, else as a `product` with a CPU on its board has it, such as
    NVIDIA-GB200, else `amd64`."""

    next: NextDriverSettings | None = None
    """The driver that its nodes will have, and from when on. Unset: no change is planned."""

    _known: Accelerators = PrivateAttr(default_factory=lambda: BUILT_IN)
    _tables: CudaTables = PrivateAttr(default_factory=lambda: SHIPPED)  # a default is copied whole each time

    def model_post_init(self, context: Any, /) -> None:
        """Remember the names of GPUs and the tables of the policies that these settings belong to."""
        self._known = accelerators_in(context)
        self._tables = tables_in(context)

    @model_validator(mode="after")
    def _is_consistent(self) -> "PoolSettings":
        if not self._is_nvidia and (self.driver or self.product or self.next):
            keys = "driver and product are" if self.next is None else "driver, product and next are"
            raise ValueError(f"{keys} for NVIDIA GPUs, but resource is {self.resource}; remove one of them")
        if self.next is not None and self.next.driver == self.driver:
            raise ValueError(
                f"next.driver is {spelled(self.driver)}, which driver says already; write the driver that is to come, "
                "or remove next"
            )
        for key, (setting, value) in self._derived.items():
            if self.labels.get(key, value) != value:
                raise ValueError(
                    f"labels say {key} is {spelled(self.labels[key])}, and by {setting} it is {spelled(value)}; "
                    "keep one of them"
                )
        taints = Counter((taint.key, taint.effect) for taint in self.taints)
        for (key, effect), count in taints.items():
            if count > 1:
                raise ValueError(f"taints: {count} have the key {key} and the effect {effect}; keep one of them")
        return self

    @cached_property
    def pool(self) -> NodePool:
        labels = {key: value for key, (_, value) in self._derived.items()} | dict(self.labels)
        labels.setdefault(OS, "linux")
        labels.setdefault(ARCH, (self._traits.arch if self._traits is not None else "") or "amd64")
        if self._is_nvidia:
            labels.setdefault(PRESENT, "true")
        for key, value in self._of_the_model.items():
            labels.setdefault(key, value)
        taints = tuple(Taint(taint.key, taint.value, taint.effect) for taint in self.taints)
        change = self.next.change(self._of_existing_nodes) if self.next is not None else None
        resources, own = frozenset({self.resource}), tuple(sorted(self._of_existing_nodes.items()))
        return NodePool(self.name, tuple(sorted(labels.items())), taints, resources, self.gpus, change, own)

    @property
    def _of_existing_nodes(self) -> dict[str, str]:
        """The labels by which nodes of the cluster belong to the pool: all that are written, but not of the driver."""
        written = {key: value for key, value in self.labels.items() if not key.startswith(CUDA_LABELS)}
        follow = {key: value for key, (setting, value) in self._derived.items() if setting in ("product", "arch")}
        return written | follow

    @property
    def _is_nvidia(self) -> bool:
        known = self._known.of(self.resource)
        return known is not None and known.vendor is Vendor.NVIDIA

    @property
    def _of_the_model(self) -> dict[str, str]:
        compute = self._traits.compute if self._traits is not None else None
        if compute is None:
            return {}
        major, minor = compute.parts[:2]
        labels = {"nvidia.com/gpu.compute.major": str(major), "nvidia.com/gpu.compute.minor": str(minor)}
        generation = self._tables.generation_of(compute)
        return labels if generation is None else {**labels, "nvidia.com/gpu.family": generation.family}

    @property
    def _traits(self) -> GpuTraits | None:
        return self._tables.gpus.traits_of(self.product) if self.product is not None else None

    @property
    def _derived(self) -> dict[str, tuple[str, str]]:
        """The labels that follow from settings: key -> setting and value."""
        labels: dict[str, tuple[str, str]] = {}
        if self.driver is not None:
            labels |= {key: ("driver", value) for key, value in driver_labels(self.driver).items()}
        if self.product is not None:
            labels["nvidia.com/gpu.product"] = ("product", self.product)
        if self.gpus is not None and self._is_nvidia:
            labels["nvidia.com/gpu.count"] = ("gpus", str(self.gpus))
        if self.arch is not None:
            labels[ARCH] = ("arch", self.arch)
        return labels


def as_declared(pool: NodePool) -> dict[str, object]:
    """A pool as a policy file may declare it, with all labels."""
    written: dict[str, object] = {"name": pool.name, "labels": dict(pool.labels)}
    if pool.taints:
        written["taints"] = [{"key": t.key, "value": t.value, "effect": t.effect} for t in pool.taints]
    if pool.gpus is not None:
        written["gpus"] = pool.gpus
    (written["resource"],) = pool.gpu_resources
    if pool.next is not None:
        written["next"] = {"driver": pool.next.driver, "from": told(pool.next.begins)}
    return written
