"""docs/ai-conformance.md shows what the commands in it print, and has every requirement."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from webhook.commands.main import main

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "ai-conformance.md").read_text()
BLOCKS = re.findall(r"```console\n\$ gpu-policy (.+)\n([^`]+)```", PAGE)

REQUIREMENTS = {
    "accelerator_metrics": "MUST",
    "advanced_inference_ingress": "SHOULD",
    "ai_inference": "MUST",
    "ai_service_metrics": "MUST",
    "cluster_autoscaling": "MUST",
    "disaggregated_inference": "SHOULD",
    "dra_support": "MUST",
    "driver_runtime_management": "SHOULD",
    "gang_scheduling": "MUST",
    "gpu_sharing": "SHOULD",
    "high_performance_networking": "SHOULD",
    "pod_autoscaling": "MUST",
    "robust_controller": "MUST",
    "secure_accelerator_access": "MUST",
    "virtualized_accelerator": "SHOULD",
}
"""From AIConformance-1.36.yaml of github.com/cncf/k8s-ai-conformance (commit b2c89690), and dra_support from 1.35."""


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[command.rpartition("/")[2] for command, _ in BLOCKS])
def test_what_a_command_prints_is_what_the_page_shows(
    monkeypatch: pytest.MonkeyPatch, command: str, shown: str
) -> None:
    """`...` stands for what is left out."""
    monkeypatch.chdir(ROOT)
    printed = CliRunner().invoke(main, shlex.split(command)).output
    assert re.search(re.escape(shown).replace(r"\.\.\.", ".*"), printed, re.DOTALL), printed


def test_every_requirement_is_in_the_table_with_its_level() -> None:
    rows = re.findall(r"^\| (`.+`) \| (MUST|SHOULD)", PAGE, re.MULTILINE)
    assert {name: level for names, level in rows for name in re.findall(r"`(\w+)`", names)} == REQUIREMENTS


def test_every_section_is_about_a_requirement_that_the_table_leads_to() -> None:
    sections = re.findall(r"^## (\w+)$", PAGE, re.MULTILINE)
    assert sections
    assert all(f"](#{section})" in PAGE and section in REQUIREMENTS for section in sections)
