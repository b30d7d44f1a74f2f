"""Shows the webhook in seconds: the real server over TLS reviews manifests, called as the API server would call it.

Run it by `make demo`. It needs nothing but this machine: certificates are made anew, the policies are in policies/, and
the cluster is examples/inventory.yaml.
"""

import base64
import copy
import difflib
import json
import ssl
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPSConnection
from pathlib import Path
from socket import socket
from typing import Any

import jsonpatch
import yaml
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
COMMAND = Path(sys.executable).with_name("gpu-policy")
START_TIMEOUT = 60.0
"""Seconds until the server must be ready."""


def main() -> int:
    """Show every example; the exit status is 0 when each got an answer."""
    console = Console(highlight=False, soft_wrap=True)
    if sys.stderr.isatty():
        print("The webhook starts, which takes some seconds.", file=sys.stderr)
    with tempfile.TemporaryDirectory() as directory, _server(Path(directory)) as client:
        for file in sorted(EXAMPLES.glob("[0-9]*.yaml")):
            _show(file, client, console)
    return 0


@contextmanager
def _server(directory: Path) -> Iterator["Client"]:
    """The server on a free port, until the block ends."""
    subprocess.run([COMMAND, "certs", directory, "--name", "localhost"], check=True, stdout=subprocess.DEVNULL)
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = (directory / "server.log").open("wb")
    options = {
        "--policies": ROOT / "policies",
        "--inventory": EXAMPLES / "inventory.yaml",
        "--cert": directory / "tls.crt",
        "--key": directory / "tls.key",
        "--host": "127.0.0.1",
        "--port": port,
    }
    arguments = [str(part) for option in options.items() for part in option]
    process = subprocess.Popen([COMMAND, "serve", *arguments], stdout=log, stderr=log)
    try:
        client = Client(port, directory / "ca.crt")
        if not client.wait_until_ready(process, time.monotonic() + START_TIMEOUT):
            sys.exit("the server did not start:\n" + (directory / "server.log").read_text())
        yield client
    finally:
        process.terminate()
        process.wait(30)
        log.close()


class Client:
    """A client that sends reviews as the API server does."""

    def __init__(self, port: int, ca_file: Path) -> None:
        self._port = port
        self._context = ssl.create_default_context(cafile=ca_file)

    def wait_until_ready(self, process: "subprocess.Popen[bytes]", deadline: float) -> bool:
        """Whether the server became ready before the deadline (on the monotonic clock)."""
        while time.monotonic() < deadline and process.poll() is None:
            try:
                if self._exchange("GET", "/readyz", None)[0] == 200:
                    return True
            except OSError:
                time.sleep(0.05)
        return False

    def ask(self, path: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """The response to an AdmissionReview about creating `manifest`."""
        group, _, version = manifest["apiVersion"].rpartition("/")
        kind = {"group": group, "version": version, "kind": manifest["kind"]}
        request = {
            "uid": str(uuid.uuid4()),
            "kind": kind,
            "resource": {"group": group, "version": version, "resource": manifest["kind"].lower() + "s"},
            "namespace": manifest["metadata"]["namespace"],
            "name": manifest["metadata"]["name"],
            "operation": "CREATE",
            "userInfo": {"username": "someone", "groups": ["system:authenticated"]},
            "object": manifest,
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        status, body = self._exchange("POST", path, json.dumps(review))
        if status != 200:
            sys.exit(f"{path} answered {status}: {body}")
        response: dict[str, Any] = json.loads(body)["response"]
        return response

    def _exchange(self, method: str, path: str, body: str | None) -> tuple[int, str]:
        connection = HTTPSConnection("localhost", self._port, context=self._context, timeout=20)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()


def _show(file: Path, client: Client, console: Console) -> None:
    text = file.read_text()
    manifest = yaml.safe_load(text)
    console.rule(Text(f"kubectl apply -f examples/{file.name}", style="bold"), align="left")
    console.print(Text(text.splitlines()[0], style="dim"))
    before = copy.deepcopy(manifest)
    changed: list[str] = []
    warnings: list[str] = []
    for path in ("/mutate", "/validate") if manifest["kind"] == "Pod" else ("/workloads",):
        response = client.ask(path, manifest)
        warnings += response.get("warnings", ())
        if not response["allowed"]:
            break
        if "patch" in response:
            patch = json.loads(base64.b64decode(response["patch"]))
            changed += [operation["path"] for operation in patch]
            manifest = jsonpatch.apply_patch(manifest, patch)
    for warning in warnings:
        console.print(Text(f"Warning: {warning}", style="yellow"))
    name = f"{manifest['kind']} {manifest['metadata']['namespace']}/{manifest['metadata']['name']}"
    if not response["allowed"]:
        console.print(Text(f"{name} refused\n{response['status']['message']}", style="red"))
    elif all(path.startswith("/metadata/annotations") for path in changed):
        console.print(Text(f"{name} created, unchanged{' but for its annotation' * bool(changed)}", style="green"))
    else:
        console.print(Text(f"{name} created, completed:", style="green"))
        _diff(before, manifest, console)
    console.print()


def _diff(before: Mapping[str, Any], after: Mapping[str, Any], console: Console) -> None:
    """Print the added lines with two lines around them."""
    old, new = (yaml.safe_dump(value, sort_keys=False).splitlines() for value in (before, after))
    for line in list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]:
        style = "green" if line.startswith("+") else "red" if line.startswith("-") else "dim"
        console.print(Text(line, style=style))


if __name__ == "__main__":
    sys.exit(main())
