"""The kinds of the project sgl-project: OME (inference services and their runtimes) and RBG (groups of pods by role).

OME: fields and defaults are those of pkg/apis/ome/v1beta1 in sgl-project/ome. Pods are composed as in
pkg/controller/v1beta1/inferenceservice: the runner is the container of its name; a leader and workers replace the pods
of a component, in a LeaderWorkerSet. If a service leaves resources to a runtime or to an accelerator class, nothing is
known about its pods.

RBG: templates are written once and patched by role. Fields and defaults are those of api/workloads (v1alpha1, v1alpha2)
in sgl-project/rbg; patches are strategic merge patches (applyStrategicMergePatch in api/workloads/v1alpha2/helper.go).
Nothing is known about pods whose patch has directives.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from webhook.model.json_parts import entries, listed, mapped, named, part
from webhook.model.workloads.controllers import IN_A_GROUP
from webhook.model.workloads.merging import is_worth, merged, patched
from webhook.model.workloads.placeholders import settled_template
from webhook.model.workloads.template import Template, count_of, from_spec, product, with_shared_memory, with_the_rest

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


_LISTS = ("containers", "initContainers")


@dataclass(frozen=True, slots=True)
class _Pods:
    """A pod template, its place, and the places of parts that come from patches."""

    template: Mapping[str, Any]
    where: str
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def with_patch(self, patch: Mapping[str, Any], where: str) -> "_Pods | None":
        """The pods with a patch applied; None for a patch with directives."""
        if not patch:
            return self
        if _has_directives(patch):
            return None
        return _Pods(patched(self.template, patch), self.where, {**self.elsewhere, **self._moved(patch, where)})

    def _moved(self, patch: Mapping[str, Any], where: str) -> dict[str, str]:
        """Place in the pod -> place of its value in the patch at `where`."""
        moved: dict[str, str] = {}
        for key, value in mapped(patch, "spec").items():
            place = f"spec.{key}"
            if key not in _LISTS:
                moved[place] = f"{where}.{place}"
                continue
            own = {named(one) for one in listed(self.template, "spec", key)}
            for index, container in enumerate(value if isinstance(value, list) else ()):
                name = named(container)
                inside, there = f"{place}[{name}]", f"{where}.{place}[{name or index}]"
                if name and name in own:
                    moved.update({f"{inside}.{key_}": f"{there}.{key_}" for key_ in container if key_ != "name"})
                elif name:
                    moved[inside] = there
        return moved

    def templates(self, group: str, pods: int | None) -> Iterator[Template]:
        """The pods as a template; none where they have no spec."""
        if mapped(self.template, "spec"):
            yield Template(self.template, f"{self.where}.spec", group, pods, elsewhere=self.elsewhere)


def role_based_group(raw: Mapping[str, Any]) -> Iterator[Template]:
    """RoleBasedGroup."""
    yield from _roles(mapped(raw, "spec"), "spec", 1)


def role_based_group_set(raw: Mapping[str, Any]) -> Iterator[Template]:
    """RoleBasedGroupSet: `template` in v1alpha1, `groupTemplate` in v1alpha2."""
    groups = count_of(part(raw, "spec", "replicas"), 1)
    yield from _roles(mapped(raw, "spec", "template"), "spec.template", groups)
    yield from _roles(mapped(raw, "spec", "groupTemplate", "spec"), "spec.groupTemplate.spec", groups)


def _roles(spec: Mapping[str, Any], where: str, groups: int | None) -> Iterator[Template]:
    shared = {
        name: _Pods(mapped(one, "template"), f"{where}.{inside}.template")
        for inside, name, one in entries(spec, "roleTemplates")
        if name
    }
    roles = list(entries(spec, "roles"))
    if not is_worth([one.template for one in shared.values()], 2 * len(roles)):
        return
    for inside, name, role in roles:
        pods = product(groups, count_of(role.get("replicas"), 1))
        yield from _role(role, f"{where}.{inside}", name, pods, shared)


def _role(
    role: Mapping[str, Any], where: str, name: str, pods: int | None, shared: Mapping[str, _Pods]
) -> Iterator[Template]:
    for path in (("customComponentsPattern", "components"), ("components",)):
        for inside, component, one in entries(role, *path):
            size = product(pods, count_of(one.get("size"), 1))
            own = _Pods(mapped(one, "template"), f"{where}.{inside}.template")
            yield from own.templates(f"{name} {component}".strip(), size)
    if mapped(role, "standalonePattern"):
        made = _source(mapped(role, "standalonePattern"), f"{where}.standalonePattern", shared)
        yield from made.templates(name, pods) if made else ()
    elif mapped(role, "leaderWorkerPattern"):
        pattern, place = mapped(role, "leaderWorkerPattern"), f"{where}.leaderWorkerPattern"
        made = _source(pattern, place, shared)
        yield from _group(made, pattern, place, name, pods, ("leaderTemplatePatch", "workerTemplatePatch"))
    else:  # v1alpha1
        made = _source(role, where, shared)
        made = made and made.with_patch(mapped(role, "templatePatch"), f"{where}.templatePatch")
        group = mapped(role, "leaderWorkerSet")
        if group:
            patches = ("patchLeaderTemplate", "patchWorkerTemplate")
            yield from _group(made, group, f"{where}.leaderWorkerSet", name, pods, patches)
        elif made:
            yield from made.templates(name, pods)


def _source(raw: Mapping[str, Any], where: str, shared: Mapping[str, _Pods]) -> _Pods | None:
    if mapped(raw, "template"):
        return _Pods(raw["template"], f"{where}.template")
    reference = mapped(raw, "templateRef")
    found = shared.get(named(reference))
    return found and found.with_patch(mapped(reference, "patch"), f"{where}.templateRef.patch")


def _group(  # noqa: PLR0913, PLR0917  # all that makes a group
    made: _Pods | None,
    pattern: Mapping[str, Any],
    where: str,
    name: str,
    groups: int | None,
    patches: tuple[str, str],
) -> Iterator[Template]:
    """A leader and its workers. `size` includes the leader."""
    size = count_of(pattern.get("size"), 1)
    workers = product(groups, None if size is None else max(size - 1, 0))
    for who, pods, patch in zip(("leader", "worker"), (groups, workers), patches, strict=True):
        one = made and made.with_patch(mapped(pattern, patch), f"{where}.{patch}")
        if one and pods != 0:
            yield from one.templates(f"{name} {who}", pods)


def _has_directives(patch: Mapping[str, Any]) -> bool:
    rest: list[object] = [patch]
    while rest:
        one = rest.pop()
        if isinstance(one, dict):
            if any(str(key).startswith("$") for key in one):
                return True
            rest.extend(one.values())
        elif isinstance(one, list):
            rest.extend(one)
    return False
