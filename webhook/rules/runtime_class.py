"""Pods that request NVIDIA GPUs run under the RuntimeClass of NVIDIA's container toolkit.

A pod that names a RuntimeClass keeps it. It is not set where the pod could not start with it: where the object does not
exist, where a node that the pod could run on lacks its handler, on Windows, or where its own node selector contradicts
the placement of the pod.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from webhook.model.accelerators import Vendor
from webhook.model.edits import SetRuntimeClass
from webhook.model.node import NodeClass, RuntimeClass
from webhook.model.pod import Pod, changed
from webhook.model.requirements import required_label
from webhook.model.selectors import contradicts
from webhook.model.wording import counted
from webhook.rules.names import ObjectName
from webhook.rules.rule import Advice, ClassKind, ClassName, Example, Facts, Rule, training_pod
from webhook.rules.rule_settings import InjectionSettings

_TOOLKIT = "Install the NVIDIA container toolkit, or tell the platform team"
_ELSEWHERE = "Change nodeSelector or affinity, or set runtimeClassName"


class Settings(InjectionSettings):
    """Settings of `runtimeClass`."""

    name: ObjectName = "nvidia"
    """Name of the RuntimeClass. It is set only if it exists, because Kubernetes refuses pods otherwise."""
    when_missing: Literal["silent", "warn"] = "silent"
    """Whether the user gets a warning when the RuntimeClass does not exist and is not set. Clusters whose default
    runtime is NVIDIA's need none."""


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[SetRuntimeClass | Advice]:
    """Set the RuntimeClass if the cluster has it and the pod can still start under it."""
    if pod.runtime_class is not None or pod.has_passthrough or not pod.requests_gpus_of(Vendor.NVIDIA):
        return
    is_placed = pod.node_selector or pod.required
    if pod.os == "windows" or (is_placed and required_label(pod, {"kubernetes.io/os": "windows"})):
        return
    obstacle = _obstacle(pod, settings.name, facts)
    if obstacle is None:
        yield SetRuntimeClass(settings.name)
    elif settings.when_missing == "warn" or facts.runtime_class(settings.name) is not None:
        found, remedy = obstacle
        yield Advice("spec.runtimeClassName", f"not set, because {found}", remedy)


def _obstacle(pod: Pod, name: str, facts: Facts) -> tuple[str, str] | None:
    """Why the RuntimeClass would break the pod, and what to do about it; None if it would not."""
    runtime_class = facts.runtime_class(name)
    if runtime_class is None:
        return f"the cluster has no RuntimeClass {name}", _TOOLKIT
    for wanted in runtime_class.node_selector:
        value = pod.node_selector.get(wanted.key)
        if value is not None and not wanted.accepts(value):
            return f"it selects nodes by {wanted}, and nodeSelector requires {value}", _ELSEWHERE
        terms = [term for term in pod.required or () if not term.matches_nothing]
        if terms and all(contradicts(term.expressions, wanted) for term in terms):
            return f"it selects nodes by {wanted}, which the pod's required node affinity excludes", _ELSEWHERE
    nodes = facts.matching_nodes(pod)
    if runtime_class.node_selector or runtime_class.tolerations:
        possible, nodes = nodes, facts.matching_nodes(changed(pod, runtime_class=name))
        if possible and not nodes:
            return "it selects none of the nodes the pod could land on", _ELSEWHERE
    lacking = lacking_handler(runtime_class, nodes)
    return (lacking, _TOOLKIT) if lacking else None


def lacking_handler(runtime_class: RuntimeClass, nodes: Sequence[NodeClass]) -> str:
    """How many of a pod's nodes lack the handler of a RuntimeClass; empty if none is known to lack it."""
    handler = runtime_class.handler
    lacking = [one.count for one in nodes if one.runtime_handlers is not None and handler not in one.runtime_handlers]
    if not lacking:
        return ""
    of_all = f"{sum(lacking)} of {counted(sum(one.count for one in nodes), 'node')} that it could use"
    return f"{of_all} {'lacks' if sum(lacking) == 1 else 'lack'} the runtime handler {handler}"


RULE = Rule(
    key="runtimeClass",
    promise="Pods that request NVIDIA GPUs run under the RuntimeClass of NVIDIA's container toolkit.",
    problem="Where NVIDIA's runtime is not the default, a container starts without the driver's libraries and "
    "finds no GPU.",
    example=Example(training_pod()),
    settings=Settings,
    mutate=mutate,
    references=lambda settings: [ClassName(ClassKind.RUNTIME, settings.name)],
)
