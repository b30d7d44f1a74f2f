"""The doctor looks at what the replicas share about images, and only where they do."""

import base64
from typing import Any

from tests.deploy.manifests import needs_helm, rendered, shipped
from tests.deploy.value_sets import LOOKING_UP
from tests.doctor.stored import said as found_by
from tests.golden import each
from tests.images.replicas import config
from webhook.doctor.doctor_report import DoctorFinding, Status
from webhook.doctor.installation import WebhookDeployment
from webhook.doctor.shared_objects import image_results
from webhook.images.shared_results import KEY, pack

PATH = "/api/v1/namespaces/gpu-policy/configmaps/gpu-policy-images"
RESULTS = {"docker.io/library/a:1": (1, config("a")), "docker.io/library/b:1": (2, config("b"))}


def said(deployment: dict[str, Any], objects: dict[str, Any]) -> list[DoctorFinding]:
    return found_by(image_results, objects, deployment=WebhookDeployment(deployment))


def packed(content: bytes) -> dict[str, Any]:
    return {"binaryData": {KEY: base64.b64encode(content).decode()}}


def test_without_look_ups_there_is_nothing_to_say() -> None:
    assert said(shipped().one("Deployment"), {}) == []


@needs_helm
@each(
    "found, status, text",
    {
        "missing": (None, Status.PROBLEM, "there is no ConfigMap gpu-policy/gpu-policy-images"),
        "empty": ({}, Status.OK, "0 images are known to all replicas"),
        "filled": (packed(pack(RESULTS)[1]), Status.OK, "2 images are known to all replicas"),
        "garbage": (packed(b"hello"), Status.WARNING, "does not hold image information"),
    },
)
def test_it_says_what_the_replicas_share(found: dict[str, Any] | None, status: Status, text: str) -> None:
    (finding,) = said(rendered(LOOKING_UP).one("Deployment"), {} if found is None else {PATH: found})
    assert finding.status is status
    assert text in finding.found
    assert bool(finding.remedy) is (status is not Status.OK)


@needs_helm
def test_replicas_that_share_nothing_are_a_warning() -> None:
    deployment = rendered(LOOKING_UP).one("Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container["args"] = [argument for argument in container["args"] if not argument.startswith("--image-results")]
    (finding,) = said(deployment, {})
    assert finding.status is Status.WARNING
    assert finding.remedy == "start them with --image-results NAMESPACE/NAME"
