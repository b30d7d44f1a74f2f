"""The policies of an installation, read from ConfigMaps as the kubelet projects them into one directory."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from webhook.doctor.cluster import Object, UnavailableError
from webhook.policy.config_maps import files_of
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
        files.update(files_of(config_map, source.get("items") or ()))
    where = Path(" and ".join(f"ConfigMap {source['name']}" for source, _ in mounted))
    return build(contents_of(where, files))


def changed_at(config_map: Object) -> datetime:
    """When it was last written, as far as it says."""
    metadata = config_map["metadata"]
    times = [metadata["creationTimestamp"], *(one.get("time") for one in metadata.get("managedFields") or ())]
    return max(datetime.fromisoformat(time) for time in times if time)
