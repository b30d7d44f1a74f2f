"""Placeholders: values that are filled in later, such as `{{workflow.parameters.gpus}}`, and are unknown until then.

They are removed from a pod, so that rules do not judge a guess: rules then see no image, or no constraint on nodes. A
pod whose number of GPUs is a placeholder is not judged at all.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.model.accelerators import DEVICE_CLASSES
from webhook.model.json_parts import mapped, part
from webhook.model.pod import APP, INIT
from webhook.model.requirements import is_extended
from webhook.model.workloads.template import Template

_PLACEHOLDER = re.compile(
    r"\{\{|\$[({A-Za-z_]|<[^<>]*[a-z][^<>]*>|^(your[-_].*|.*[-_]here|placeholder|todo|fixme|tbd|xxx+|%\w+%|@\w+@|__\w+__)$"
    r"|(^|[-_])(replace|change)[-_]?(me|this|with)([-_]|$)",
    re.IGNORECASE,
)
"""`{{...}}` of Argo and of templates in Go, `${...}`, `$(...)` and `$NAME` of many others, and what people write to be
replaced by people: `<name>`, `your-node`, `REPLACE_ME`.
"""
FILL_IN = ("it is a placeholder of a template", "Fill in the template first")
"""What a message says of a placeholder: what it is, and the remedy."""
_ANYWHERE: tuple[Mapping[str, Any], ...] = ({"operator": "Exists"},)
_NODES = ("nodeSelector", "affinity", "runtimeClassName", "nodeName")
_DEADLINE, _PRIORITY = "activeDeadlineSeconds", "priorityClassName"


def is_placeholder(value: object) -> bool:
    """Whether a value is a text with a placeholder."""
    return isinstance(value, str) and _PLACEHOLDER.search(value) is not None


def settled_template(template: Template) -> Iterator[Template]:
    """The template without placeholders; no template where the number of GPUs is a placeholder."""
    found = settled(template.pod)
    if found is not None:
        yield replace(template, pod=found[0], unknown=template.unknown | found[1])


def settled(pod: Mapping[str, Any]) -> tuple[Mapping[str, Any], frozenset[str]] | None:
    """The pod without placeholders, and their places, such as `spec.containers[main].image`.

    None where the number of GPUs is a placeholder.
    """
    spec = mapped(pod, "spec")
    containers = list(_containers(spec))
    if any(map(_asks_for_unknown, (container for _, container in containers))):
        return None
    unknown = frozenset(f"{where}{field}" for where, container in containers for field in _unknown(container))
    unknown |= {f"spec.{key}" for key in (_DEADLINE, _PRIORITY) if is_placeholder(spec.get(key))}
    open_parts = [key for key in (*_NODES, _DEADLINE, "tolerations") if key in spec and _holds_placeholder(spec[key])]
    annotations = mapped(pod, "metadata", "annotations")
    settled_annotations = {key: value for key, value in annotations.items() if not is_placeholder(value)}
    if open_parts:
        kept = {key: value for key, value in spec.items() if key not in open_parts}
        if "tolerations" in open_parts:
            kept["tolerations"] = list(_ANYWHERE)
        pod = {**pod, "spec": kept}
    if len(settled_annotations) < len(annotations):
        pod = {**pod, "metadata": {**mapped(pod, "metadata"), "annotations": settled_annotations}}
    return pod, unknown


def _containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key in (INIT, APP):
        listed = spec.get(key)
        for index, container in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(container, dict):
                name = container.get("name")
                yield f"spec.{key}[{name if name and isinstance(name, str) else index}]", container


def _asks_for_unknown(container: Mapping[str, Any]) -> bool:
    for key in ("requests", "limits"):
        amounts = part(container, "resources", key)
        if is_placeholder(amounts) or any(
            is_placeholder(name) or (is_placeholder(amount) and _may_be_gpus(name))
            for name, amount in mapped(amounts).items()
        ):
            return True
    return is_placeholder(container.get("resources"))


def _may_be_gpus(resource: str) -> bool:
    """Whether a resource may be GPUs. The policy is not known here, and may declare its name."""
    return is_extended(resource) or resource.startswith(DEVICE_CLASSES)


def _unknown(container: Mapping[str, Any]) -> Iterator[str]:
    if is_placeholder(container.get("image")):
        yield ".image"
    env = container.get("env")
    for entry in env if isinstance(env, list) else ():
        if is_placeholder(part(entry, "value")):
            yield f".env[{part(entry, 'name')}]"


def _holds_placeholder(value: object) -> bool:
    """Whether any text in `value` has a placeholder."""
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
