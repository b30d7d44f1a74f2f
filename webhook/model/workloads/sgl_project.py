"""The kinds of the project sgl-project: OME (inference services and their runtimes) and RBG (groups of pods by role).

OME: fields and defaults are those of pkg/apis/ome/v1beta1 in sgl-project/ome. Pods are composed as in
pkg/controller/v1beta1/inferenceservice: the runner is the container of its name; a leader and workers replace the pods
of a component, in a LeaderWorkerSet. If a service leaves resources to a runtime or to an accelerator class, nothing is
known about its pods.

RBG: fields and defaults are those of api/workloads (v1alpha1, v1alpha2) in sgl-project/rbg. Templates are written once,
and roles may patch them; nothing is known about the pods of a patched template.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.model.json_parts import entries, listed, mapped, named, part
from webhook.model.workloads.controllers import IN_A_GROUP
from webhook.model.workloads.placeholders import settled_template
from webhook.model.workloads.template import (
    Template,
    count_of,
    from_spec,
    from_template,
    merged,
    product,
    replicas,
    with_shared_memory,
    with_the_rest,
)

_MAIN = "ome-container"
_RDMA, _RDMA_CONTAINER, _RDMA_VOLUME = "rdma.ome.io/auto-inject", "rdma.ome.io/container-name", "dshm"
"""The annotations by which OME mounts /dev/shm in one container (pkg/webhook/admission/pod/rdma_injector.go)."""
_LEFT_TO_THE_RUNTIME = frozenset({"spec.tolerations", "spec.priorityClassName", "spec.activeDeadlineSeconds"})


def inference_service(raw: Mapping[str, Any]) -> Iterator[Template]:
    """InferenceService."""
    predictor = mapped(raw, "spec", "predictor")
    yield from from_spec(predictor, "spec.predictor", group="predictor", pods=_least(predictor), annotated=predictor)
    for name in ("engine", "decoder", "router"):
        for template in _component(mapped(raw, "spec", name), f"spec.{name}", name, is_completed=True):
            yield replace(template, unknown=template.unknown | _LEFT_TO_THE_RUNTIME)


def serving_runtime(raw: Mapping[str, Any]) -> Iterator[Template]:
    """ServingRuntime and ClusterServingRuntime, which make no pods by themselves."""
    spec = mapped(raw, "spec")
    templates = [
        *from_spec(spec, "spec", annotated=spec),
        *from_spec(spec.get("workers"), "spec.workers", group="workers", annotated=mapped(spec, "workers")),
    ]
    for name in ("engine", "decoder", "router"):
        templates += _component(mapped(spec, f"{name}Config"), f"spec.{name}Config", name, is_completed=False)
    for template in templates:
        yield from settled_template(replace(template, pods=None))


def _component(spec: Mapping[str, Any], where: str, name: str, *, is_completed: bool) -> Iterator[Template]:
    pods, leader, worker = _least(spec), mapped(spec, "leader"), mapped(spec, "worker")
    if not leader and not worker:
        yield from _pods(spec, spec, where, name, pods, is_completed=is_completed)
        return
    at = f"{where}.leader" if leader else where
    size = count_of(worker.get("size"), 0)
    for template in (
        *_pods(leader or spec, spec, at, f"{name} leader", pods, is_completed=is_completed),
        *_pods(worker, spec, f"{where}.worker", f"{name} worker", product(pods, size), is_completed=is_completed),
    ):
        yield template if size == 0 else replace(template, labels=IN_A_GROUP)


def _least(spec: Mapping[str, Any]) -> int | None:
    """The pods, or groups of pods, that always run: at least one."""
    least = count_of(spec.get("minReplicas"), 1)
    return least if least is None else max(least, 1)


def _pods(  # noqa: PLR0913  # all that differs
    spec: Mapping[str, Any],
    component: Mapping[str, Any],
    where: str,
    group: str,
    pods: int | None,
    *,
    is_completed: bool,
) -> Iterator[Template]:
    containers, runner = list(listed(spec, "containers")), mapped(spec, "runner")
    elsewhere = {"metadata": where}
    if runner:
        if not mapped(runner, "resources"):
            return
        name = named(runner)
        same = [at for at, one in enumerate(containers) if name and part(one, "name") == name]
        at = same[0] if same else len(containers)
        whole = merged(mapped(containers[at]), runner) if same else dict(runner)
        if is_completed:
            whole["resources"] = with_the_rest(mapped(whole, "resources"))
        containers[at : at + 1] = [whole]
        elsewhere[f"spec.containers[{name or at}]"] = f"{where}.runner"
    if containers:
        pod = {
            "metadata": {"annotations": component.get("annotations"), "labels": component.get("labels")},
            "spec": {**spec, "containers": containers},
        }
        template = Template(pod, where, group, pods, elsewhere=elsewhere)
        said = mapped(component, "annotations")
        if said.get(_RDMA) == "true":
            template = with_shared_memory(template, said.get(_RDMA_CONTAINER) or _MAIN, _RDMA_VOLUME)
        yield template


def role_based_group(raw: Mapping[str, Any]) -> Iterator[Template]:
    """RoleBasedGroup."""
    yield from _roles(mapped(raw, "spec"), "spec", 1)


def role_based_group_set(raw: Mapping[str, Any]) -> Iterator[Template]:
    """RoleBasedGroupSet: `template` in v1alpha1, `groupTemplate` in v1alpha2."""
    groups = replicas(mapped(raw, "spec"))
    yield from _roles(mapped(raw, "spec", "template"), "spec.template", groups)
    yield from _roles(mapped(raw, "spec", "groupTemplate", "spec"), "spec.groupTemplate.spec", groups)


def _roles(spec: Mapping[str, Any], where: str, groups: int | None) -> Iterator[Template]:
    shared = {name: (one.get("template"), f"{where}.{at}.template") for at, name, one in entries(spec, "roleTemplates")}
    for inside, name, role in entries(spec, "roles"):
        yield from _role(role, f"{where}.{inside}", name, product(groups, replicas(role)), shared)


def _role(
    role: Mapping[str, Any], where: str, name: str, pods: int | None, shared: Mapping[str, tuple[object, str]]
) -> Iterator[Template]:
    for path in (("customComponentsPattern", "components"), ("components",)):
        for inside, component, one in entries(role, *path):
            size, group_name = product(pods, count_of(one.get("size"), 1)), f"{name} {component}".strip()
            yield from from_template(one.get("template"), f"{where}.{inside}.template", group=group_name, pods=size)
    alone, group = mapped(role, "standalonePattern"), mapped(role, "leaderWorkerPattern")
    own, place = role, where  # v1alpha1
    if alone or group:
        own, place = (alone, f"{where}.standalonePattern") if alone else (group, f"{where}.leaderWorkerPattern")
    else:
        group = mapped(role, "leaderWorkerSet")
    template, at = _source(own, place, shared)
    if mapped(own, "templatePatch"):
        return
    if alone or not group:
        yield from from_template(template, at, group=name, pods=pods)
        return
    size = count_of(group.get("size"), 1)  # the leader included
    workers = product(pods, None if size is None else max(size - 1, 0))
    for who, number in (("leader", pods), ("worker", workers)):
        is_patched = any(mapped(group, key) for key in (f"{who}TemplatePatch", f"patch{who.capitalize()}Template"))
        if number != 0 and not is_patched:
            yield from from_template(template, at, group=f"{name} {who}", pods=number)


def _source(raw: Mapping[str, Any], where: str, shared: Mapping[str, tuple[object, str]]) -> tuple[object, str]:
    """The template in a part, or the one to which it refers, and its place; None where it is patched or missing."""
    if mapped(raw, "template"):
        return raw["template"], f"{where}.template"
    reference = mapped(raw, "templateRef")
    return (None, "") if mapped(reference, "patch") else shared.get(named(reference), (None, ""))
