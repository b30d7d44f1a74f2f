"""The policies of an installation, read from ConfigMaps as the kubelet projects them into one directory."""

import base64
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from webhook.doctor.cluster import Object, UnavailableError
from webhook.policy.directory import contents_of
from webhook.policy.loader import build
from webhook.policy.policy_set import PolicySet


def of_config_maps(mounted: Sequence[tuple[Object, Object]]) -> PolicySet:
    """The policies in ConfigMaps, each with how it is mounted; of two files with one name the later wins.

    Raises PolicyErrors, and UnavailableError where there is no ConfigMap.
    """
    if not mounted:
        raise UnavailableError("the Deployment mounts no ConfigMap with policies")
    files: dict[str, bytes] = {}
    for source, config_map in mounted:
        files.update(_files(source, config_map))
    where = Path(" and ".join(f"ConfigMap {source['name']}" for source, _ in mounted))
    return build(contents_of(where, files))


def changed_at(config_map: Object) -> datetime:
    """When it was last written, as far as it says."""
    metadata = config_map["metadata"]
    times = [metadata["creationTimestamp"], *(one.get("time") for one in metadata.get("managedFields") or ())]
    return max(datetime.fromisoformat(time) for time in times if time)


def _files(source: Object, config_map: Object) -> Iterator[tuple[str, bytes]]:
    """The files that a volume shows of a ConfigMap: all of its keys, or those that it names, where it names them to."""
    contents: dict[str, bytes] = {key: text.encode() for key, text in (config_map.get("data") or {}).items()}
    contents |= {key: base64.b64decode(text) for key, text in (config_map.get("binaryData") or {}).items()}
    items: list[dict[str, Any]] = source.get("items") or [{"key": key, "path": key} for key in contents]
    yield from ((item["path"], contents[item["key"]]) for item in items if item["key"] in contents)
