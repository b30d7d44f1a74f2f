"""The examples of docs/exceptions.md are accepted as they stand there, ends included."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from webhook.commands.main import main
from webhook.policy.loader import load

PAGE = Path(__file__).parents[2] / "docs" / "exceptions.md"
WRITTEN = datetime(2026, 11, 26, tzinfo=UTC).timestamp()
"""When the page was written. Whoever copies an example later has less time until its end."""
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
FILES = [block for block in BLOCKS if "kind: GPUPolicyExceptions" in block]
ENTRIES = [block for block in BLOCKS if block.startswith("- name:") and "until:" in block]
CASES = [block for block in BLOCKS if block.startswith("- name:") and "expect:" in block]
RULES: dict[str, Any] = {
    "gpuLimits": {"mode": "enforce", "maxPerPod": 8},
    "gpuQuota": {"mode": "enforce", "gpus": 16},
    "resourceClaims": {"mode": "enforce"},
    "visibleDevices": {"mode": "enforce"},
}


def document(kind: str, name: str, spec: dict[str, Any]) -> str:
    return yaml.safe_dump(
        {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "_default.yaml").write_text(document("GPUPolicy", "_default", {"rules": RULES}))
    return tmp_path


def test_every_example_is_of_a_known_kind() -> None:
    assert FILES
    assert len(FILES) + len(ENTRIES) + len(CASES) == len(BLOCKS)


@pytest.mark.parametrize("block", FILES + ENTRIES)
def test_an_example_of_the_page_loads_without_a_remark(directory: Path, block: str) -> None:
    text = block
    if block in ENTRIES:
        text = document("GPUPolicyExceptions", "_exceptions", {"exceptions": yaml.safe_load(block)})
    (directory / "_exceptions.yaml").write_text(text)
    assert load(directory, now=WRITTEN).notices == ()


@pytest.mark.parametrize("block", CASES)
def test_a_case_of_the_page_gives_what_it_expects(directory: Path, block: str) -> None:
    """The manifest that it names is a pod which the first exception of the page is about."""
    (directory / "_exceptions.yaml").write_text(FILES[0])
    tests = directory / "tests"
    tests.mkdir()
    (tests / "page.yaml").write_text(
        document("GPUPolicyTest", "page", {"policies": "..", "cases": yaml.safe_load(block)})
    )
    container = {"name": "main", "image": "bert:1", "resources": {"limits": {"nvidia.com/gpu": 16}}}
    metadata = {"name": "bert-1", "namespace": "team-nlp"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    (tests / "bert.yaml").write_text(yaml.safe_dump(pod))
    answer = CliRunner().invoke(main, ["test", str(tests / "page.yaml")])
    assert answer.exit_code == 0, answer.output
