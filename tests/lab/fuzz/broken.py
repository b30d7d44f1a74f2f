"""Rules broken on purpose, to prove that the oracles notice."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.model.edits import (
    AddEnv,
    AddMemoryVolume,
    AddMount,
    AddToleration,
    Edit,
    RequireNodes,
    SetActiveDeadline,
    SetRuntimeClass,
    SpreadOverNodes,
)
from webhook.model.node import Toleration
from webhook.model.pod import Pod
from webhook.model.selectors import Expression
from webhook.rules import RULES
from webhook.rules.rule import Advice, Facts, Rule, Violation
from webhook.rules.rule_settings import Mode


def with_rule(broken: Rule) -> tuple[Rule, ...]:
    """Every rule, with another one in the place of its namesake."""
    return tuple(broken if rule.key == broken.key else rule for rule in RULES)


def silent(rule: Rule) -> Rule:
    """The rule when it finds and completes nothing."""
    changed = replace(rule, mutate=rule.mutate and _says_nothing, validate=rule.validate and _says_nothing)
    return replace(changed, unsuited=None)


def loud(rule: Rule) -> Rule:
    """The rule when it also refuses pods that it has nothing against, or completes pods that need nothing."""
    if rule.key in _TOO_MUCH:
        return replace(rule, mutate=_also(rule.mutate, _TOO_MUCH[rule.key]))
    return replace(rule, validate=_also(rule.validate, _refuses))


def _says_nothing(_pod: Pod, _settings: Any, _facts: Facts) -> Iterator[Any]:
    yield from ()


def _also(function: Any, more: Callable[[Pod], Iterator[Edit | Violation]]) -> Any:
    def both(pod: Pod, settings: Any, facts: Facts) -> Iterator[Edit | Advice | Violation]:
        found = list(function(pod, settings, facts)) if function else []
        yield from found
        if not found and settings.mode is not Mode.DISABLED:
            yield from more(pod)

    return both


def _refuses(pod: Pod) -> Iterator[Violation]:
    for container in pod.lasting_containers():
        for field in ("image", "resources"):
            yield Violation(f"{container.path}.{field}", "is what it is", "something else is allowed", "Change it")


def _tolerates(pod: Pod) -> Iterator[Edit]:
    if not any(one.key == "x" for one in pod.tolerations):
        yield AddToleration(Toleration("x", "Exists"))


def _requires(pod: Pod) -> Iterator[Edit]:
    wanted = Expression("zone", "In", ("a",))
    if not pod.required:
        yield RequireNodes(wanted, None)


def _sets(name: str) -> Callable[[Pod], Iterator[Edit]]:
    def more(pod: Pod) -> Iterator[Edit]:
        for container in pod.lasting_containers():
            if not container.sets_env(name):
                yield AddEnv(container, name, "x")

    return more


def _runs_under(pod: Pod) -> Iterator[Edit]:
    if pod.runtime_class is None:
        yield SetRuntimeClass("nvidia")


def _ends(pod: Pod) -> Iterator[Edit]:
    if pod.active_deadline is None:
        yield SetActiveDeadline(60)


def _shares_memory(pod: Pod) -> Iterator[Edit]:
    if not any(volume.name == "x" for volume in pod.volumes):
        yield AddMemoryVolume("x", "1Gi")
        yield AddMount(pod.containers[0], "x", "/dev/shm")


def _spreads(pod: Pod) -> Iterator[Edit]:
    if not pod.says_how_it_spreads:
        yield SpreadOverNodes((("app", "x"),))


_TOO_MUCH: Mapping[str, Callable[[Pod], Iterator[Any]]] = {
    "tolerations": _tolerates,
    "nodeAffinity": _requires,
    "cudaDriver": _requires,
    "gpuTypes": _requires,
    "ncclEnv": _sets("NCCL_DEBUG"),
    "driverCapabilities": _sets("NVIDIA_DRIVER_CAPABILITIES"),
    "visibleDevices": _sets("NVIDIA_VISIBLE_DEVICES"),
    "runtimeClass": _runs_under,
    "timeLimit": _ends,
    "sharedMemory": _shares_memory,
    "replicaSpread": _spreads,
}
"""What a rule that completes pods does too much; any other refuses too much."""
