"""Policies: whether their mistakes are refused when the ConfigMaps are applied."""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.doctor.cluster import Object, UnavailableError, selects
from webhook.doctor.doctor_finding import DoctorFinding, ok, warning
from webhook.doctor.installation import Installation

ENTRY = "policies.gpupolicy.dev"
"""The entry that ConfigMaps of policies are sent by."""


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """The API server asks about every ConfigMap that the replicas mount as policies."""
    live = installation.configurations["validating"]
    if live is None:
        raise UnavailableError(f"there is no validating webhook configuration {installation.place.name}")
    entry = next((entry for entry in live.get("webhooks") or () if entry.get("name") == ENTRY), None)
    if entry is None:
        yield ok("ConfigMaps of policies are not checked when they are applied; replicas refuse them later")
        return
    config_maps = [config_map for _, config_map in installation.policy_config_maps]
    unasked = {one["metadata"]["name"]: remedy for one in config_maps if (remedy := _remedy(one, entry, installation))}
    for name, remedy in unasked.items():
        yield warning(
            f"ConfigMap {name} is mounted as policies, and the API server does not ask about it when it is applied",
            "mistakes in policies refused by kubectl apply, with file, line and key",
            remedy,
        )
    if not unasked:
        count = len(config_maps)
        counted = "the ConfigMap" if count == 1 else f"all {count} ConfigMaps"
        yield ok(f"mistakes in {counted} of policies are refused when they are applied")


def _remedy(config_map: Object, entry: Mapping[str, Any], installation: Installation) -> str:
    """How to have the API server ask about a ConfigMap; empty where it does, as far as the chart's entry says it."""
    metadata = config_map["metadata"]
    selector = entry.get("objectSelector") or {}
    if not selects(selector, metadata.get("labels") or {}):
        labels = " ".join(f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items())
        return f"{installation.kubectl} label configmap {metadata['name']} {labels}"
    conditions = [one.get("expression", "") for one in entry.get("matchConditions") or ()]
    if not all(f"'{metadata['name']}'" in expression for expression in conditions):
        return "name it in the chart value policies.configMaps"
    return ""
