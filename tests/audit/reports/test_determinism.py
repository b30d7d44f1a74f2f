"""The same report has the same bytes, in every format and in every process."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from tests.audit.sample_report import sample
from webhook.audit.writing import FORMATS, rendered
sys.stdout.reconfigure(encoding="utf-8")
print(*(rendered(sample(), form) for form in FORMATS))
"""


def written(seed: str) -> bytes:
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, cwd=root, check=True, capture_output=True
    ).stdout


def test_the_same_report_has_the_same_bytes_however_python_hashes() -> None:
    first = written("1")
    assert len(first) > 10_000
    assert first == written("2")
