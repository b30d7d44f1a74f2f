"""`gpu-policy cuda` as tests run it."""

import json

from click.testing import Result

from tests.command_line import gpu_policy

KEYS = ["image", "cuda", "evidence", "verdict", "legacyGate", "reason"]
A100 = ("--product", "NVIDIA-A100-SXM4-80GB", "--arch", "amd64")
V100 = ("--product", "Tesla-V100-SXM2-32GB", "--arch", "amd64")
CUDA_12 = "nvidia/cuda:12.4.1-runtime-ubuntu22.04"
CUDA_13 = "nvidia/cuda:13.0.0-base-ubuntu24.04"


def run(*args: object, stdin: str | bytes | None = None) -> Result:
    return gpu_policy("cuda", *args, stdin=stdin)


def answer(*args: object) -> dict[str, str]:
    found = run("check", *args, "--output", "json")
    document: dict[str, str] = json.loads(found.stdout)
    assert list(document) == KEYS
    assert all(isinstance(value, str) for value in document.values())
    return document


def batch(*lines: object) -> tuple[list[dict[str, str]], int]:
    """The answers to these lines, objects as JSON and texts as they are, and the exit status."""
    texts = [line if isinstance(line, str | bytes) else json.dumps(line) for line in lines]
    source = b"".join((text if isinstance(text, bytes) else text.encode()) + b"\n" for text in texts)
    found = run("check", "--batch", "-", stdin=source)
    answers = [json.loads(line) for line in found.stdout.splitlines()]
    assert all(list(each) == KEYS for each in answers)
    return answers, found.exit_code
