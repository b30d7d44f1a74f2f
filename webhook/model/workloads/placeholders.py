"""What is filled in later, such as `{{workflow.parameters.gpus}}`: nobody knows what will stand there.

What would only be guessed about such a pod is taken out of it, so that nothing is made of the guess: a rule hears of no
image, and of no constraint on nodes. Where it is open how many GPUs it asks for, nothing can be said of it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.model.accelerators import DEVICE_CLASSES
from webhook.model.container import APP, INIT
from webhook.model.requirements import is_extended
from webhook.model.workloads.parts import mapped, part
from webhook.model.workloads.template import Template

_PLACEHOLDER = re.compile(r"\{\{|\$[({A-Za-z_]")
"""`{{...}}` of Argo and of templates in Go, `${...}`, `$(...)` and `$NAME` of many others."""
_ANYWHERE: tuple[Mapping[str, Any], ...] = ({"operator": "Exists"},)
_NODES = ("nodeSelector", "affinity", "runtimeClassName", "nodeName")
_DEADLINE, _PRIORITY = "activeDeadlineSeconds", "priorityClassName"


def is_placeholder(value: object) -> bool:
    """Whether a text, or a part of it, is filled in later."""
    return isinstance(value, str) and _PLACEHOLDER.search(value) is not None


def settled_template(template: Template) -> Iterator[Template]:
    """A template without what is filled in later; none where it is not known how many GPUs its pods ask for."""
    found = settled(template.pod)
    if found is not None:
        yield replace(template, pod=found[0], unknown=template.unknown | found[1])


def settled(pod: Mapping[str, Any]) -> tuple[Mapping[str, Any], frozenset[str]] | None:
    """A pod without what is filled in later, and the fields about which nothing can be said, such as
    `spec.containers[main].image`; None for one of which it is not known how many GPUs it asks for.
    """
    spec = mapped(pod, "spec")
    containers = list(_containers(spec))
    if any(map(_asks_for_unknown, (container for _, container in containers))):
        return None
    unknown = frozenset(f"{where}{field}" for where, container in containers for field in _unknown(container))
    unknown |= {f"spec.{key}" for key in (_DEADLINE, _PRIORITY) if is_placeholder(spec.get(key))}
    open_parts = [key for key in (*_NODES, _DEADLINE, "tolerations") if key in spec and _holds_placeholder(spec[key])]
    annotations = mapped(pod, "metadata", "annotations")
    told = {key: value for key, value in annotations.items() if not is_placeholder(value)}
    if open_parts:
        kept = {key: value for key, value in spec.items() if key not in open_parts}
        if "tolerations" in open_parts:
            kept["tolerations"] = list(_ANYWHERE)
        pod = {**pod, "spec": kept}
    if len(told) < len(annotations):
        pod = {**pod, "metadata": {**mapped(pod, "metadata"), "annotations": told}}
    return pod, unknown


def _containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key in (INIT, APP):
        listed = spec.get(key)
        for index, container in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(container, dict):
                name = container.get("name")
                yield f"spec.{key}[{name if name and isinstance(name, str) else index}]", container


def _asks_for_unknown(container: Mapping[str, Any]) -> bool:
    """Whether the number of GPUs, or what is asked for, is filled in later."""
    for key in ("requests", "limits"):
        amounts = part(container, "resources", key)
        if is_placeholder(amounts) or any(
            is_placeholder(name) or (is_placeholder(amount) and _may_be_gpus(name))
            for name, amount in mapped(amounts).items()
        ):
            return True
    return is_placeholder(container.get("resources"))


def _may_be_gpus(resource: str) -> bool:
    """Whether a resource is GPUs, or may be declared as such by a policy, which nobody knows here."""
    return is_extended(resource) or resource.startswith(DEVICE_CLASSES)


def _unknown(container: Mapping[str, Any]) -> Iterator[str]:
    if is_placeholder(container.get("image")):
        yield ".image"
    env = container.get("env")
    for entry in env if isinstance(env, list) else ():
        if is_placeholder(part(entry, "value")):
            yield f".env[{part(entry, 'name')}]"


def _holds_placeholder(value: object) -> bool:
    """Whether a text anywhere in `value` is filled in later."""
    rest = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, dict):
            rest.extend(one)
            rest.extend(one.values())
        elif isinstance(one, list):
            rest.extend(one)
        elif is_placeholder(one):
            return True
    return False
