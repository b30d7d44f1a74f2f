"""GPU pods run only on GPUs of the kinds that their namespace may use, with as much memory as they need.

`allowed` and `denied` name models such as `T4`, families such as `A100`, MIG profiles such as `1g.10gb`, and resources
such as `nvidia.com/mig-*`. A pod that selects or requests what it may not use is refused. A pod that leaves its model
open is kept off nodes whose GPUs it may not use, whatever their taints, and is refused if it could land on no others,
or if no label tells these apart. Where `allowed` is set and a label names the GPU of every suitable node, the pod is
held to these values, also for nodes which come later; where autoscalers make nodes, only a label that they know holds
pods. Nodes that say no model stay eligible: declare pools that scale from zero in `nodePools`.

The annotation `gpupolicy.dev/gpu-memory: 40Gi` on a pod asks for GPUs with so much memory, and `memory` bounds it for
all pods: the size of a MIG profile, of a GPU by `nvidia.com/gpu.memory` or its model, or a share's part of it. Sizes
within 8 percent are equal: a GPU of 40 GB has 40Gi. Nodes with less than the annotation asks for, if no label tells
them apart, only bring a warning.

A resource claim (DRA), or a device class in `resources`, is refused if it can give only models that pods may not use
([which models](dra.md#which-models-a-class-gives)). A claim adds no node affinity.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated

from pydantic import Field, model_validator

from webhook.gpus.gpu_catalogue import Catalogue, Models
from webhook.gpus.gpu_kinds import Unit, UsableGpus, kind_of
from webhook.gpus.gpu_names import GKE_ACCELERATOR, NVIDIA_PRODUCT
from webhook.model.accelerators import DEVICE_CLASSES, Accelerator
from webhook.model.claims import ClaimObject, Devices, claims_of
from webhook.model.edits import PreferNodes
from webhook.model.node import NodeClass
from webhook.model.pod import Pod
from webhook.model.quantity import positive
from webhook.model.selectors import Expression, Operator
from webhook.model.wording import PLATFORM_TEAM, cut, few
from webhook.rules.candidates import anywhere, candidates, selected
from webhook.rules.names import GpuKind, GpuModelName
from webhook.rules.rule import Advice, Example, Facts, Rule, Stage, Violation, training_pod
from webhook.rules.rule_settings import TableSettings
from webhook.rules.unsuited import Judged, Unsuited
from webhook.rules.usable_gpus import (
    ANNOTATION,
    GpuMemorySize,
    Misfit,
    Sizes,
    Usable,
    allowed,
    annotation_faults,
    asked,
    barred_models,
    barred_request,
    has_labels,
    judged,
    judged_on,
    memory_on,
    reasons,
    said_of_gpus,
    size_text,
    without_effect,
)
from webhook.yaml_files.camel_model import CamelModel

_ELSE = f"Select GPUs that are allowed, or leave the choice open, or ask {PLATFORM_TEAM}"
_ELSE_RESOURCE = f"Request GPUs that are allowed, or ask {PLATFORM_TEAM}"
_LESS = f"Ask for less, or ask {PLATFORM_TEAM}"
_LARGER = f"Select nodes with larger GPUs, or ask {PLATFORM_TEAM}"


class MemorySettings(CamelModel):
    """How much memory one unit of a GPU resource may have."""

    min: GpuMemorySize | None = None
    """The least; a pod may ask for more by its annotation. Unset: any."""
    max: GpuMemorySize | None = None
    """The most; a pod may not ask for more. Unset: any."""


class Settings(TableSettings):
    """Settings of `gpuTypes`."""

    allowed: Annotated[tuple[GpuKind, ...] | None, Field(examples=[["T4", "L4"]])] = None
    """The only GPUs that pods may use: models or families, MIG profiles, and globs of resource names, such as `[T4, L4,
    1g.10gb, "amd.com/*"]`. Unset: all. `["*"]` allows all where the default file names some."""
    denied: tuple[GpuKind, ...] = ()
    """GPUs that pods may not use, in the same words; it takes precedence."""
    memory: MemorySettings = Field(default_factory=MemorySettings)
    """How much memory the GPUs, slices or shares of pods may have: `{min: 16Gi, max: 24Gi}`."""
    prefer: tuple[GpuModelName, ...] = ()
    """Models and families that pods prefer if they name none, the best one first: `[T4, L4]`. Karpenter treats
    preferences as requirements."""

    @model_validator(mode="after")
    def _leaves_gpus(self) -> "Settings":
        if self.allowed == ():
            raise ValueError('allowed: names no GPU; name some, or write ["*"] for all')
        if self.allowed is not None and not self.usable.gpus.left:
            raise ValueError(
                f"allowed: {few(self.allowed)}: all of it is denied, so no GPU is left; change allowed or denied"
            )
        least, most = self.memory.min, self.memory.max
        if least is not None and most is not None and least > most:
            raise ValueError(f"memory: min {size_text(least)} is above max {size_text(most)}; lower min or raise max")
        return self

    @cached_property
    def usable(self) -> Usable:
        allowed = None if self.allowed is None else tuple([kind_of(name, self.catalogue) for name in self.allowed])
        denied = tuple([kind_of(name, self.catalogue) for name in self.denied])
        return Usable(UsableGpus(allowed, denied), Sizes(self.memory.min, self.memory.max), self.catalogue)

    def never_allows(self, model: str) -> bool:
        """Whether pods may certainly not use GPUs of a model, whatever their resource is called."""
        of_model, gpus = Unit("", None, self.catalogue.leaves(model)), self.usable.gpus
        return bool(of_model.models) and not any(one.glob for one in gpus.allowed or ()) and bool(gpus.bar(of_model))

    @cached_property
    def is_silent(self) -> bool:
        return not self.usable and not self.prefer


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterable[PreferNodes]:
    """Prefer the models that are preferred, on nodes whose GPUs the pod may use."""
    if not settings.prefer or not _gpus(pod) or pod.node_name:
        return ()
    answer = unsuited(pod, settings, facts)
    nodes = candidates(pod, facts) if answer is None else answer.suitable
    return _preferences(pod, settings.prefer, nodes, settings.catalogue)


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation | Advice]:
    """Refuse a pod that names GPUs which it may not use, or that could land on no others."""
    if not settings.is_silent and (pod.resource_claims or pod.requests_classes):
        yield from _claimed(pod, settings.usable, facts)
    if ANNOTATION in pod.annotations:
        yield from without_effect(pod)
    usable = _usable(pod, settings) if pod.accelerators else None
    if usable is None:
        return
    gpus = tuple(_gpus(pod)) if usable else ()
    classes = candidates(pod, facts) if gpus else ()
    of_nodes = [*zip(classes, judged_on(tuple(classes), gpus, usable), strict=True)]
    is_suited = any(misfit is None for _, misfit in of_nodes)
    if faults := [*annotation_faults(pod, settings.memory.max), *_named(pod, usable, is_suited=is_suited)]:
        yield from faults
        return
    misfits = [(nodes, misfit) for nodes, misfit in of_nodes if misfit is not None]
    left = [nodes for nodes, misfit in of_nodes if misfit is None]
    if len(left) == 1 and left[0].by_claim and (misfit := _of_classes(pod, gpus, usable, facts)) is not None:
        misfits.append((left[0], misfit))
    if misfits and len(misfits) == len(classes):
        yield _refusal(pod, usable, misfits)
    elif misfits and not pod.is_gated:
        barred = [misfit for _, misfit in misfits]
        where, found = "spec", f"could land on nodes with GPUs that it may not use: {reasons(barred)}"
        mend = f"Select other nodes by nodeSelector, or tell {PLATFORM_TEAM}"
        if all(misfit.is_small for misfit in barred):
            yield Advice(where, found, mend, follows_nodes=True)
        else:
            rule = allowed(usable, asked(pod), barred)
            yield Violation(where, found, rule, mend, follows_nodes=True, is_kept_off=True)


def validate_claim(claim: ClaimObject, settings: Settings, facts: Facts) -> Iterator[Violation]:
    """Refuse claims and templates, when they are applied, that can give only models which pods may not use."""
    for found in barred_models(claim.requests, settings.usable, facts):
        yield Violation(claim.where, found, said_of_gpus(settings.usable.gpus), _ELSE)


def unsuited(pod: Pod, settings: Settings, facts: Facts) -> Judged | None:
    """The nodes with GPUs that the pod may not use."""
    usable = _usable(pod, settings) if pod.accelerators else None
    if usable is None:
        return None
    gpus = tuple(_gpus(pod)) if usable else ()
    if not gpus:
        return None
    holds = usable.gpus.allowed is not None and all(has_labels(gpu) for gpu in gpus)
    models = usable.catalogue.models_of(pod) or ()
    are_all_alike = len({judged(gpu, frozenset({one}), usable) is None for one in models for gpu in gpus}) == 1

    def judge(classes: Sequence[NodeClass], are_candidates: tuple[bool, ...]) -> Judged:
        of_nodes = judged_on(tuple(classes), gpus, usable)
        found = tuple([misfit and Unsuited(misfit.cause, str(misfit)) for misfit in of_nodes])
        elsewhere = None if are_all_alike else lambda: judge(*anywhere(pod, facts))
        are_there = holds and any(gpu.resource in one.gpu_resources for gpu in gpus for one in classes)
        return Judged(classes, found, are_candidates, settings.tables, are_there, elsewhere)

    return judge(*selected(pod, facts))


def _of_classes(pod: Pod, gpus: Sequence[Accelerator], usable: Usable, facts: Facts) -> Misfit | None:
    """Why the pod may not use what DeviceClasses give for the resource names of its GPUs."""
    by_name = {name: facts.extended_resource(name) for name in facts.device_classes() or ()}
    giving = [tuple([Devices(name) for name in by_name if by_name[name] == gpu.resource]) for gpu in gpus]
    return next(filter(None, [barred_request(one, usable, facts, pod) for one in giving]), None)


def _claimed(pod: Pod, usable: Usable, facts: Facts) -> Iterator[Violation]:
    """The claims of the pod, and the device classes in its resources, that give only models which it may not use."""
    said = said_of_gpus(usable.gpus)
    for named in claims_of(pod.resource_claims):
        place, who = f"spec.resourceClaims[{cut(named.name)}]", f"{named.kind} {cut(named.target)}"
        for found in barred_models(facts.claim(named, pod.namespace) or (), usable, facts, pod):
            yield Violation(place, f"{who} {found}", said, _ELSE)
    for container in pod.containers if pod.requests_classes else ():
        for name, amount in {**container.limits, **container.requests}.items():
            if name.startswith(DEVICE_CLASSES) and positive(amount) is not None:
                for found in barred_models(((Devices(name.removeprefix(DEVICE_CLASSES)),),), usable, facts, pod):
                    yield Violation(f"{container.path}.resources", f"requests {cut(name)}, which {found}", said, _ELSE)


def _usable(pod: Pod, settings: Settings) -> Usable | None:
    """What the pod may use; None if neither the policy nor the pod says anything of it."""
    if ANNOTATION not in pod.annotations:
        return None if settings.is_silent else settings.usable
    if (size := asked(pod)) is None:
        return settings.usable
    least, most = settings.usable.sizes
    return replace(settings.usable, sizes=Sizes(max(size, least or 0), most))


def _gpus(pod: Pod) -> list[Accelerator]:
    """The GPUs that the pod requests from device plugins."""
    return [gpu for gpu in pod.accelerators if gpu.is_listed]


def _named(pod: Pod, usable: Usable, *, is_suited: bool) -> Iterator[Violation]:
    """What the pod names, and may certainly not use: resources, and models that it selects.

    Nodes know their memory better than the names of models do, so where a node suits the pod (`is_suited`) only what a
    policy allows and denies counts.
    """
    barred = {gpu: misfit for gpu in pod.accelerators if (misfit := judged(gpu, frozenset(), usable)) is not None}
    for container in pod.lasting_containers() if barred else ():
        for request in container.gpu_requests:
            if request.count and (misfit := barred.get(request.accelerator)) is not None:
                found = f"requests {request.resource}"
                if misfit.bar is None:
                    found += f", and one unit has {size_text(misfit.memory.most or 0)}"
                rule = allowed(usable, asked(pod), [misfit])
                yield Violation(f"{container.path}.resources", found, rule, _ELSE_RESOURCE)
    models = frozenset(usable.catalogue.models_of(pod) or ())
    of_models = [judged(gpu, models, usable) for gpu in pod.accelerators if models and gpu not in barred]
    if misfits := [misfit for misfit in of_models if misfit is not None and not (is_suited and misfit.bar is None)]:
        is_selector = any(key in usable.catalogue.keys for key in pod.node_selector)
        where = "spec.nodeSelector" if is_selector else "spec.affinity.nodeAffinity"
        found = f"selects {usable.catalogue.called(models) or few(sorted(models))}"
        yield Violation(where, found, allowed(usable, asked(pod), misfits), _ELSE)


def _refusal(pod: Pod, usable: Usable, misfits: Sequence[tuple[NodeClass, Misfit]]) -> Violation:
    barred = [misfit for _, misfit in misfits]
    rule, least = allowed(usable, asked(pod), barred), usable.sizes.min
    found = f"could land on no GPU that it may use: {reasons(barred)}"
    if least is not None and all(misfit.is_small for misfit in barred):
        largest = max(memory_on(nodes, gpu, usable.catalogue).most or 0 for nodes, _ in misfits for gpu in _gpus(pod))
        most = f"the most that a GPU, slice or share has on the nodes that it could land on is {size_text(largest)}"
        if asked(pod) != least:
            found = f"has to have GPUs with {size_text(least)} of memory, and {most}"
            return Violation("spec", found, rule, _LARGER, follows_nodes=True)
        found = f"needs {size_text(least)} of GPU memory, and {most}"
        return Violation(f"metadata.annotations[{ANNOTATION}]", found, rule, _LESS, follows_nodes=True)
    return Violation("spec", found, rule, _ELSE, follows_nodes=True)


_HIGHEST = 100
"""The largest weight that Kubernetes accepts."""
_FIRST = (NVIDIA_PRODUCT, GKE_ACCELERATOR)
"""Labels that are taken before others."""


def _preferences(
    pod: Pod, names: Sequence[str], classes: Sequence[NodeClass], catalogue: Catalogue
) -> Iterator[PreferNodes]:
    """Preferences for these models, the first name with the highest weight, by the labels of these classes of nodes.

    None for a pod that says itself which models it wants or prefers, and for a model that no label of a node says.
    """
    prefers = any(one.key in catalogue.keys for term in pod.preferred for one in term.expressions)
    if prefers or catalogue.models_of(pod) is not None:
        return
    for place, name in enumerate(names):
        weight = max(_HIGHEST * (len(names) - place) // len(names), 1)
        for expression in _of_models(catalogue.leaves(name), classes, catalogue):
            yield PreferNodes(expression, weight)


def _of_models(models: Models, classes: Sequence[NodeClass], catalogue: Catalogue) -> Iterator[Expression]:
    """Expressions that together match every class of nodes with these models, by as few labels as possible."""
    wanted = [nodes.labels for nodes in classes if (own := catalogue.models_at(nodes.labels)) and own <= models]
    while wanted:
        said: dict[str, set[str]] = {}
        for labels in wanted:
            for key in labels.keys() & catalogue.keys:
                own = catalogue.models_at({key: labels[key]})
                if own and own <= models:
                    said.setdefault(key, set()).add(labels[key])
        if not said:
            return
        best = min(said, key=lambda key: (-sum(key in labels for labels in wanted), key not in _FIRST, key))
        yield Expression(best, Operator.IN, tuple(sorted(said[best])))
        wanted = [labels for labels in wanted if labels.get(best) not in said[best]]


RULE = Rule(
    key="gpuTypes",
    promise="GPU pods run only on the kinds of GPUs that their namespace may use, with the memory that they need.",
    problem="Small jobs take the largest GPUs, and people who need 40 GB have to know the names of all GPUs that "
    "have them.",
    example=Example(training_pod("tolerations: [{key: nvidia.com/gpu, operator: Exists}]"), {"allowed": ["T4", "L4"]}),
    settings=Settings,
    mutate=mutate,
    validate=validate,
    validate_claim=validate_claim,
    unsuited=unsuited,
    stage=Stage.STEERING,
    judges_fractions=True,
    depends_on_cluster_state=True,
)
