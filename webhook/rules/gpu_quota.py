"""A namespace never uses more GPUs than its quota, which may limit GPUs of all kinds, each model and each resource.

Usage is counted in an object of the API server, so it is exact with any number of replicas. A MIG slice counts as a
part of its GPU (the smallest slice of an H100 is 1/7), and so does a unit of `nvidia.com/gpu` that the labels of nodes
call a MIG slice or a share.

The model of a pod follows from its nodeSelector and required node affinity, or else from the labels of the nodes that
it could be scheduled to, whatever their taints. A pod that could run on several models counts against the limit of
each, and its units as the largest part that they could be. Once the pod is on a node, it counts what this node has. A
node whose labels are missing or contradict each other leaves the model open, and has whole GPUs; so declare pools that
may have no node under `nodePools`.

Parts of GPUs by the annotations of KAI and Run:ai count as well: `gpu-fraction`, or `gpu-memory` as its part of the
smallest GPU that the pod could get, times `gpu-fraction-num-devices`; an update must not change them. HAMi's
`nvidia.com/gpumem` (in MiB), `gpumem-percentage` and `gpucores` count alike. Memory counts as the whole GPU where a
node does not say how much its GPUs have.

A pod with scheduling gates counts from the update that takes its last gate away, which is refused if the pod does not
fit then. A pod that is larger than the quota by itself is refused at once.

Pods that start together count together: the first one of a PodGroup, JobSet, LeaderWorkerSet, RayCluster or Workload of
Kueue is refused where the whole group does not fit. Else room is held for the others, for at most ten minutes after the
last of them came. A PodGroup does not say what its pods are: they count as alike, without the stored ones that have no
GPUs, and within `minResources` if it has them. Create a launcher without GPUs first, or set `groups: pods`.

When a workload is applied, a warning says what is free if a pod, a group or all its pods do not fit, or if a rolling
update (maxSurge), an autoscaler (maxReplicas), runs of a CronJob beside each other or the items of a workflow need
more. That refuses no workload. `gpu-policy review` and `audit` know what scales a workload in the same files.

GPUs by resource claims count as well ([GPUs by DRA](dra.md#quotas)). `_quotas.yaml` declares [quotas that several
namespaces share](#shared-quotas).
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PrivateAttr

from webhook.gpus.gpu_model import SOME_VALUES
from webhook.model.accelerators import BUILT_IN, DEVICE_CLASSES, Accelerators, accelerators_in
from webhook.model.gpu_fractions import DEVICES, FAULT, fraction_faults
from webhook.model.pod import Pod
from webhook.quota.demand import pod_demand
from webhook.quota.objections import objections, uncounted
from webhook.quota.quotas import (
    ClaimsMode,
    Counting,
    DeclaredClass,
    Gated,
    Groups,
    Limit,
    Measure,
    OnLedgerFailure,
    Quota,
    QuotaScope,
    UnspecifiedModel,
    classes_in,
)
from webhook.rules.names import Amount, ExistingResource, GpuResource, KnownModel, LabelKey, ModelName, Weight
from webhook.rules.rule import Advice, Example, Facts, Rule, Violation, training_pod
from webhook.rules.rule_settings import TableSettings
from webhook.yaml_files.camel_model import matching, not_empty

_label_value = matching(
    r"[A-Za-z0-9*?]([A-Za-z0-9*?._-]{0,61}[A-Za-z0-9*?])?",
    "cannot be a label value; write up to 63 letters, digits and inner - _ ., and no wildcards but * and ?",
)
LabelValue = Annotated[str, AfterValidator(_label_value), Field(json_schema_extra={"minLength": 1, "maxLength": 63})]
"""A value of a node label, or a glob of values."""
Labels = Annotated[
    Mapping[LabelKey, Annotated[tuple[LabelValue, ...], *SOME_VALUES]],
    *not_empty("names no label; write at least one label key with its values", "minProperties"),
]


class Settings(TableSettings):
    """Settings of `gpuQuota`."""

    models: Mapping[ModelName, Labels] = Field(default_factory=dict)
    """Which node labels of the platform stand for which GPU model: names, each with label keys and lists of values or
    globs. Built-in models also keep their known labels; any other name becomes a new model."""
    weights: Mapping[GpuResource, Weight] = Field(default_factory=dict)
    """How many GPUs one unit of a resource counts as: `{"nvidia.com/gpu.shared": "1/4"}`. Unset: a MIG slice, an AMD
    partition, and a share by the labels of its node, count as their part of a GPU, all else as 1."""
    gpus: Amount | None = None
    """Most GPUs of all kinds together, whole or as an exact fraction such as "7/2"; 0: GPUs are not enabled. Unset: no
    maximum."""
    by_model: Mapping[KnownModel, Amount] = Field(default_factory=dict)
    """Most GPUs of each model: `{H100: 4, T4: 16}`. A100 stands for the models of 40 GB and of 80 GB together."""
    by_resource: Mapping[ExistingResource, Annotated[int, Field(ge=0, lt=10**9)]] = Field(default_factory=dict)
    """Most units of each GPU resource, whatever part of a GPU they are: `{"nvidia.com/mig-1g.10gb": 14}`."""
    unspecified_model: UnspecifiedModel = UnspecifiedModel.COUNT
    """What happens to a pod that selects no model, if `byModel` is set: it counts against each model that it could get,
    or is refused."""
    claims: ClaimsMode = ClaimsMode.WARN
    """What happens to a pod that may get GPUs which cannot be counted: devices of a class that nobody declared,
    unreadable claims, and resources that open all GPUs of a node, without an entry in `weights`."""
    gated: Gated = Gated.LATER
    """When a pod with scheduling gates begins to count: `later`, when its last gate goes, or `now`, when it is created.
    Claims that Kubernetes makes for it count at once."""
    groups: Groups = Groups.WHOLE
    """Whether pods that start together, such as those of a JobSet, count as a `whole`, or each by itself (`pods`)."""
    on_ledger_failure: OnLedgerFailure = OnLedgerFailure.DENY
    """What happens to a pod while the ledger of usage cannot be reached."""

    _accelerators: Accelerators = PrivateAttr(default_factory=lambda: BUILT_IN)
    _classes: Mapping[str, DeclaredClass] = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._accelerators = accelerators_in(context)
        self._classes = classes_in(context)

    @cached_property
    def limits(self) -> tuple[Limit, ...]:
        overall = () if self.gpus is None else (Limit(Measure.GPUS, "", self.gpus),)
        models = (Limit(Measure.MODEL, name, hard) for name, hard in sorted(self.by_model.items()))
        resources = (Limit(Measure.RESOURCE, name, Fraction(hard)) for name, hard in sorted(self.by_resource.items()))
        return (*overall, *models, *resources)

    @cached_property
    def counting(self) -> Counting:
        catalogue = self.catalogue.extended(self.models)
        weights = {DEVICE_CLASSES + name: one.weight for name, one in self._classes.items() if one.weight is not None}
        models = {
            name: None if one.model is None else tuple(sorted(catalogue.leaves(one.model)))
            for name, one in self._classes.items()
        }
        return Counting(
            catalogue,
            weights | dict(self.weights),
            self.unspecified_model,
            self.claims,
            self._accelerators,
            class_models=models,
            gated=self.gated,
            groups=self.groups,
        )

    @cached_property
    def quota(self) -> Quota:
        return Quota(QuotaScope.NAMESPACE, "", (), self.limits, self.counting)


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation | Advice]:
    """Refuse a pod that exceeds a limit by itself, or that does not say which GPUs it would use."""
    if not settings.limits:
        return
    if faults := list(fraction_faults(pod)) if pod.fractions or DEVICES in pod.annotations else ():
        yield from faults
        return
    for violation in uncounted(pod, settings.quota, facts):
        yield violation if settings.claims is ClaimsMode.DENY else violation.as_advice
    demand = pod_demand(pod, "", settings.quota.counting, facts).all
    if demand is not None:
        yield from objections(demand, settings.quota, pod.namespace)


_SIX = training_pod(name="train-a", resources="{limits: {nvidia.com/gpu: 6}}")
_FOUR_MORE = training_pod(name="train-b", resources="{limits: {nvidia.com/gpu: 4}}")

RULE = Rule(
    key="gpuQuota",
    promise="A namespace uses no more GPUs than its quota.",
    problem="The team that comes first has all GPUs; a ResourceQuota knows neither models nor parts of GPUs, nor "
    "says which pods use them.",
    example=Example(_FOUR_MORE, {"gpus": 8}, beside=_SIX),
    settings=Settings,
    validate=validate,
    faults=frozenset({FAULT}),
    can_validate=lambda settings: bool(settings.limits),
)
