"""ConfigMaps of policies, and what is found in them on a replica that serves what it has mounted."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.policy.conftest import policy_text
from webhook.policy.config_maps import Checked, check_files
from webhook.policy.directory import contents_of
from webhook.policy.loader import build

SHIPPED = Path(__file__).resolve().parents[2] / "policies"
DEFAULT = {"_default.yaml": policy_text("_default", "gpuLimits: {mode: enforce, maxPerPod: 4}")}
TEAM = {"team.yaml": policy_text("team", "gpuLimits: {maxPerPod: 2}")}
MISTAKEN = {"team.yaml": policy_text("team", "gpuLimits: {maxPerPodd: 2}")}
UNKNOWN_KEY = "team.yaml:6: spec.rules.gpuLimits.maxPerPodd"
Texts = Mapping[str, str]


def encoded(files: Texts) -> dict[str, bytes]:
    return {name: text.encode() for name, text in files.items()}


def checked(new: Texts, *, old: Texts | None = None, mounted: Texts) -> Checked:
    """What is found where a ConfigMap becomes `new`, on a replica that serves what it has mounted."""
    current = build(contents_of(Path(), encoded(mounted)))
    return check_files(encoded(new), encoded(old or {}), contents_of(Path("/etc/policies"), encoded(mounted)), current)


def told(errors: Any) -> list[str]:
    """File, line and key of each."""
    return [str(error).rpartition(": ")[0] for error in errors]
