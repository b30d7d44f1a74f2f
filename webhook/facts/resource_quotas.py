"""In-tree ResourceQuotas: which one certainly refuses one more pod.

Only what holds for every pod is read: quotas without scopes, their numbers of pods and their requests of GPUs. Their
status is what the API server itself compares (plugin/pkg/admission/resourcequota of Kubernetes).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.model.quantity import QuantityError, parse_quantity


def too_full(raw: object, gpus: Mapping[str, int]) -> str:
    """Which quota leaves too little for a pod with these GPUs, and what it leaves; empty where that is not certain.

    >>> status = {"hard": {"requests.nvidia.com/gpu": "4"}, "used": {"requests.nvidia.com/gpu": "3"}}
    >>> too_full({"metadata": {"name": "team"}, "spec": {}, "status": status}, {"nvidia.com/gpu": 2})
    'ResourceQuota team leaves 1 of requests.nvidia.com/gpu'
    """
    quota = _map(raw)
    spec, status = _map(quota.get("spec")), _map(quota.get("status"))
    if spec.get("scopes") or spec.get("scopeSelector"):
        return ""
    hard, used = _map(status.get("hard")), _map(status.get("used"))
    for name, asks in _asked(gpus):
        if name not in hard or name not in used:
            continue
        try:
            left = parse_quantity(hard[name]) - parse_quantity(used[name])
        except QuantityError:
            continue
        if asks > left:
            return f"ResourceQuota {_map(quota.get('metadata')).get('name')} leaves {max(0, int(left))} of {name}"
    return ""


def _asked(gpus: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    yield from (("pods", 1), ("count/pods", 1))
    for resource, count in gpus.items():
        yield f"requests.{resource}", count


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
