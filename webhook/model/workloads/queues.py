"""Objects that wait in a queue: the queue decides later where their pods run, so no finding depends on nodes.

Kueue suspends objects with its label. When it starts an object, it sets `suspend: false` and adds the nodeLabels and
tolerations of the ResourceFlavor that it chose (pkg/podset/podset.go in kubernetes-sigs/kueue), and all is known.
Deployments and the like are not suspended; Kueue gates their pods instead. Queues of KAI and of
Volcano choose among nodes for pods that exist (label `kai.scheduler/queue` in kai-scheduler/KAI-Scheduler, its
annotation in ai-dynamo/dynamo; `scheduling.volcano.sh/queue-name` and `queue` in volcano-sh/volcano, in runPolicy of
kubeflow/training-operator and in batchSchedulerOptions of kubeflow/spark-operator). Pods with Volcano's schedulerName
that name no queue are in its queue `default`, and so are its own Jobs, which get that schedulerName. YuniKorn has every
pod with its schedulerName in a queue, by default in `root.sandbox` (pkg/common/constants in apache/yunikorn-k8shim).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from webhook.model.pod import KUEUE_QUEUE
from webhook.model.workloads.parts import mapped, part
from webhook.model.workloads.template import Template

_QUEUES = (
    "kai.scheduler/queue",
    "nvidia.com/kai-scheduler-queue",
    "runai/queue",
    "scheduling.volcano.sh/queue-name",
    "volcano.sh/queue-name",
    "yunikorn.apache.org/queue",
)
"""Labels and annotations of an object or its pods that name a queue."""
_FIELDS = (("runPolicy", "schedulingPolicy", "queue"), ("batchSchedulerOptions", "queue"))
"""Fields of a spec that name a queue."""
_VOLCANOS_SCHEDULER = "volcano"
_SCHEDULERS = (_VOLCANOS_SCHEDULER, "yunikorn")
"""Schedulers that have each of their pods in a queue."""
_SUSPENDED = (("suspend",), ("runPolicy", "suspend"))
_VOLCANO = ("batch.volcano.sh/", "flow.volcano.sh/")
_REPEATED = {"CronJob": "jobTemplate", "RayCronJob": "jobTemplate", "ScheduledSparkApplication": "template"}
"""Kind with a schedule -> field that it repeats. Its own `suspend` stops the schedule, not a queue."""
_FLOWS = frozenset({"Workflow", "CronWorkflow"})
"""Kinds that people suspend and resume themselves."""


def waiting(raw: Mapping[str, Any], templates: Iterable[Template]) -> Iterator[Template]:
    """The templates of an object, marked where a queue decides later where their pods run."""
    kind = str(raw.get("kind"))
    made, spec = _made(raw, kind)
    suspended = [] if kind in _FLOWS else [part(spec, *path) for path in _SUSPENDED]
    queues = _QUEUES if False in suspended else (*_QUEUES, KUEUE_QUEUE)
    waits = (
        True in suspended
        or (str(raw.get("apiVersion")).startswith(_VOLCANO) and _is_for_volcano(spec))
        or any(part(spec, *path) for path in _FIELDS)
        or any(_names(mapped(one, "metadata"), queues) for one in (raw, made))
    )
    for template in templates:
        is_queued = waits or _names(mapped(template.pod, "metadata"), queues)
        is_queued = is_queued or part(template.pod, "spec", "schedulerName") in _SCHEDULERS
        yield replace(template, is_queued=True) if is_queued else template


def _is_for_volcano(spec: Mapping[str, Any]) -> bool:
    """Whether a Job of Volcano is queued. It is, unless it names another scheduler and no queue."""
    return bool(part(spec, "queue")) or part(spec, "schedulerName") in (None, "", _VOLCANOS_SCHEDULER)


def _made(raw: Mapping[str, Any], kind: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The object that is suspended or queued (the object itself, or the one that it repeats), and its spec."""
    if kind not in _REPEATED:
        return raw, mapped(raw, "spec")
    made = mapped(raw, "spec", _REPEATED[kind])
    return made, mapped(made, "spec") or made


def _names(metadata: Mapping[str, Any], queues: Sequence[str]) -> bool:
    """Whether a label or an annotation names a queue."""
    return any(part(metadata, key, queue) for key in ("labels", "annotations") for queue in queues)
