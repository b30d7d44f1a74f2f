"""Machine types with GPUs, as autoscalers know them before a node exists: which labels a node of each type has.

The rows are in `data/machine_types.yaml`, which says what they mean. The table of GPUs has the models of each type.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from webhook.gpus.gpu_names import INSTANCE_TYPE
from webhook.gpus.gpu_table import GPUS
from webhook.model.globs import matcher
from webhook.yaml_files.shipped_tables import read_table

_LABELS = {"arch": "kubernetes.io/arch", "instance-type": INSTANCE_TYPE}
"""Column of the table -> label that nodes of all clouds have."""
_NOT_READ, _NUMBER = "?", "gpus"


@dataclass(frozen=True, slots=True)
class MachineType:
    """A machine type. Its nodes lack a label whose value is None; `gpus` of None, and other labels, are not known."""

    labels: Mapping[str, str | None]
    gpus: int | None
    resource: str


@dataclass(frozen=True, slots=True)
class Cloud:
    """The machine types of a cloud, the labels about name, number and vendor of GPUs and number of CPUs, and the GPU
    resources by vendor.
    """

    types: Sequence[MachineType]
    name: str
    count: str
    vendor: str
    cpus: str
    resources: Mapping[str, str]
    _prefix: str
    _free: Sequence[str]
    plain: Mapping[str, Sequence[str]]
    """By label, whose values may tell which machines with GPUs there are."""
    _whole: Mapping[str, frozenset[str]]

    def is_of_machines(self, key: str) -> bool:
        """Whether the value of a label follows from the machine type, known or not."""
        column = key.removeprefix(self._prefix)
        return column != key and not any(matcher(glob).fullmatch(column) for glob in self._free)

    def knows(self, key: str, value: str) -> bool:
        """Whether the table has all machines with GPUs and this value of a label."""
        return value in self._whole.get(key, ()) or any(matcher(glob).fullmatch(value) for glob in self.plain[key])


def models_of(labels: Mapping[str, str]) -> frozenset[str]:
    """The GPU models of machines with these labels, by their type or else the name of the GPU; empty if unknown."""
    named = sorted((key for key in labels if key in GPUS.keys), key=lambda key: (key != INSTANCE_TYPE, key))
    return next(filter(None, (GPUS.models_at(key, labels[key]) for key in named)), frozenset())


@cache
def machine_table() -> Any:
    """The table as it is written."""
    return read_table(Path(__file__).with_name("data") / "machine_types.yaml")


def cloud_named(labels: Iterable[str]) -> str:
    """The API group of the cloud to which one of these labels belongs; empty for none."""
    groups = [one.partition("/")[0] for one in labels]
    return next((one for one in groups if one in machine_table()["clouds"]), "")


@cache
def cloud_of(api_group: str) -> Cloud | None:
    """The cloud whose autoscaler has node classes of this API group; None for any other group."""
    table = machine_table()
    cloud = table["clouds"].get(api_group)
    if cloud is None:
        return None
    prefix = cloud["prefix"]

    def label(column: str) -> str:
        return column if "/" in column else _LABELS.get(column, f"{prefix}{column}")

    name, count, vendor, cpus = map(label, cloud["gpu"])
    types: list[MachineType] = []
    own, lacking = list(map(label, cloud["names"])), dict.fromkeys(map(label, cloud["lacking"]))
    for group, of_type in ((each, name) for each in table["types"][cloud["types"]] for name in each["rows"]):
        told = {**group["all"], **dict(zip(group["columns"], group["rows"][of_type], strict=True))}
        texts = {label(one): None if told[one] is None else str(told[one]) for one in told if told[one] != _NOT_READ}
        labels = texts | dict.fromkeys(own, of_type) | lacking
        gpus = int(labels.pop(label(_NUMBER), None) or labels.get(count) or 0) or None
        types.append(MachineType(labels, gpus, cloud["resources"][labels.get(vendor) or "nvidia"]))
    whole = {key: frozenset(filter(None, (one.labels.get(key) for one in types))) for key in map(label, cloud["whole"])}
    plain = {label(column): globs for column, globs in cloud["plain"].items()}
    return Cloud(tuple(types), name, count, vendor, cpus, cloud["resources"], prefix, cloud["free"], plain, whole)
