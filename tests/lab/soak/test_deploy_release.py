"""A release from its installation to its end, with the real helm and the real kubectl on an API server of its own.

Mostly nothing answers here: what the replicas would write, the tests write. GPU pods are therefore refused while the
configurations are there, which shows that they are, and created when they are gone.
"""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.generate import CHART, INSTALL, helm
from tests.deploy.manifests import needs_helm, shipped
from tests.deploy.value_sets import AUTHORITY, TEAM
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.objects import gpu_pod
from tests.e2e.pod_process import PodProcess

NAME = "gpu-policy"
LABELS = f"app.kubernetes.io/instance={NAME}"
CONFIGURATIONS = [
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{NAME}" for kind in ("mutating", "validating")
]
SECRET = f"/api/v1/namespaces/{NAME}/secrets/gpu-policy-tls"
BUNDLE = base64.b64encode(AUTHORITY.encode()).decode()
MADE = {"ca.crt": BUNDLE, "tls.crt": BUNDLE}
ENTRIES = 6
"""Entries of both configurations in install.yaml."""
REQUIRED = {"webhook": {"mutate": {"failurePolicy": "Fail"}, "validate": {"failurePolicy": "Fail"}}}
"""Older clusters get Ignore by default, and then nobody would notice the configurations."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server with controllers, and a home directory for what helm keeps."""
    if reason := ControlPlane.missing():
        pytest.skip(reason)
    plane = ControlPlane(tmp_path_factory.mktemp("release"))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HOME", str(plane.directory))
        try:
            plane.start()
            plane.start_controller_manager()
            plane.namespace("tenant")
            yield plane
        finally:
            plane.stop()


@pytest.fixture
def run(plane: ControlPlane) -> Iterator[Callable[..., str]]:
    """Helm on that server, as `run(command, values, *arguments)`; the release is gone after the test.

    The namespace is made beforehand, as --create-namespace does.
    """
    where = (f"--kubeconfig={plane.kubeconfig}", f"--namespace={NAME}")

    def run_helm(command: str, values: dict[str, Any] | None = None, *arguments: str) -> str:
        chart = [str(CHART), "--values=-"] if command in {"install", "upgrade"} else []
        return helm(command, NAME, *chart, *where, *arguments, values=values)

    plane.namespace(NAME)
    yield run_helm
    run_helm("uninstall", None, "--ignore-not-found")
    plane.kubectl("delete", "namespace", NAME, "--ignore-not-found")


@pytest.fixture
def manifest(plane: ControlPlane) -> Iterator[Path]:
    """install.yaml; what was applied of it is gone after the test."""
    yield INSTALL
    plane.kubectl("delete", "--ignore-not-found", "-f", str(INSTALL))


def ask_nobody(plane: ControlPlane) -> None:
    """Have the Service lead to this machine, where nothing listens on its port."""
    away = {"spec": {"type": "ExternalName", "externalName": "localhost", "clusterIP": None, "clusterIPs": None}}
    status, answer = plane.raw("PATCH", f"/api/v1/namespaces/{NAME}/services/{NAME}", away)
    assert status == 200, answer


def creating_a_gpu_pod(plane: ControlPlane) -> int:
    """The status that a dry run is answered with."""
    return plane.raw("POST", "/api/v1/namespaces/tenant/pods?dryRun=All", gpu_pod("trainer"))[0]


def left_over(plane: ControlPlane) -> list[str]:
    """Every object of the release, of every kind that can be listed; an error while one of the kinds is going."""
    kinds = plane.kubectl("api-resources", "--verbs=list", "--output=name").stdout.split()
    kinds = [kind for kind in kinds if kind not in {"events", "events.events.k8s.io", "componentstatuses"}]
    asked = ("get", ",".join(kinds), "--all-namespaces", f"--selector={LABELS}", "--output=name")
    found = plane.kubectl(*asked, check=False)
    return [found.stderr] if found.returncode else found.stdout.split()


def write_as_replicas_do(plane: ControlPlane) -> None:
    """Replace the Secret and both configurations with what self-made certificates add to them."""
    for path in (SECRET, *CONFIGURATIONS):
        body = plane.raw("GET", path)[1]
        if path == SECRET:
            body["data"] = MADE
        for entry in body.get("webhooks", []):
            entry["clientConfig"]["caBundle"] = BUNDLE
        assert plane.raw("PUT", path, body)[0] == 200


def written(plane: ControlPlane) -> list[Any]:
    """What is there of it."""
    configurations = [plane.raw("GET", path)[1] for path in CONFIGURATIONS]
    bundles = [entry["clientConfig"].get("caBundle") for one in configurations for entry in one["webhooks"]]
    return [plane.raw("GET", SECRET)[1].get("data"), *bundles]


def timeouts(plane: ControlPlane) -> list[int]:
    return [plane.raw("GET", path)[1]["webhooks"][0]["timeoutSeconds"] for path in CONFIGURATIONS]


def has_its_pods(plane: ControlPlane) -> bool:
    return len(plane.raw("GET", f"/api/v1/namespaces/{NAME}/pods")[1]["items"]) == 3


@needs_helm
def test_after_helm_uninstall_nothing_is_left_and_gpu_pods_are_created(
    plane: ControlPlane, run: Callable[..., str]
) -> None:
    run("install", REQUIRED)
    eventually(lambda: has_its_pods(plane))
    ask_nobody(plane)
    write_as_replicas_do(plane)
    eventually(lambda: creating_a_gpu_pod(plane) == 500)
    run("uninstall")
    eventually(lambda: creating_a_gpu_pod(plane) == 201)
    eventually(lambda: left_over(plane) == [])  # the garbage collector looks for new kinds twice a minute


def test_after_kubectl_delete_nothing_is_left_and_gpu_pods_are_created(plane: ControlPlane, manifest: Path) -> None:
    """One command each way; a namespace of the level restricted takes the pods without a warning."""
    assert plane.kubectl("apply", "-f", str(manifest)).stderr == ""
    eventually(lambda: has_its_pods(plane))
    ask_nobody(plane)
    write_as_replicas_do(plane)
    eventually(lambda: creating_a_gpu_pod(plane) == 500)
    plane.kubectl("delete", "--ignore-not-found", "-f", str(manifest))
    eventually(lambda: creating_a_gpu_pod(plane) == 201)
    eventually(lambda: left_over(plane) == [])


CHANGED = {
    "replicas": 5,
    "port": 10250,
    "commonLabels": {"team": "platform"},
    "policies": {"inline": {"team-vision.yaml": TEAM}},
    "webhook": {
        "mutate": {"timeoutSeconds": 3, "failurePolicy": "Ignore"},
        "validate": {"timeoutSeconds": 4},
        "labels": {"admissions.enforcer/disabled": "true"},
        "namespaceSelector": {"exclude": ["a", "b"]},
    },
}


@needs_helm
def test_helm_upgrade_and_rollback_keep_what_the_replicas_wrote(plane: ControlPlane, run: Callable[..., str]) -> None:
    run("install", {})
    assert written(plane) == [None] * (1 + ENTRIES)
    write_as_replicas_do(plane)
    run("upgrade", CHANGED)
    assert (timeouts(plane), written(plane)) == ([3, 4], [MADE, *[BUNDLE] * ENTRIES])
    run("rollback")
    assert (timeouts(plane), written(plane)) == ([5, 5], [MADE, *[BUNDLE] * ENTRIES])


@pytest.mark.parametrize("how", [pytest.param([], id="client side"), pytest.param(["--server-side"], id="server side")])
def test_applying_a_changed_manifest_keeps_what_the_replicas_wrote(
    plane: ControlPlane, manifest: Path, how: list[str]
) -> None:
    objects = shipped()
    plane.kubectl("apply", *how, "-f", str(manifest))
    write_as_replicas_do(plane)
    for entry in objects.entries:
        entry["timeoutSeconds"] = 7
    objects.one("Secret")["metadata"]["labels"]["new"] = "label"
    plane.kubectl("apply", *how, "-f", "-", input=yaml.safe_dump_all(objects))
    assert (timeouts(plane), written(plane)) == ([7, 7], [MADE, *[BUNDLE] * ENTRIES])


@needs_helm
def test_a_source_of_certificates_is_changed_without_a_conflict_over_a_secret(
    plane: ControlPlane, run: Callable[..., str]
) -> None:
    run("install", {})
    write_as_replicas_do(plane)
    existing = {"source": "existing", "existing": {"secretName": "mine", "caBundle": AUTHORITY}}
    run("upgrade", {"certificates": existing})
    assert plane.raw("GET", SECRET)[0] == 404
    run("upgrade", {"certificates": {"source": "self"}})
    assert plane.raw("GET", SECRET)[0] == 200


def test_a_replica_with_the_arguments_files_and_rights_of_the_pods_is_ready_and_trusted(
    plane: ControlPlane, manifest: Path, tmp_path: Path
) -> None:
    plane.kubectl("apply", "-f", str(manifest))
    replica = PodProcess(plane, tmp_path)
    try:
        replica.start()
        for name in ("mutating", "validating"):
            sample = f'gpu_policy_webhook_configuration_ok{{configuration="{name}"}}'
            eventually(lambda sample=sample: replica.metrics().get(sample) == 1)
        assert replica.metrics()['gpu_policy_certificate_expiry_seconds{certificate="ca_bundle"}'] > 0
    finally:
        replica.stop()
    data, *bundles = written(plane)
    assert {"ca.crt", "tls.crt", "tls.key"} <= data.keys()
    assert bundles == [data["ca-bundle.crt"]] * ENTRIES
