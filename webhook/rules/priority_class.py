"""GPU pods that name no PriorityClass get the one of their namespace; others may name only classes that it may use.

Kubernetes writes the cluster's default class into every pod that names none, before any webhook sees it. So a pod with
the default class counts as one that names none, and its `priority` and `preemptionPolicy` are replaced as well. Any
other class that a pod names is kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator

from webhook.model.edits import SetPriorityClass
from webhook.model.globs import is_glob, matcher
from webhook.model.node import PriorityClass
from webhook.model.pod import Pod
from webhook.model.wording import cut
from webhook.rules.names import ObjectGlob, ObjectName
from webhook.rules.rule import Advice, ClassKind, ClassName, Example, Facts, Rule, Violation, training_pod
from webhook.rules.rule_settings import InjectionSettings

_WHERE = "spec.priorityClassName"
_MOST_NAMED = 6
"""Classes that a message names."""


def _is_for_teams(name: str) -> str:
    if name.startswith("system-"):
        raise ValueError(f"{name} is for components of Kubernetes itself; name a class of your own")
    return name


class Settings(InjectionSettings):
    """Settings of `priorityClass`."""

    name: Annotated[ObjectName, AfterValidator(_is_for_teams)] | None = None
    """PriorityClass for GPU pods that name none. It is set only if it exists, because Kubernetes refuses pods
    otherwise. Unset: no class is set."""
    allowed: tuple[ObjectGlob, ...] = ()
    """Names or globs of classes that GPU pods may have beside `name`. A pod that gets no class by `name` is judged by
    the cluster's default class, and refused without one. Empty: every class.
    """
    when_missing: Literal["silent", "warn"] = "silent"
    """Whether the user gets a warning when the class does not exist and is not set."""


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[SetPriorityClass | Advice]:
    """Set the class of the namespace in a pod that names none."""
    if not pod.gpus or settings.name in (None, pod.priority_class):
        return
    name, classes = settings.name, facts.priority_classes()
    if pod.priority_class and not _is_default(pod.priority_class, classes):
        return
    if name in classes:
        yield SetPriorityClass(classes[name])
    elif settings.when_missing == "warn" and _is_fine(pod, settings, facts):
        yield Advice(_WHERE, f"not set, because {_lack(settings, facts)}", "Tell the platform team")


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation]:
    """Refuse a class that the namespace may not use, and a missing class unless `mutate` sets one."""
    if not pod.gpus or _is_fine(pod, settings, facts):
        return
    if any(isinstance(value, SetPriorityClass) for value in mutate(pod, settings, facts)):
        return
    choices = _choices(settings, facts.priority_classes())
    is_one = len(choices) == 1 and not is_glob(choices[0])
    remedy = f"Set it to {choices[0] if is_one else 'one of them'}"
    if choices == [settings.name] and _lack(settings, facts):
        remedy = "Tell the platform team"
    allowed = f"GPU pods of this namespace may have {_listed(choices)}"
    yield Violation(_WHERE, _found(pod, settings, facts), allowed, remedy)


def _choices(settings: Settings, classes: Mapping[str, PriorityClass]) -> list[str]:
    """The classes that a pod may name. One that the cluster does not have is left out if there are others."""
    others = [name for name in dict.fromkeys(settings.allowed) if name != settings.name]
    if settings.name is None or (others and classes and settings.name not in classes):
        return others
    # a pod that names the cluster's default class gets the class of the namespace
    return [settings.name, *(name for name in others if not _is_default(name, classes))]


def _is_fine(pod: Pod, settings: Settings, facts: Facts) -> bool:
    """Whether the namespace may use the pod's class, or the default class that Kubernetes gives a pod without one."""
    if not settings.allowed:
        return True
    classes = facts.priority_classes()
    name = pod.priority_class or next((name for name in classes if classes[name].is_default), "")
    return bool(name) and (name == settings.name or any(matcher(glob).fullmatch(name) for glob in settings.allowed))


def _is_default(name: str, classes: Mapping[str, PriorityClass]) -> bool:
    return name in classes and classes[name].is_default


def _lack(settings: Settings, facts: Facts) -> str:
    """Why the class of the namespace cannot be set; empty if it can, or if the policy names none."""
    classes = facts.priority_classes()
    if not settings.name or settings.name in classes:
        return ""
    return f"the cluster has no PriorityClass {settings.name}" if classes else "no PriorityClass is known"


def _found(pod: Pod, settings: Settings, facts: Facts) -> str:
    name = pod.priority_class
    if name and not _is_default(name, facts.priority_classes()):
        return f"is {cut(name)}"
    found = f"is {name}, the cluster's default" if name else "is not set"
    lack = _lack(settings, facts)
    return f"{found}, because {lack}" if lack else found


def _listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are.

    >>> _listed(["a"]), _listed(["a", "b"]), _listed(["a", "b", "c"])
    ('a', 'a or b', 'a, b or c')
    """
    more = len(names) - _MOST_NAMED
    *some, last = names if more <= 0 else (*names[:_MOST_NAMED], f"{more} more")
    return f"{', '.join(some)} or {last}" if some else last


def references(settings: Settings) -> Iterator[ClassName]:
    """The class that is set, and the classes that are allowed by name."""
    names = (settings.name, *(name for name in settings.allowed if not is_glob(name)))
    yield from (ClassName(ClassKind.PRIORITY, name) for name in dict.fromkeys(names) if name)


RULE = Rule(
    key="priorityClass",
    promise="GPU pods have a PriorityClass that their namespace may use.",
    problem="An experiment keeps the GPUs that production waits for, or a team gives all its pods the highest class.",
    example=Example(training_pod("priorityClassName: production"), {"name": "training", "allowed": ["batch-*"]}),
    settings=Settings,
    mutate=mutate,
    validate=validate,
    validates_own_injection=True,
    can_mutate=lambda settings: settings.name is not None,
    can_validate=lambda settings: bool(settings.allowed),
    why_no_effect=lambda settings: (
        "" if settings.name or settings.allowed else "write name, allowed or both, or disable the rule"
    ),
    references=references,
)
