"""The kinds of OME: inference services, and the runtimes that they are completed with.

Fields and defaults are those of pkg/apis/ome/v1beta1 in sgl-project/ome; how a pod is put together is that of
pkg/controller/v1beta1/inferenceservice: the runner is the container of its name, a leader and workers take the place of
the pods of a component, in a LeaderWorkerSet. Where a service leaves resources to a runtime or to an accelerator class,
nothing is known.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.model.workloads.merging import merged
from webhook.model.workloads.parts import (
    counted,
    from_spec,
    listed,
    mapped,
    named,
    part,
    product,
    with_shared_memory,
    with_the_rest,
)
from webhook.model.workloads.placeholders import settled_template
from webhook.model.workloads.pod_labels import IN_A_GROUP
from webhook.model.workloads.template import Template

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
    """Pods of one sort, or groups of a leader and its workers, made like the component where it has no own leader."""
    pods, leader, worker = _least(spec), mapped(spec, "leader"), mapped(spec, "worker")
    if not leader and not worker:
        yield from _pods(spec, spec, where, name, pods, is_completed=is_completed)
        return
    at = f"{where}.leader" if leader else where
    size = counted(worker.get("size"), 0)
    for template in (
        *_pods(leader or spec, spec, at, f"{name} leader", pods, is_completed=is_completed),
        *_pods(worker, spec, f"{where}.worker", f"{name} worker", product(pods, size), is_completed=is_completed),
    ):
        yield template if size == 0 else replace(template, labels=IN_A_GROUP)


def _least(spec: Mapping[str, Any]) -> int | None:
    """The pods, or groups of pods, that run in any case: one at least."""
    least = counted(spec.get("minReplicas"), 1)
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
