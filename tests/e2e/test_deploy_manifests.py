"""The manifests of deploy/: accepted by a real API server, complete, and in step with what they are made from."""

import base64
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from certs.files import ensure_files
from deploy.generate import MUTATE_RULES, VALIDATE_RULES, manifests
from tests.e2e.control_plane import ControlPlane
from webhook.model.workload import TEMPLATES

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
FILES = sorted(DEPLOY.rglob("*.yaml"))
REGISTRATIONS = sorted((DEPLOY / "registration").glob("*.yaml"))
NEWER_THAN_OLDEST = {"policy/v1 PodDisruptionBudget": (1, 21)}
"""Kinds that servers do not know before a version."""
ELSEWHERE = "gpu-policy-manifests"
"""Stands for the namespace gpu-policy on the server, so that tests which install the webhook find it untouched."""
SERVICE_ACCOUNT = f"system:serviceaccount:{ELSEWHERE}:gpu-policy"


def documents(file: Path, bundle: str = "Q0E=") -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text().replace("${CA_BUNDLE}", bundle)))


def elsewhere(file: Path) -> list[dict[str, Any]]:
    found = documents(file)
    for document in found:
        metadata = document["metadata"]
        if document["kind"] == "Namespace":
            metadata["name"] = metadata["labels"]["kubernetes.io/metadata.name"] = ELSEWHERE
        for place in (metadata, *document.get("subjects", [])):
            if "namespace" in place:
                place["namespace"] = ELSEWHERE
    return found


def relative(file: Path) -> str:
    return str(file.relative_to(DEPLOY))


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The API server with the namespace and the rights of the webhook."""
    rights = yaml.safe_dump_all(elsewhere(DEPLOY / "10-rbac.yaml"))
    namespace = yaml.safe_dump_all(elsewhere(DEPLOY / "00-namespace.yaml"))
    control_plane.kubectl("apply", "-f", "-", input=f"{namespace}---\n{rights}")
    yield control_plane
    control_plane.kubectl("delete", "-f", "-", input=rights)


@pytest.mark.parametrize("file", FILES, ids=relative)
def test_every_manifest_is_accepted_without_a_warning(server: ControlPlane, file: Path) -> None:
    """Validation on refuses unknown fields; where only a kind is too new for the server, that kind is named."""
    for document in elsewhere(file):
        kind = f"{document['apiVersion']} {document['kind']}"
        if server.version < (since := NEWER_THAN_OLDEST.get(kind, (1, 0))):
            pytest.skip(f"{kind} came with Kubernetes {since}; this is {server.version}")
        if "matchConditions" in str(document) and server.version < (1, 28):
            pytest.skip(f"matchConditions came with Kubernetes 1.28; this is {server.version}")
        done = server.kubectl("apply", "--validate=true", "--dry-run=server", "-f", "-", input=yaml.safe_dump(document))
        assert done.stdout.count("(server dry run)") == 1
        assert done.stderr == ""


def test_applying_the_folder_needs_no_second_try(server: ControlPlane) -> None:
    """Kubectl reads a folder by name, so what others stand on has to come first."""
    files = sorted(DEPLOY.glob("*.yaml"))
    kinds = [document["kind"] for file in files for document in documents(file)]
    assert kinds[:2] == ["Namespace", "ServiceAccount"]
    assert kinds.index("ConfigMap") < kinds.index("Deployment")
    assert not any("Webhook" in kind for kind in kinds), "registered before anything can answer"


def test_a_registration_without_its_bundle_is_refused(server: ControlPlane) -> None:
    file = DEPLOY / "registration" / "webhooks-before-1.28.yaml"
    done = server.kubectl("apply", "--dry-run=server", "-f", str(file), check=False)
    assert done.returncode == 1
    assert "base64" in done.stderr


def fill_in(file: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command that the head of a registration names, up to kubectl, in a folder that holds certificates."""
    (command,) = re.findall(r"^#   (CA_BUNDLE=.* &&)\n#   (sed .*) \|", file.read_text(), flags=re.MULTILINE)
    script = " ".join(command).replace("THIS_FILE", str(file))
    return subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl command here")
@pytest.mark.parametrize("file", REGISTRATIONS, ids=relative)
def test_the_bundle_is_filled_in_by_the_command_that_the_file_names(file: Path, tmp_path: Path) -> None:
    result = ensure_files(tmp_path / "certificates", ["gpu-policy.gpu-policy.svc"])
    for document in yaml.safe_load_all(fill_in(file, tmp_path).stdout):
        bundle = document["webhooks"][0]["clientConfig"]["caBundle"]
        assert base64.b64decode(bundle) == result.ca_file.read_bytes()


@pytest.mark.parametrize("file", REGISTRATIONS, ids=relative)
def test_nothing_is_registered_without_certificates(file: Path, tmp_path: Path) -> None:
    """An empty bundle would be accepted, and then every GPU pod refused."""
    assert fill_in(file, tmp_path).stdout == ""


@pytest.mark.parametrize(
    ("verb", "resource", "allowed"),
    [
        pytest.param("watch", "nodes", "yes", id="nodes"),
        pytest.param("list", "runtimeclasses.node.k8s.io", "yes", id="runtime classes"),
        pytest.param("list", "pods", "no", id="pods"),
        pytest.param("get", "secrets", "no", id="secrets"),
        pytest.param("patch", "nodes", "no", id="writing"),
    ],
)
def test_the_webhook_may_read_what_it_needs_and_nothing_else(
    server: ControlPlane, verb: str, resource: str, allowed: str
) -> None:
    done = server.kubectl("auth", "can-i", verb, resource, "--all-namespaces", f"--as={SERVICE_ACCOUNT}", check=False)
    assert done.stdout.strip() == allowed


# In step with what they are made from


@pytest.mark.parametrize("file", manifests(), ids=relative)
def test_generated_files_are_what_their_sources_make_of_them(file: Path) -> None:
    assert manifests()[file] == file.read_text(), "run `python -m deploy.generate`"


def test_every_workload_kind_whose_template_is_known_is_registered() -> None:
    registered = {(group, name) for rule in MUTATE_RULES for group in rule["apiGroups"] for name in rule["resources"]}
    assert registered == {(group, f"{kind.lower()}s") for group, kind in TEMPLATES} | {("", "pods")}
    assert {name for rule in VALIDATE_RULES for name in rule["resources"]} == {
        "pods",
        "pods/ephemeralcontainers",
        "pods/resize",
    }


def test_the_certificate_volume_holds_what_the_arguments_name() -> None:
    (deployment,) = documents(DEPLOY / "40-deployment.yaml")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    options = dict(argument.removeprefix("--").split("=") for argument in container["args"][1:])
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert (options["cert"], options["key"]) == (f"{mounts['tls']}/tls.crt", f"{mounts['tls']}/tls.key")
    assert options["policies"] == mounts["policies"]
    assert {volume["name"] for volume in pod["volumes"]} == set(mounts)
    (configmap,) = documents(DEPLOY / "20-policies.yaml")
    assert configmap["metadata"]["name"] == pod["volumes"][0]["configMap"]["name"]


def test_the_service_and_the_configurations_lead_to_the_port_that_is_served() -> None:
    (service,) = documents(DEPLOY / "30-service.yaml")
    (deployment,) = documents(DEPLOY / "40-deployment.yaml")
    template = deployment["spec"]["template"]
    (port,) = service["spec"]["ports"]
    (served,) = template["spec"]["containers"][0]["ports"]
    assert port["targetPort"] == served["name"]
    assert f"--port={served['containerPort']}" in template["spec"]["containers"][0]["args"]
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    for name in ("webhooks.yaml", "webhooks-before-1.28.yaml"):
        for document in documents(DEPLOY / "registration" / name):
            reference = document["webhooks"][0]["clientConfig"]["service"]
            assert (reference["namespace"], reference["name"]) == (
                service["metadata"]["namespace"],
                service["metadata"]["name"],
            )
            assert reference["port"] == port["port"]


@pytest.mark.parametrize(
    ("name", "policy", "conditions"),
    [
        pytest.param("webhooks.yaml", "Fail", 2, id="1.28 and newer"),
        pytest.param("webhooks-before-1.28.yaml", "Ignore", 0, id="older"),
    ],
)
def test_only_where_conditions_keep_other_pods_away_is_an_answer_required(
    name: str, policy: str, conditions: int
) -> None:
    for document in documents(DEPLOY / "registration" / name):
        (entry,) = document["webhooks"]
        assert entry["failurePolicy"] == policy
        assert len(entry.get("matchConditions", [])) == conditions
