"""The kinds of Argo: workflows, their templates and schedules, rollouts and experiments.

Fields are those of pkg/apis/workflow/v1alpha1 in argoproj/argo-workflows and of pkg/apis/rollouts/v1alpha1 in
argoproj/argo-rollouts; pods are composed as in workflow/controller/workflowpod.go. A workflow does not say how many
pods of a template run at a time. A patch of the pods (podSpecPatch) may request anything, so nothing is known about
patched pods.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.model.json_parts import entries, listed, mapped, part
from webhook.model.workloads.placeholders import settled_template
from webhook.model.workloads.template import Template, is_worth, merged, mounted

_MAIN = "main"
"""Argo's name for the container of a template, whatever the template says."""
_SINGLE = ("container", "script")
_PLACEMENT = {
    "nodeSelector": "nodeSelector",
    "affinity": "affinity",
    "tolerations": "tolerations",
    "priorityClassName": "podPriorityClassName",
}
"""Field of a template -> field of the workflow that holds the default for all templates."""
_PATCH = "podSpecPatch"


def workflow(raw: Mapping[str, Any]) -> Iterator[Template]:
    """Workflow, WorkflowTemplate and ClusterWorkflowTemplate."""
    yield from _templates(mapped(raw, "spec"), "spec")


def cron_workflow(raw: Mapping[str, Any]) -> Iterator[Template]:
    """CronWorkflow."""
    yield from _templates(mapped(raw, "spec", "workflowSpec"), "spec.workflowSpec")


def _templates(spec: Mapping[str, Any], where: str) -> Iterator[Template]:
    if spec.get(_PATCH):
        return
    shared = {key: spec[name] for key, name in _PLACEMENT.items() if spec.get(name)}
    defaults, annotations = mapped(spec, "templateDefaults"), mapped(spec, "podMetadata", "annotations")
    templates = list(_all_templates(spec, where))
    if not is_worth((shared, defaults, annotations), len(templates)):
        return
    volumes = {name: volume for _, name, volume in entries(spec, "volumes") if name}
    for place, name, own in templates:
        template = merged(_fitting(defaults, own), own)
        if template.get(_PATCH):
            continue
        pod, elsewhere = _pod(template, place, shared, volumes)
        if pod["containers"]:
            elsewhere |= {f"spec.{key}": f"{where}.{_PLACEMENT[key]}" for key in shared if not template.get(key)}
            elsewhere |= _defaulted(defaults, own, f"{where}.templateDefaults")
            all_annotations = {**annotations, **mapped(template, "metadata", "annotations")}
            found = {"metadata": {"annotations": all_annotations}, "spec": pod}
            yield from settled_template(Template(found, place, name, elsewhere=elsewhere))


def _all_templates(spec: Mapping[str, Any], where: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for place, name, template in entries(spec, "templates"):
        yield f"{where}.{place}", name, template
        for inside, task, step in entries(template, "dag", "tasks"):
            if mapped(step, "inline"):
                yield f"{where}.{place}.{inside}.inline", f"{name}/{task}", step["inline"]
        for index, steps in enumerate(listed(template, "steps")):
            for inside, task, step in entries({"": steps}, ""):
                if mapped(step, "inline"):
                    yield f"{where}.{place}.steps[{index}]{inside}.inline", f"{name}/{task}", step["inline"]


def _fitting(defaults: Mapping[str, Any], template: Mapping[str, Any]) -> Mapping[str, Any]:
    sorts = (*_SINGLE, "containerSet")
    return {key: value for key, value in defaults.items() if key not in sorts or mapped(template, key)}


def _defaulted(defaults: Mapping[str, Any], own: Mapping[str, Any], where: str) -> dict[str, str]:
    """Place in the pod -> place of its value in the defaults, which are at `where`."""
    found = {f"spec.{key}": f"{where}.{key}" for key in _PLACEMENT if defaults.get(key) and not own.get(key)}
    for field in _SINGLE:
        for key in ("image", "resources"):
            if mapped(own, field) and part(defaults, field, key) and not part(own, field, key):
                found[f"spec.containers[{_MAIN}].{key}"] = f"{where}.{field}.{key}"
    return found


def _pod(
    template: Mapping[str, Any], place: str, shared: Mapping[str, Any], volumes: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The spec of a template's pods, and for renamed parts their places in the object."""
    containers = list(listed(template, "containerSet", "containers"))
    elsewhere = {"spec.containers": f"{place}.containerSet.containers"}
    for field in _SINGLE:
        if mapped(template, field):
            containers = [{**template[field], "name": _MAIN}]
            elsewhere = {f"spec.containers[{_MAIN}]": f"{place}.{field}"}
    if containers:
        for inside, name, sidecar in entries(template, "sidecars"):
            elsewhere[f"spec.containers[{name or len(containers)}]"] = f"{place}.{inside}"
            containers.append(sidecar)
    spec = {**shared, **{key: template[key] for key in _PLACEMENT if template.get(key)}}
    spec["containers"], spec["initContainers"] = containers, listed(template, "initContainers")
    spec["volumes"] = [*listed(template, "volumes"), *mounted(volumes, containers, spec["initContainers"])]
    return spec, elsewhere
