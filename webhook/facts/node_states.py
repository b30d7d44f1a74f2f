"""What taints and labels of nodes say of the hour to come: nodes that start or are maintained, and autoscalers."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from webhook.model.globs import matcher
from webhook.yaml_files.shipped_tables import read_table

_TABLE: Mapping[str, list[dict[str, Any]]] = read_table(Path(__file__).with_name("data") / "node_states.yaml")
_KARPENTERS = ("karpenter.sh/registered", "karpenter.sh/nodepool")
_INITIALIZED = "karpenter.sh/initialized"


@lru_cache(maxsize=4096)
def state_by(key: str) -> str:
    """`starting`, `maintained` or `leaving`, if a controller takes taints of this key off again by itself."""
    return next((str(row["state"]) for row in _TABLE["taints"] if matcher(row["key"]).fullmatch(key)), "")


def is_uninitialized(labels: Mapping[str, str]) -> bool:
    """Whether Karpenter has not seen the node ready yet: its start-up taints are still there, whatever their keys."""
    return _INITIALIZED not in labels and any(key in labels for key in _KARPENTERS)


def maker_of(name: str, labels: Mapping[str, str]) -> str:
    """The autoscaler that made a node and may make nodes of other kinds; empty where nothing says so."""
    for row in _TABLE["makers"]:
        found = name if row.get("name") else labels.get(row["label"])
        if found is not None and any(matcher(glob).fullmatch(found) for glob in row.get("values", ["*"])):
            return str(row["maker"])
    return ""
