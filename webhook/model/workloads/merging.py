"""Merges parts of objects: defaults below a part's own values, and strategic merge patches."""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.model.json_parts import listed, part

_LEVELS = 4
"""Levels of maps that are merged: template, container, resources, limits."""
_MOST_WORK = 1_000_000
"""Most values of defaults that are merged, for all parts together."""
_PATCH_LEVELS = 8
"""Levels of patches that are merged; the selector of a term of an affinity is no deeper."""
_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "topologySpreadConstraints": "topologyKey",
}
"""List of a pod -> key by which a strategic merge patch finds its items (patchMergeKey in k8s.io/api/core/v1)."""


def merged(defaults: Mapping[str, Any], own: Mapping[str, Any], levels: int = _LEVELS) -> dict[str, Any]:
    """A part's own values, and defaults for missing values. Items of lists are matched by name.

    >>> merged({"limits": {"cpu": 1}, "image": "a"}, {"limits": {"memory": 2}, "image": "b"})
    {'limits': {'cpu': 1, 'memory': 2}, 'image': 'b'}
    """
    whole = {**defaults, **{key: value for key, value in own.items() if value is not None}}
    for key in defaults.keys() & own.keys():
        whole[key] = _merged_value(defaults[key], own[key], levels - 1)
    return whole


def _merged_value(default: Any, own: Any, levels: int) -> Any:
    if own is None:
        return default
    if isinstance(default, dict) and isinstance(own, dict) and levels:
        return merged(default, own, levels)
    if isinstance(default, list) and isinstance(own, list) and _are_named(default) and _are_named(own):
        names = {item["name"] for item in own}
        return [*(item for item in default if item["name"] not in names), *own]
    return own


def _are_named(items: list[Any]) -> bool:
    return all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items)


def is_worth(defaults: object, parts: int) -> bool:
    """Whether defaults are small enough to be merged into this many parts, as in every manifest that people write."""
    most = _MOST_WORK // max(parts, 1)
    rest, seen = [defaults], 0
    while rest:
        value = rest.pop()
        seen += 1
        if seen > most:
            return False
        if isinstance(value, dict):
            rest.extend(value.values())
        elif isinstance(value, (list, tuple)):
            rest.extend(value)
    return True


def mounted(volumes: Mapping[str, Any], *containers: list[Any]) -> Iterator[Any]:
    """The volumes that one of these containers mounts; `volumes`: name -> volume."""
    names = (part(mount, "name") for some in containers for one in some for mount in listed(one, "volumeMounts"))
    for name in dict.fromkeys(name for name in names if isinstance(name, str)):
        if name in volumes:
            yield volumes[name]


def patched(base: Mapping[str, Any], patch: Mapping[str, Any], levels: int = _PATCH_LEVELS) -> dict[str, Any]:
    """The result of a strategic merge patch on a pod template. Directives such as `$patch` are not followed.

    >>> patched({"env": [{"name": "a", "value": "1"}], "args": []}, {"env": [{"name": "a", "value": "2"}]})
    {'env': [{'name': 'a', 'value': '2'}], 'args': []}
    """
    whole = dict(base)
    for key, value in patch.items():
        old = base.get(key)
        if value is None:
            whole.pop(key, None)
        elif isinstance(old, dict) and isinstance(value, dict) and levels:
            whole[key] = patched(old, value, levels - 1)
        elif isinstance(old, list) and isinstance(value, list) and key in _KEYS and levels:
            whole[key] = _patched_items(old, value, _KEYS[key], levels - 1)
        else:
            whole[key] = value
    return whole


def _patched_items(old: list[Any], new: list[Any], key: str, levels: int) -> list[Any]:
    items = list(old)
    known = {str(item[key]): at for at, item in enumerate(old) if isinstance(item, dict) and key in item}
    for item in new:
        at = known.get(str(part(item, key))) if isinstance(item, dict) else None
        if at is None:
            items.append(item)
        else:
            items[at] = patched(items[at], item, levels)
    return items
