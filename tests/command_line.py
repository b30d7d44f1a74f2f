"""`gpu-policy` as tests run it: in their own process."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.build import pod
from webhook.admission import logs
from webhook.commands.main import main

ROOT = Path(__file__).parents[1]
POLICY = """\
apiVersion: gpupolicy.dev/v1alpha1
kind: GPUPolicy
metadata: {name: _default}
spec:
  rules:
    tolerations: {mode: enforce}
    runtimeClass: {mode: enforce}
    gpuLimits: {mode: enforce, maxPerPod: 4}
"""
INVENTORY = "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: nvidia}\nhandler: nvidia\n"


def gpu_policy(
    *arguments: object,
    stdin: str | bytes | None = None,
    env: Mapping[str, str | None] | None = None,
    charset: str = "utf-8",
) -> Result:
    """What the command prints and its exit status; whatever else it raises is raised here."""
    result = CliRunner(charset=charset).invoke(main, list(map(str, arguments)), input=stdin, env=env)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def serve(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> Result:
    """`gpu-policy serve`, which must end before there is a server; what it checks apart is checked in this process."""
    monkeypatch.setattr(logs, "configure", lambda _: None)  # it is for the whole process
    monkeypatch.setattr("webhook.commands.serve.run_apart", lambda check: check())
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return gpu_policy("serve", *arguments)


def with_sample_files(directory: Path) -> Path:
    """The directory, in which there are policies, an inventory and manifests, good and bad."""
    (directory / "policies").mkdir()
    files = {
        "policies/_default.yaml": POLICY,
        "good.yaml": yaml.safe_dump(pod(1)),
        "bad.yaml": yaml.safe_dump(pod(9)),
        "broken.yaml": "apiVersion: v1\nkind: Pod\n<<<<<<< HEAD\n",
        "empty.yaml": "",
        "inventory.yaml": INVENTORY,
    }
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory
