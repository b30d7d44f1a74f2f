"""The commands of the runbook for an incident, run as they stand there: GPU pods get through, and are checked again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import runbook
from tests.doctor.breaks import LOG, MUTATING, VALIDATING, entry
from tests.doctor.site import Site, said, wrong
from tests.e2e.eventually import eventually
from tests.e2e.installation import HOST, REFUSED_LATE
from tests.e2e.objects import gpu_pod
from tests.e2e.replica_set import Replica
from webhook.doctor.doctor_report import Status

pytestmark = pytest.mark.e2e


class Incident:
    """An installation whose replica keeps the certificates, as the chart has it; `folder` is where somebody types."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site = site
        self.folder = folder
        registration = folder / "webhooks.yaml"
        registration.write_text(site.registration())
        arguments = [
            "--host=0.0.0.0",
            f"--kubeconfig={site.plane.kubeconfig}",
            "--certificate-secret=gpu-policy/gpu-policy-tls",
            f"--certificate-dir={folder / 'tls'}",
            f"--certificate-name={HOST}",
            f"--registration={registration}",
            "--certificate-settle-seconds=1",
        ]
        self.replica = Replica(folder / "replica", site.webhook.port, site.policies, arguments)
        (folder / "install.yaml").write_text(yaml.safe_dump_all(map(self._manifest, site.objects())))

    def types(self, heading: str, number: int = 0) -> str:
        """Run a block of a section; what it printed."""
        done = runbook.run(self.site.plane, self.folder, runbook.blocks(heading)[number])
        assert done.returncode == 0, done.stderr
        return done.stdout

    def delivers(self) -> None:
        """What the kubelet does a while after a change of the ConfigMap."""
        found = self.site.plane.raw("GET", self.site.path("ConfigMap", "gpu-policy-policies"))[1]
        self.replica.policies.replace(found["data"])

    def create(self, pod: dict[str, Any]) -> tuple[int, str]:
        """What becomes of a pod: status and message."""
        namespace = self.site.place.dry_run_namespace
        status, answer = self.site.plane.raw("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
        return status, answer.get("message", "")

    def is_checked(self) -> bool:
        """Whether a pod that asks for too much is refused, and one that does not is created."""
        return self.create(REFUSED_LATE)[0] == 403 and self.create(gpu_pod("good"))[0] == 201

    def _manifest(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """A manifest as it stands in a file, without what replicas write."""
        kind = manifest["kind"]
        if kind == "Secret":
            manifest = {**manifest, "data": None}
        for webhook in manifest.get("webhooks", []):
            webhook["clientConfig"]["caBundle"] = None
        collection = self.site.path(kind, "").removesuffix("/").split("/")
        metadata = dict(manifest["metadata"])
        if "namespaces" in collection:
            metadata["namespace"] = collection[collection.index("namespaces") + 1]
        version = "v1" if collection[1] == "api" else "/".join(collection[2:4])
        return {**manifest, "apiVersion": version, "metadata": metadata}


@pytest.fixture
def incident(site: Site, tmp_path: Path) -> Iterator[Incident]:
    site.stop()
    incident = Incident(site, tmp_path)
    try:
        incident.replica.start()
        eventually(incident.is_checked)
        yield incident
    finally:
        incident.replica.kill()
        site.start()


def problems(site: Site) -> list[tuple[str, str]]:
    """Check and status of what the doctor finds wrong."""
    return [(check, status) for check, status, _ in wrong(site.examined()) if status == "problem"]


WAYS = [
    pytest.param("Passing while nobody answers", id="failurePolicy Ignore"),
    pytest.param("Switching it off", id="configurations deleted"),
]


@pytest.mark.parametrize("way", WAYS)
def test_pods_are_created_although_no_replica_lives_and_checked_again_afterwards(incident: Incident, way: str) -> None:
    incident.replica.kill()
    eventually(lambda: incident.create(gpu_pod("good"))[0] == 500)
    incident.types(way)
    eventually(lambda: incident.create(gpu_pod("good"))[0] == 201)
    assert "configurations" in dict(problems(incident.site))

    incident.replica.start()
    incident.types("Switching back on", 1)
    eventually(incident.is_checked)
    eventually(lambda: problems(incident.site) == [])


@pytest.mark.parametrize("way", WAYS)
def test_the_whole_release_switches_it_back_on_as_well(incident: Incident, way: str) -> None:
    incident.types(way)
    eventually(lambda: dict(problems(incident.site)).keys() >= {"configurations"})
    incident.types("Switching back on", 4)
    eventually(incident.is_checked)
    eventually(lambda: problems(incident.site) == [])


ADDITIONS: list[dict[str, Any]] = [
    {"objectSelector": {"matchLabels": {"app": "nobody"}}},
    {"namespaceSelector": {"matchLabels": {"app": "nobody"}}},
    {"timeoutSeconds": 1, "failurePolicy": "Ignore", "reinvocationPolicy": "Never"},
]


@pytest.mark.parametrize("addition", ADDITIONS, ids="+".join)
def test_what_somebody_added_to_a_configuration_goes_away_by_what_the_doctor_says(
    incident: Incident, addition: dict[str, Any]
) -> None:
    """Applying the configuration again would leave it."""
    site = incident.site
    live = site.plane.raw("GET", site.path(MUTATING, "gpu-policy"))[1]
    live["webhooks"][0].update(addition)
    live["webhooks"].append({**live["webhooks"][0], "name": "another.example.com"})
    assert site.plane.raw("PUT", site.path(MUTATING, "gpu-policy"), live)[0] == 200
    findings = said(site.examined(), "configurations", Status.PROBLEM)
    assert all(any(field in finding.found for finding in findings) for field in addition), findings
    assert any("another.example.com" in finding.found for finding in findings)
    (block,) = {finding.remedy for finding in findings}
    assert block == runbook.blocks("Switching back on")[2].strip()
    incident.types("Switching back on", 2)
    eventually(incident.is_checked)
    eventually(lambda: problems(site) == [])


def test_a_deleted_configuration_is_left_deleted_by_the_replicas(incident: Incident) -> None:
    """They go on mending the one that is there, which shows that they had time to."""
    site = incident.site
    site.delete(MUTATING, "gpu-policy")
    entry(VALIDATING, "clientConfig/caBundle", "")(site)
    eventually(lambda: not said(site.examined(), "certificates", Status.PROBLEM))
    assert site.plane.raw("GET", site.path(MUTATING, "gpu-policy"))[0] == 404
    (finding,) = said(site.examined(), "configurations", Status.PROBLEM)
    assert "there is no mutating webhook configuration" in finding.found


def test_policies_that_only_warn_let_everything_pass_and_come_back(incident: Incident) -> None:
    incident.types("Refusing nothing")
    incident.delivers()
    eventually(lambda: incident.create(REFUSED_LATE)[0] == 201)
    status, answer = incident.site.plane.raw(
        "POST", f"/api/v1/namespaces/{incident.site.place.dry_run_namespace}/pods?dryRun=All", gpu_pod("good")
    )
    assert (status, "gpupolicy.dev/injected" in str(answer)) == (201, False)

    incident.types("Switching back on", 4)
    incident.delivers()
    eventually(incident.is_checked)


def test_rotations_are_asked_for_as_the_runbook_says(incident: Incident) -> None:
    """The annotation goes away when it is done, and the API server goes on trusting what is served."""
    site = incident.site

    def secret() -> dict[str, Any]:
        found: dict[str, Any] = site.plane.raw("GET", site.path("Secret", "gpu-policy-tls"))[1]
        return found

    before = secret()["data"]["tls.crt"]
    incident.types("Certificates")
    eventually(lambda: secret()["data"]["tls.crt"] != before)
    assert "gpupolicy.dev/rotate" not in (secret()["metadata"].get("annotations") or {})
    eventually(incident.is_checked)
    assert not said(site.examined(), "certificates", Status.PROBLEM)


def test_the_command_that_shows_the_log_is_the_one_in_the_doctors_remedies() -> None:
    assert LOG in runbook.FILE.read_text()
