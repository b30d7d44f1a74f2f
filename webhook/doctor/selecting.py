"""What a LabelSelector of the cluster selects."""

from collections.abc import Mapping
from typing import Any

from webhook.model.selectors import Expression


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether it selects an object with these labels."""
    exact = (selector.get("matchLabels") or {}).items() <= labels.items()
    return exact and all(
        Expression(one["key"], one["operator"], tuple(one.get("values") or ())).matches(labels)
        for one in selector.get("matchExpressions") or ()
    )
