"""When an object runs more pods than usual, and which of its pods are of use only together.

Formulas are those of the controllers: ResolveFenceposts in pkg/controller/deployment/util of Kubernetes, and
pkg/controllers/leaderworkerset_controller.go of kubernetes-sigs/lws (at most every group twice); utils/replicaset of
argoproj/argo-rollouts; setDefaultDeploymentSpec of kserve/kserve; rayservice_controller.go of ray-project/kuberay,
which starts a second cluster; the revisions of Knative, which live side by side for a while. The controller of CronJobs
starts a run beside the last unless told otherwise. Argo starts the pods of all items, up to `parallelism`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from webhook.model.json_parts import entries, listed, mapped, part, text
from webhook.model.pod import KUEUE_QUEUE
from webhook.model.wording import counted, cut, few
from webhook.model.workloads.template import Template, annotated_count, count_of, product, replicas

Pods = Mapping[str, int]
"""Path of a template -> a number of its pods."""


@dataclass(frozen=True, slots=True)
class Peak:
    """When an object runs up to `pods` at once, and the setting that helps, with {} for the number that fits.

    `units` are what the setting counts: pods, or groups of pods. `is_update`: for as long as an update lasts. `needed`:
    the fewest pods with which the update gets on. Without room for each of them it waits for ever.
    """

    why: str
    pods: Pods
    remedy: str
    is_update: bool = False
    needed: Sequence[Pods] = ()
    units: int = 1


@dataclass(frozen=True, slots=True)
class Gang:
    """The pods that are of use only together. An object has `number` such groups; `name` is for messages."""

    name: str
    pods: Pods
    number: int = 1


@dataclass(frozen=True, slots=True)
class Scaler:
    """An object that scales another one, its kind and name in `target`, to `most` replicas. `called` is for messages.

    `group` is the API group of the other; None where that is not said. `from_none`: it scales an object without pods.
    """

    target: tuple[str, str]
    most: int
    setting: str
    called: str
    group: str | None = None
    from_none: bool = False


def scaler_of(raw: Mapping[str, Any]) -> Scaler | None:
    """A HorizontalPodAutoscaler or ScaledObject; None for other objects, and where it does not say how many."""
    kind, group = text(raw, "kind"), text(raw, "apiVersion").rpartition("/")[0]
    if (group, kind) not in SCALERS:
        return None
    key, means, usual = SCALERS[group, kind]
    reference, most = mapped(raw, "spec", "scaleTargetRef"), count_of(part(raw, "spec", key), usual)
    target = text(reference, "kind") or "Deployment", text(reference, "name")
    called = f"{kind} {cut(text(raw, 'metadata', 'name'))}{means}"
    version = text(reference, "apiVersion")
    scaled = version.rpartition("/")[0] if version else None
    return None if most is None else Scaler(target, most, key, called, scaled, from_none=group == "keda.sh")


SCALERS: Mapping[tuple[str, str], tuple[str, str, int | None]] = {
    ("autoscaling", "HorizontalPodAutoscaler"): ("maxReplicas", "", None),
    ("keda.sh", "ScaledObject"): ("maxReplicaCount", " (the maxReplicas of its HPA)", 100),
}
"""Group and kind -> the field with the most replicas, what it means, and what holds without it."""


def peaks_of(raw: Mapping[str, Any], templates: Sequence[Template], scalers: Iterable[Scaler] = ()) -> Iterator[Peak]:
    """When an object runs more pods than it says, as far as it says that at all."""
    group, kind = text(raw, "apiVersion").rpartition("/")[0], text(raw, "kind")
    usual = {one.path: one.pods for one in templates if one.pods}
    yield from _updates(group, kind, raw, usual)
    for one in scalers:
        if one.target == (kind, text(raw, "metadata", "name")) and one.group in (None, group):
            why = f"{one.setting} of {one.called} is {one.most}"
            most = _scaled(raw, usual, templates, one)
            yield Peak(why, most, f"Set {one.setting} to {{}} or less", units=one.most)
    own = ((one, *found) for one in templates for found in _own_maximum(group, kind, raw, one))
    maxima = [(one, name, units, each) for one, name, units, each in own if units]
    if len(maxima) == 1:
        (template, name, units, each), *_ = maxima
        yield Peak(f"{name} is {units}", {template.path: units * each}, f"Set {name} to {{}} or less", units=units)
    elif maxima:
        why = f"{maxima[0][1]} is {few([f'{units} of {template.group}' for template, _, units, _ in maxima])}"
        yield Peak(why, {one.path: units * each for one, _, units, each in maxima}, "Set them lower")
    if (group, kind) in _REPEATED and part(raw, "spec", "concurrencyPolicy") in (None, "", "Allow") and _may_last(raw):
        twice = {path: 2 * pods for path, pods in usual.items()}
        remedy = "Set concurrencyPolicy: Forbid, or Replace"
        yield Peak("a run may start beside the last (concurrencyPolicy Allow)", twice, remedy)
    if (group, kind) in _WORKFLOWS:
        yield from _fan_outs(mapped(raw, *_WORKFLOWS[group, kind].split(".")), templates)


def _scaled(raw: Mapping[str, Any], usual: Pods, templates: Sequence[Template], scaler: Scaler) -> Pods:
    """The pods at the most replicas; none where it is not known how many pods a replica has."""
    times, has_groups = replicas(mapped(raw, "spec")), raw.get("kind") == "LeaderWorkerSet"
    if times and (len(usual) == 1 or has_groups):
        return {path: pods // times * scaler.most for path, pods in usual.items()}
    is_from_none = times == 0 and scaler.from_none and len(templates) == 1 and not has_groups
    return {templates[0].path: scaler.most} if is_from_none else {}


# Updates

_SURGE = "Set strategy Recreate, or maxSurge: 0"
_Row = tuple[str, str, object, object, str]
_ROLLING: Mapping[tuple[str, str], _Row] = {
    ("apps", "Deployment"): ("spec.strategy", "rollingUpdate", "25%", "25%", _SURGE),
    ("argoproj.io", "Rollout"): ("spec.strategy", "canary", "25%", "25%", "Set maxSurge: 0"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (
        *("spec.rolloutStrategy", "rollingUpdateConfiguration", 0, 1),
        "Set maxSurge: 0",
    ),
    ("serving.kserve.io", "InferenceService"): (
        *("*.deploymentStrategy", "rollingUpdate", "25%", "25%"),
        "Set its deploymentStrategy to Recreate, or maxSurge: 0, unless it runs on Knative",
    ),
    ("serving.kserve.io", "LLMInferenceService"): (
        *("*", "rolloutStrategy", "25%", "25%"),
        "Set maxSurge: 0 in rolloutStrategy",
    ),
}
"""Group and kind -> place of the strategy, with * for the place of the pods, field in it, maxSurge and maxUnavailable
where they are missing, remedy."""


def _updates(group: str, kind: str, raw: Mapping[str, Any], usual: Pods) -> Iterator[Peak]:
    if not usual:
        return
    spec = mapped(raw, "spec")
    why, remedy, percent = "", "", 100
    if kind == "Rollout" and "blueGreen" in mapped(spec, "strategy"):
        why, remedy = "starts all pods a second time (blueGreen)", "Use strategy canary with maxSurge: 0"
    elif kind == "Rollout" and mapped(spec, "strategy", "canary", "trafficRouting"):  # maxSurge does not count
        if part(spec, "strategy", "canary", "dynamicStableScale") is True:
            return
        why = "keeps the stable pods until all others run (trafficRouting, whatever maxSurge says)"
        remedy = "Set dynamicStableScale: true, and small steps"
    elif (group, kind) == ("ray.io", "RayService"):
        how = text(spec, "upgradeStrategy", "type") or "NewCluster"
        options = mapped(spec, "upgradeStrategy", "clusterUpgradeOptions")
        most = count_of(options.get("maxSurgePercent"), 100) if how.endswith("IncrementalUpgrade") else 100
        if how == "None" or not most:
            return
        why = f"starts a second cluster (upgradeStrategy {cut(how)})"
        if most < 100:
            why, percent = f"starts {most} % of the pods more (maxSurgePercent)", most
        remedy = "Set upgradeStrategy.type: None, or NewClusterWithIncrementalUpgrade with a small maxSurgePercent"
    elif (group, kind) == ("serving.knative.dev", "Service") or _runs_on_knative(raw):
        why, remedy = "starts a revision beside the last (Knative has no maxSurge)", "Leave room for both"
    if why:
        most_pods = {path: pods + -(-pods * percent // 100) for path, pods in usual.items()}
        yield Peak(f"a rolling update {why}", most_pods, remedy, is_update=True, needed=[most_pods])
    elif (group, kind) in _ROLLING and not any(path.endswith(".worker") for path in usual):
        yield from _rolling(raw, usual, _ROLLING[group, kind])


def _runs_on_knative(raw: Mapping[str, Any]) -> bool:
    mode = part(raw, "metadata", "annotations", "serving.kserve.io/deploymentMode")
    return raw.get("kind") == "InferenceService" and mode in ("Serverless", "Knative")


def _rolling(raw: Mapping[str, Any], usual: Pods, row: _Row) -> Iterator[Peak]:
    place, field, usual_surge, usual_unavailable, remedy = row
    groups = replicas(mapped(raw, "spec")) if raw.get("kind") == "LeaderWorkerSet" else None
    most, said = dict(usual), usual_surge
    needed: list[Pods] = []
    for path, pods in usual.items():
        strategy = mapped(raw, *place.replace("*", path.removesuffix(".template")).split("."))
        if text(strategy, "type") in ("Recreate", "OnDelete"):
            continue
        own, times = mapped(strategy, field), groups or pods
        surge, unavailable = own.get("maxSurge", usual_surge), own.get("maxUnavailable", usual_unavailable)
        more, fewer = _share(surge, times, is_rounded_up=True), _share(unavailable, times, is_rounded_up=False)
        if more is None or fewer is None or not (more and (surge != usual_surge or not fewer)):
            continue  # else old pods make room, and nobody asked for more
        said, each = surge, pods // times
        most[path] += each * min(more, times)
        needed += [] if fewer else [{**usual, path: pods + each}]
        if unavailable in (0, "0%") and not remedy.endswith("1"):
            remedy += ", with maxUnavailable: 1"
    if groups and needed:  # a leader and its workers are of use only together
        needed = [{path: pods + pods // groups for path, pods in usual.items()}]
    if most != usual:
        added = counted(sum(most.values()) - sum(usual.values()), "pod")
        why = f"a rolling update starts {added} more (maxSurge {said})"
        yield Peak(why, most, remedy, is_update=True, needed=needed)


def _share(value: object, of: int, *, is_rounded_up: bool) -> int | None:
    """A number, or a percentage of one, as GetScaledValueFromIntOrPercent has it; None where it is neither.

    >>> _share("25%", 3, is_rounded_up=True), _share("25%", 3, is_rounded_up=False), _share(2, 3, is_rounded_up=True)
    (1, 0, 2)
    """
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdecimal() and len(value) < 6:
        return (of * int(value[:-1]) + (99 if is_rounded_up else 0)) // 100
    return count_of(value, None)


# Autoscalers, schedules, workflows

_MAX_SCALE = ("autoscaling.knative.dev/max-scale", "autoscaling.knative.dev/maxScale")


def _own_maximum(
    group: str, kind: str, raw: Mapping[str, Any], template: Template
) -> Iterator[tuple[str, int | None, int]]:
    """The setting by which an object scales the pods of a template, its value, and the pods of each one that it counts.

    KServe makes no autoscaler for the classes none and external (hpa_reconciler.go), but Knative scales in any case.
    """
    spec, name = mapped(raw, "spec"), template.group
    if kind == "InferenceService" and not name.endswith("workers"):
        scaled = part(raw, "metadata", "annotations", "serving.kserve.io/autoscalerClass")
        if scaled not in ("none", "external") or _runs_on_knative(raw):
            yield "maxReplicas", count_of(part(spec, name, "maxReplicas"), None), 1
    elif kind == "LLMInferenceService" and not name and not part(spec, "worker"):
        yield "scaling.maxReplicas", count_of(part(spec, "scaling", "maxReplicas"), None), 1
    elif (group, kind) == ("serving.knative.dev", "Service"):
        annotations = mapped(spec, "template", "metadata", "annotations")
        yield "max-scale (maxReplicas)", annotated_count(annotations, _MAX_SCALE), 1
    cluster = _ray_cluster(raw)
    if mapped(cluster) and part(cluster, "enableInTreeAutoscaling") is True:
        workers = {one: most for _, one, most in entries(cluster, "workerGroupSpecs", named_by="groupName")}.get(name)
        hosts = count_of(part(workers, "numOfHosts"), 1) or 1
        yield "maxReplicas", count_of(part(workers, "maxReplicas"), None), hosts


_CLUSTERS = {"RayCluster": (), "RayService": ("rayClusterConfig",), "RayJob": ("rayClusterSpec",)}


def _ray_cluster(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = text(raw, "kind")
    of_ray = text(raw, "apiVersion").startswith("ray.io/") and kind in _CLUSTERS
    return mapped(raw, "spec", *_CLUSTERS[kind]) if of_ray else {}


_REPEATED = frozenset({("batch", "CronJob"), ("batch.volcano.sh", "CronJob")})
"""Kinds with a schedule whose runs may overlap."""


def _may_last(raw: Mapping[str, Any]) -> bool:
    """Whether a run may last until the next one: it has no deadline that ends it before, daily or hourly as it is."""
    job = mapped(raw, "spec", "jobTemplate", "spec")
    minute, hour, *_ = [*text(raw, "spec", "schedule").split(), "", ""]
    deadlines = [part(job, "activeDeadlineSeconds"), part(job, "template", "spec", "activeDeadlineSeconds")]
    between = (82_800 if hour.isdecimal() else 3_600) if minute.isdecimal() else 60
    return not any(isinstance(one, int) and one < between for one in deadlines)


_WORKFLOWS = {
    ("argoproj.io", "Workflow"): "spec",
    ("argoproj.io", "WorkflowTemplate"): "spec",
    ("argoproj.io", "CronWorkflow"): "spec.workflowSpec",
}


def _fan_outs(spec: Mapping[str, Any], templates: Sequence[Template]) -> Iterator[Peak]:
    """The templates of which a step or task starts a pod for each of its items."""
    paths, bound = {one.group: one.path for one in templates}, count_of(spec.get("parallelism"), None)
    locked = {name for _, name, one in entries(spec, "templates") if mapped(one, "synchronization")}
    for _, above, template in entries(spec, "templates"):
        tasks = [*listed(template, "dag", "tasks")]
        for steps in listed(template, "steps"):
            tasks += steps if isinstance(steps, list) else []
        bounds = [one for one in (bound, count_of(template.get("parallelism"), None)) if one]
        for task in tasks:
            items = len(listed(task, "withItems")) or _length(mapped(task, "withSequence"))
            is_open = part(task, "withParam") is not None or part(task, "withSequence") is not None
            named = text(task, "template")
            path = paths.get(named or f"{above}/{text(task, 'name')}")
            if path is None or named in locked or not (items or (is_open and bounds)):
                continue
            most = min([*([items] if items else []), *bounds])
            why = f"parallelism {most} lets it run items" if bounds and most == min(bounds) else "all items run"
            yield Peak(f"{why} at once", {path: most}, "Set parallelism to {} or less", units=most)


def _length(sequence: Mapping[str, Any]) -> int | None:
    said = (str(sequence.get(key, usual)) for key, usual in (("count", ""), ("start", 0), ("end", "")))
    count, start, end = (int(one) if one.isdecimal() and len(one) < 10 else None for one in said)
    return count if count is not None or start is None or end is None else abs(end - start) + 1


# Groups


def group_of(raw: Mapping[str, Any], templates: Sequence[Template]) -> Gang | None:
    """The pods that are of use only together, where these are not simply all pods; None where nothing is known."""
    usual = {one.path: one.pods for one in templates if one.pods}
    spec, kind = mapped(raw, "spec"), text(raw, "kind")
    if kind == "LeaderWorkerSet" and (number := replicas(spec)) and sum(usual.values()) > number:
        return Gang("one group", {path: pods // number for path, pods in usual.items()}, number)
    if text(raw, "apiVersion").startswith("batch.volcano.sh/") and kind == "Job":
        total, least = sum(usual.values()), count_of(spec.get("minAvailable"), None)
        if not least or least >= total:
            return Gang("the job", usual)
        return Gang("minAvailable", dict.fromkeys(usual, least)) if len(usual) == 1 else None
    if cluster := _ray_cluster(raw):
        found = {one.path: one.pods for one in templates if one.pods and one.group == "head"}
        least_of = {name: one for _, name, one in entries(cluster, "workerGroupSpecs", named_by="groupName")}
        for one in templates:
            if one.pods and (workers := least_of.get(one.group)) is not None:
                least = product(count_of(workers.get("minReplicas"), 0), count_of(workers.get("numOfHosts"), 1))
                found[one.path] = min(least or 0, one.pods)
        return Gang("its minimum", found)
    return None


# What starts at once


def stages_of(raw: Mapping[str, Any]) -> Sequence[Set[str]]:
    """The names of the jobs of a JobSet that may run at once: some begin when others have completed."""
    numbers: dict[str, int] = {}
    for _, name, job in entries(raw, "spec", "replicatedJobs"):
        after = [(text(one, "name"), text(one, "status")) for one in listed(job, "dependsOn")]
        numbers[name] = max((numbers.get(one, 0) + (status == "Complete") for one, status in after), default=0)
    return [{name for name, own in numbers.items() if own == each} for each in set(numbers.values())]


_LATER = frozenset(
    {
        *("CronJob", "CronWorkflow", "RayCronJob", "ScheduledSparkApplication"),
        *("ClusterWorkflowTemplate", "JobTemplate", "PodTemplate", "WorkflowTemplate"),
        *("ClusterServingRuntime", "ClusterTrainingRuntime", "LLMInferenceServiceConfig"),
        *("ServingRuntime", "TrainingRuntime"),
    }
)
"""Kinds whose pods do not start when the object is applied."""


def starts_now(raw: Mapping[str, Any]) -> bool:
    """Whether the pods of an object start when it is applied: it has no schedule, and is not kept back."""
    spec = mapped(raw, "spec")
    is_kept = True in (spec.get("suspend"), part(spec, "runPolicy", "suspend")) or bool(
        part(raw, "metadata", "labels", KUEUE_QUEUE)
    )
    return text(raw, "kind") not in _LATER and not is_kept
