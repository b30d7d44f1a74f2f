"""The runbook as a thing to test: its sections, and the commands in them."""

import os
import re
import subprocess
import textwrap
from pathlib import Path

from tests.e2e.control_plane import BINARIES, ControlPlane

FILE = Path(__file__).resolve().parents[1] / "docs" / "runbook.md"

_BLOCK = re.compile(r"^( *)```console\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def sections() -> dict[str, str]:
    """The text of each section up to the next heading, by its own."""
    parts = _HEADING.split(FILE.read_text())
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def blocks(heading: str) -> list[str]:
    """The console blocks of a section, as one pastes them."""
    return [textwrap.dedent(block[2]) for block in _BLOCK.finditer(sections()[heading])]


def commands() -> list[str]:
    """Every line of every console block, and everything in backticks within the text."""
    text = FILE.read_text()
    lines = [line.strip() for block in _BLOCK.finditer(text) for line in block[2].splitlines()]
    return lines + _INLINE.findall(_BLOCK.sub("", text))


def run(plane: ControlPlane, folder: Path, command: str, answers: str = "") -> subprocess.CompletedProcess[str]:
    """Run a block in a folder, as an administrator of that API server would, who gives these answers."""
    environment = {
        "HOME": str(folder),
        "KUBECONFIG": str(plane.kubeconfig),
        "PATH": f"{BINARIES}{os.pathsep}{os.environ['PATH']}",
    }
    shell = ["bash", "-eo", "pipefail", "-c", command]
    return subprocess.run(
        shell, cwd=folder, env=environment, input=answers, capture_output=True, text=True, timeout=180, check=False
    )
