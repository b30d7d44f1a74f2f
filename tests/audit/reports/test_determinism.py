"""The same report has the same bytes, in every format and in every process."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import io, sys
from rich.console import Console
from tests.audit.sample_report import sample
from webhook.audit.reports import as_json, as_junit, as_markdown, as_sarif, as_text
stream = io.StringIO()
as_text.render(sample(), Console(file=stream, width=80))
sys.stdout.reconfigure(encoding="utf-8")
print(stream.getvalue(), *(each.render(sample()) for each in (as_json, as_junit, as_markdown, as_sarif)))
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
