"""Objects of every kind as people write them, with the templates that they have."""

from pathlib import Path
from typing import Any

from tests import quick_yaml

CASES = [
    case
    for file in sorted((Path(__file__).parent / "kinds").glob("*.yaml"))
    for case in quick_yaml.load_all(file.read_text())
    if case is not None
]
"""Each an `object`, and its `templates`: where, group, pods at a time, GPUs of one pod, is it of a built-in kind."""
OBJECTS: list[dict[str, Any]] = [case["object"] for case in CASES]


def title(raw: dict[str, Any]) -> str:
    """What a test with this object is called."""
    metadata = raw["metadata"]
    return f"{raw['kind']}-{raw['apiVersion']}-{metadata.get('name') or metadata['generateName']}"
