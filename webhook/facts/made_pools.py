"""Nodes that Karpenter may make: one pool for each machine type that a NodePool admits, and for what may come besides.

A NodePool is read as Karpenter reads it (kubernetes-sigs/karpenter pkg/scheduling/requirements.go@2266468): labels and
requirements hold together; a requirement on a label that a machine lacks admits it only by NotIn and DoesNotExist. Pods
need not tolerate `startupTaints`, which go away by themselves. `minValues` depends on how Karpenter was started, so it
excludes nothing here. `limits` exclude machines that alone are larger; what is in use does not count.

The table of machine types says which GPUs a NodePool may bring. What the table may lack, such as a type that came
later, is a pool with unknown GPUs: nothing is certain about it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

from webhook.facts.nodes import SAME_LABELS, text_of
from webhook.gpus.gpu_names import INSTANCE_TYPE
from webhook.gpus.gpu_table import GPUS
from webhook.gpus.machine_types import Cloud, MachineType, cloud_named, cloud_of, machine_table, models_of
from webhook.model.globs import matcher
from webhook.model.json_parts import listed, mapped, text
from webhook.model.node import CUDA_LABELS, GPU_NAME_LABELS, NodePool, OpenLabels, Taint, driver_labels
from webhook.model.requirements import rounded_up, thousandths_of
from webhook.model.selectors import Expression, Operator, as_integer, contradicts
from webhook.model.wording import cut
from webhook.yaml_files.shipped_tables import read_table

NODE_POOL_LABEL = "karpenter.sh/nodepool"
_GROUP = "karpenter.sh"
_INCLUSIVE = {"Gte": (Operator.GT, -1), "Lte": (Operator.LT, 1)}
"""Operators of Karpenter alone -> the operator of Kubernetes with a bound that differs by so much."""
_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
WHOLE_GPUS = frozenset(_RESOURCES.values())
"""The GPU resources that Karpenter knows of machine types."""
BY_NODE_POOLS = frozenset({"Karpenter", "AKS node auto-provisioning", "EKS Auto Mode"})
"""The autoscalers, as `node_states.yaml` names them, whose nodes all come from NodePools."""
_EKS_IMAGES = read_table(Path(__file__).with_name("data") / "eks_images.yaml")
EKS_DRIVERS = {
    f"{family}@{release}": driver
    for family in _EKS_IMAGES["sources"]
    for driver, releases in _EKS_IMAGES[family].items()
    for release in releases
}
"""Alias of an image of Amazon EKS -> its NVIDIA driver."""
_GPU_NAMES = frozenset(GPU_NAME_LABELS)
_MOST_UNKNOWN = 32
"""Values that a NodePool lists and the table lacks, up to which each gets a pool; more get one together."""


@dataclass(frozen=True, slots=True)
class NodeClassSays:
    """What an EC2NodeClass says of its nodes besides; nothing if the class is not known.

    `driver` is the NVIDIA driver in their image, empty if it is not known. `labels_more`: a script gives them labels.
    """

    driver: str = ""
    labels_more: bool = False


UNKNOWN_CLASS = NodeClassSays()


def node_class_from_raw(raw: object) -> tuple[str, NodeClassSays] | None:
    """Read an EC2NodeClass of any shape. None where it has no name."""
    name, script = text(raw, "metadata", "name"), text(raw, "spec", "userData")
    aliases = [text(term, "alias") for term in listed(raw, "spec", "amiSelectorTerms")]
    is_script = bool(script) and not any(one.startswith("bottlerocket@") for one in aliases)  # which takes settings
    driver = EKS_DRIVERS.get(aliases[0], "") if len(aliases) == 1 and not is_script else ""
    labels_more = "node-labels" in script or "nodeLabels" in script
    return (name, NodeClassSays(driver, labels_more)) if name else None


@dataclass(frozen=True)
class NodeTemplate:
    """What a NodePool says of its nodes. `group` is the API group of their node class, `ec2_class` the name of their
    EC2NodeClass.

    `stated` are its labels and requirements. `limits` are in the units of `demand_of`. `faults` are messages about
    parts that could not be read; with any of them, which GPUs its nodes have is unknown.
    """

    name: str
    group: str
    ec2_class: str
    stated: tuple[Expression, ...]
    taints: tuple[Taint, ...] = ()
    limits: tuple[tuple[str, int], ...] = ()
    faults: tuple[str, ...] = ()

    def on(self, key: str) -> list[Expression]:
        return [one for one in self.stated if one.key == key]

    def admits(self, labels: Mapping[str, str | None]) -> bool:
        """Whether machines with these labels meet it; None stands for a label that they do not have."""
        return all(one.accepts(labels[one.key]) for one in self.stated if one.key in labels)

    def values(self, key: str) -> list[str] | None:
        """The values that a label may have; None where it does not list them."""
        stated = self.on(key)
        lists = [one.values for one in stated if one.operator == Operator.IN]
        return [value for value in lists[0] if all(one.accepts(value) for one in stated)] if lists else None

    @cached_property
    def single(self) -> Sequence[tuple[str, str]]:
        keys = dict.fromkeys(one.key for one in self.stated)
        return [(key, values[0]) for key in keys if (values := self.values(key)) is not None and len(values) == 1]

    @cached_property
    def unmet(self) -> Sequence[str]:
        """The labels of which no value meets all that is said of them."""
        return list(dict.fromkeys(one.key for one in self.stated if contradicts(self.stated, one)))

    @property
    def is_impossible(self) -> bool:
        """Whether no machine can meet it. Of labels that people choose, Karpenter makes nodes without an unmet one."""
        return any(matcher(glob).fullmatch(key) for glob in _open_keys(self.group) for key in self.unmet)


def node_pool_from_raw(raw: object) -> tuple[str, NodeTemplate] | None:
    """Read a NodePool of Karpenter, of any shape. None where it has no name, or is a NodePool of something else."""
    name, version = text(raw, "metadata", "name"), text(raw, "apiVersion")
    if not name or not (version or f"{_GROUP}/").startswith(f"{_GROUP}/"):
        return None
    spec, faults = mapped(raw, "spec", "template", "spec"), list[str]()
    ref = mapped(spec, "nodeClassRef")
    group, kind = (text(ref, "group") or text(ref, "apiVersion")).partition("/")[0], text(ref, "kind")
    labels = {NODE_POOL_LABEL: name} | ({f"{group}/{kind.lower()}": text(ref, "name")} if group and kind else {})
    labels |= mapped(raw, "spec", "template", "metadata", "labels")
    stated = [Expression(str(key), Operator.IN, (text_of(value) or "",)) for key, value in labels.items()]
    for at, one in enumerate(listed(spec, "requirements")):
        found = _requirement(one)
        if found is None:
            faults.append(f"spec.template.spec.requirements[{at}] is no requirement that Karpenter knows")
        else:
            stated.append(found)
    limits = []
    for resource, quantity in mapped(raw, "spec", "limits").items():
        amount = thousandths_of(quantity)
        if amount is None:
            faults.append(f"spec.limits.{cut(str(resource))} is no amount")
        else:
            limits.append((str(resource), rounded_up(str(resource), amount)))
    taints = [tuple(text(one, key) for key in ("key", "value", "effect")) for one in listed(spec, "taints")]
    repelling = sorted({one for one in taints if one[0] and one[2] in ("NoSchedule", "NoExecute")})
    return name, NodeTemplate(
        name,
        group,
        text(ref, "name") if kind == "EC2NodeClass" else "",
        tuple(stated),
        tuple(Taint(*one) for one in repelling),
        tuple(limits),
        tuple(faults),
    )


def _requirement(raw: object) -> Expression | None:
    key, operator = text(raw, "key"), text(raw, "operator")
    values = tuple(value for one in listed(raw, "values") if (value := text_of(one)) is not None)
    if operator in _INCLUSIVE:
        operator, step = _INCLUSIVE[operator]
        bound = as_integer(values[0]) if values else None
        values = () if bound is None else (str(bound + step),)
    wants_number = operator in (Operator.GT, Operator.LT)
    is_read = bool(key) and operator in [*Operator] and len(values) == len(listed(raw, "values"))
    if not is_read or (wants_number and Expression(key, operator, values).bound is None):
        return None
    key = SAME_LABELS.get(key, key)
    return Expression(key, operator, values) if values or operator not in (Operator.IN, Operator.NOT_IN) else None


@lru_cache(maxsize=1024)
def pools_of(template: NodeTemplate, says: NodeClassSays = UNKNOWN_CLASS) -> tuple[NodePool, ...]:
    """The pools of the nodes with GPUs that a NodePool may bring with its node class; none if it brings no GPUs."""
    limits = dict(template.limits)
    if template.is_impossible or 0 in [limits.get(name) for name in ("cpu", "memory", "nodes")]:
        return ()
    cloud = None if template.faults else cloud_of(template.group or cloud_named(one.key for one in template.stated))
    if cloud is None:
        unknown = (MachineType({}, None, resource) for resource in _RESOURCES.values())
        return tuple(_pool(template, says, one, one.resource) for one in unknown if limits.get(one.resource) != 0)
    counting = Expression(cloud.count, Operator.EXISTS)  # each type with GPUs has that label
    of_machines = [one.key for one in template.stated if cloud.is_of_machines(one.key) and one != counting]
    admitted = [one for one in cloud.types if template.admits(one.labels) and _is_within(limits, one, cloud)]
    known = [one for one in admitted if one.labels.keys() >= set(of_machines)]
    doubtful = {one.resource: MachineType({}, None, one.resource) for one in admitted if one not in known}
    others = [*doubtful.values(), *(one for one in _others(template, cloud) if limits.get(one.resource) != 0)]
    return (
        *(_pool(template, says, one, str(one.labels[INSTANCE_TYPE])) for one in known),
        *(_pool(template, says, one, f"others {at}") for at, one in enumerate(others)),
    )


def _is_within(limits: Mapping[str, int], machine: MachineType, cloud: Cloud) -> bool:
    cpus = as_integer(machine.labels.get(cloud.cpus)) or 0
    amounts = {machine.resource: machine.gpus or 1, "cpu": cpus * 1000}
    return all(amount <= limits.get(name, amount) for name, amount in amounts.items())


def _others(template: NodeTemplate, cloud: Cloud) -> Iterator[MachineType]:
    """What stands for machines with GPUs that a NodePool admits and the table may lack."""
    lists = {key: values for key in cloud.plain if (values := template.values(key)) is not None}
    unknown = {key: [one for one in values if not cloud.knows(key, one)] for key, values in lists.items()}
    needed = [Expression(cloud.count, Operator.GT, ("0",))]
    if all(one.labels.get(cloud.name) for one in cloud.types):
        needed.append(Expression(cloud.name, Operator.EXISTS))
    if not all(unknown.values()) or any(contradicts(template.on(one.key), one) for one in needed):
        return
    key = next((key for key in (INSTANCE_TYPE, cloud.name) if key in unknown), "")
    values = unknown[key] if key else []
    for value in values if 0 < len(values) <= _MOST_UNKNOWN else [""]:
        labels = {key: value} if value else {}
        vendors = {str(GPUS.vendors[model]) for model in models_of(labels)}
        for vendor, resource in cloud.resources.items():
            stated = template.on(cloud.vendor)
            if (not vendors or vendor in vendors) and all(one.accepts(vendor) for one in stated):
                yield MachineType(labels, None, resource)


def _pool(template: NodeTemplate, says: NodeClassSays, machine: MachineType, kind: str) -> NodePool:
    """The pool of a machine type, or of unknown ones; `kind` tells it from others of the NodePool."""
    labels = {key: value for key, value in machine.labels.items() if value is not None}
    labels |= {key: value for key, value in template.single if key not in machine.labels}
    if says.driver and machine.gpus and machine.resource == _RESOURCES["nvidia"]:
        labels |= driver_labels(says.driver)
    lacking = [*template.unmet, *(key for key, value in machine.labels.items() if value is None)]
    required = [one for one in template.stated if one.key not in labels and one.key not in template.unmet]
    required += [Expression(key, Operator.DOES_NOT_EXIST) for key in lacking]
    return NodePool(
        f"{template.name} ({kind})",
        tuple(sorted(labels.items())),
        template.taints,
        frozenset({machine.resource}),
        machine.gpus,
        members=((NODE_POOL_LABEL, template.name),),
        made_by=f"NodePool {template.name}",
        open=OpenLabels(tuple(required), ("*",) if says.labels_more else _open_keys(template.group), models_of(labels)),
    )


@lru_cache(maxsize=64)
def _open_keys(group: str) -> tuple[str, ...]:
    return (*machine_table()["open"], *([f"*{group}/*"] if group else []))


@lru_cache(maxsize=256)
def known_pools(declared: tuple[NodePool, ...], made: tuple[NodePool, ...]) -> tuple[NodePool, ...]:
    """The pools of a policy, and those of NodePools. Declared pools with the name of a NodePool, or with its label, are
    that NodePool. They win, but if a declared pool says no GPU and no next driver, the NodePool says the GPUs.
    """
    own = [(dict(pool.labels).get(NODE_POOL_LABEL, pool.name), pool) for pool in declared]
    names, templates = [name for name, _ in own], {pool.called for pool in made}
    partial = {
        name: pool
        for name, pool in own
        if name in templates
        and names.count(name) == 1
        and pool.next is None
        and not dict(pool.labels).keys() & _GPU_NAMES
    }
    found = [pool for name, pool in own if name not in partial]
    for pool in made:
        name = pool.called
        if name in partial:
            of = partial[name]
            driver = {key: value for key, value in of.labels if key.startswith(CUDA_LABELS)}
            known = {key: value for key, value in pool.labels if not driver or not key.startswith(CUDA_LABELS)}
            labels = tuple(sorted({**known, **dict(of.members), **driver}.items()))
            found.append(replace(pool, labels=labels, gpus=of.gpus or pool.gpus, taints=of.taints or pool.taints))
        elif name not in names:
            found.append(pool)
    return tuple(found)


def faults_of(templates: Mapping[str, NodeTemplate], classes: Collection[str] = ()) -> Iterator[str]:
    """Messages about what NodePools say that cannot be read or met, or names none of these EC2NodeClasses, if any is
    known.
    """
    for name, template in sorted(templates.items()):
        yield from (f"NodePool {name}: {fault}, so the GPUs of its nodes are unknown" for fault in template.faults)
        result = "it makes no node" if template.is_impossible else "its nodes lack that label"
        for key in template.unmet:
            yield f"NodePool {name}: no value of {cut(key)} meets all that its template says, so {result}"
        if template.ec2_class and classes and template.ec2_class not in classes:
            named = f"EC2NodeClass {cut(template.ec2_class)}"
            yield f"NodePool {name}: {named} is not among the known ones, so the driver of its nodes is unknown"
