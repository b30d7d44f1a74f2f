"""Who owns an object."""

from collections.abc import Mapping
from typing import Any


def controller_of(raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner reference of the controller that made the object; None where nothing controls it."""
    metadata = raw.get("metadata")
    references = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    if not isinstance(references, list):
        return None
    return next((one for one in references if isinstance(one, dict) and one.get("controller") is True), None)
