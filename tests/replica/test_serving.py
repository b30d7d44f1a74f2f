"""What `serve` does about certificates before it serves: it waits, says why, and can be stopped while it waits."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.command_line import serve
from tests.e2e.eventually import eventually
from tests.golden import golden

ROOT = Path(__file__).resolve().parents[2]
REGISTRATION = [
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "gpu-policy"},
        "webhooks": [
            {"name": "a.example", "clientConfig": {}, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
        ],
    }
    for kind in ("Mutating", "Validating")
]

LISTED = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "Registries", "spec": {"presets": ["docker.io"]}}


def serving(tmp_path: Path, *more: str, kubeconfig: str = "") -> list[str]:
    (tmp_path / "kubeconfig").write_text(kubeconfig or kubeconfig_of("https://127.0.0.1:9"))
    (tmp_path / "webhooks.yaml").write_text(yaml.safe_dump_all(REGISTRATION))
    return [
        *(sys.executable, "-m", "webhook", "serve", f"--policies={ROOT / 'policies'}"),
        f"--kubeconfig={tmp_path / 'kubeconfig'}",
        *("--certificate-secret=gpu-policy/gpu-policy-tls", f"--certificate-dir={tmp_path / 'tls'}"),
        *("--certificate-name=gpu-policy.gpu-policy.svc", f"--registration={tmp_path / 'webhooks.yaml'}"),
        *more,
    ]


def kubeconfig_of(server: str) -> str:
    return yaml.safe_dump(
        {
            "clusters": [{"name": "a", "cluster": {"server": server}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "users": [{"name": "a", "user": {"token": "t"}}],
            "current-context": "a",
        }
    )


def test_without_an_api_server_it_waits_says_so_and_ends_when_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(serving(tmp_path), stdout=output, stderr=output)
    try:
        eventually(lambda: log.read_text().count("certificates: GET ") >= 2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in log.read_text()


@golden
def test_arguments_that_make_no_sense_are_explained(
    change: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registries = tmp_path / "registries.yaml"
    registries.write_text(yaml.safe_dump(LISTED))
    arguments = [argument.replace("REGISTRIES", str(registries)) for argument in change]
    result = serve(monkeypatch, *serving(tmp_path, *arguments)[4:])
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


def test_a_kubeconfig_that_leads_nowhere_is_explained_by_the_process_that_reads_it(tmp_path: Path) -> None:
    """The one that watches over the server ends with its status."""
    command = serving(tmp_path, kubeconfig="clusters: []")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "kubeconfig" in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr
