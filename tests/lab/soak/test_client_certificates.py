"""An API server that shows a certificate when it calls webhooks, and a webhook that answers nobody else."""

import http.client
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import HOST, NAMESPACE, SERVICE, Installation
from tests.e2e.objects import POLICIES, gpu_pod
from tests.server.serving import make_certificate

NAME = "api-server"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A webhook that is registered with an API server of its own, which has a certificate of the name NAME."""
    if reason := ControlPlane.missing():
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("client-certificates")
    plane = ControlPlane(directory)
    installation = Installation(plane, tmp_path_factory.mktemp("installation"))
    installation.write_policy("judged", POLICIES["judged"])
    plane.flags.append(f"--admission-control-config-file={admission_configuration(directory, installation.port)}")
    try:
        plane.start()
        plane.namespace(NAMESPACE)
        plane.namespace("judged-probe")
        plane.webhook_service(NAMESPACE, SERVICE, installation.port)
        installation.start()
        installation.register()
        eventually(installation.is_asked)
        yield installation
    finally:
        installation.stop()
        plane.stop()


def admission_configuration(directory: Path, port: int) -> Path:
    """The file that tells an API server how to show who it is to the webhook; it also makes the certificate."""
    certificate, key = make_certificate(directory, NAME)
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "users": [{"name": name, "user": user} for name in (HOST, f"{HOST}:{port}")],
    }
    (directory / "webhook-clients").write_text(yaml.safe_dump(kubeconfig))
    configuration = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": str(directory / "webhook-clients"),
    }
    plugins = [
        {"name": name, "configuration": configuration}
        for name in ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
    ]
    file = directory / "admission.yaml"
    document = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins}
    file.write_text(yaml.safe_dump(document))
    return file


def restart(installation: Installation, *flags: str) -> None:
    installation.stop()
    installation.start(*flags)


def create(installation: Installation) -> tuple[int, str]:
    """Status and message of the answer to a pod with too many GPUs, which nobody may let in."""
    path = "/api/v1/namespaces/judged-probe/pods?dryRun=All"
    status, answer = installation.plane.raw("POST", path, gpu_pod("many", gpus=100))
    return status, answer["message"]


def direct(installation: Installation, *certificate: Path) -> tuple[int, str]:
    """Status and text of the answer to somebody who asks the webhook itself, perhaps with a certificate and its key."""
    trust = ssl.create_default_context(cafile=str(installation.files.ca_file))
    if certificate:
        trust.load_cert_chain(*certificate)
    connection = http.client.HTTPSConnection("127.0.0.1", installation.port, timeout=10, context=trust)
    try:
        connection.request("POST", "/validate", "{}", {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_a_webhook_that_wants_to_see_the_api_servers_certificate_sees_it(installed: Installation) -> None:
    authority = installed.plane.directory / f"{NAME}.crt"
    restart(installed, f"--client-ca={authority}", f"--client-name={NAME}")
    status, message = create(installed)
    assert (status, "requests 100 GPUs" in message) == (403, True)
    assert installed.get("/readyz")[0] == 200
    assert direct(installed)[0] == 403
