"""Mistakes in ConfigMaps of policies are refused by `kubectl apply`, on a real API server, and by nothing else.

The configurations are those that the chart makes for the server's version.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import runbook
from tests.deploy.manifests import needs_helm, rendered
from tests.e2e.applying import apply
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.installation import NAMESPACE, Installation
from tests.e2e.load_balancer import free_ports
from tests.e2e.objects import gpu_pod

pytestmark = pytest.mark.e2e

OURS, THEIRS = "gpu-policy-policies", "team-policies"
TEAM = (Path(__file__).resolve().parents[2] / "policies" / "team-vision.yaml").read_text()
SOUND = {"team-vision.yaml": TEAM}
MISTAKEN = {"team-vision.yaml": TEAM.replace("size: 16Gi", "sise: 16Gi")}
LINE = next(number for number, line in enumerate(TEAM.splitlines(), 1) if "size: 16Gi" in line)
REFUSAL = (
    f'admission webhook "policies.gpupolicy.dev" denied the request: team-vision.yaml:{LINE}: '
    "spec.rules.sharedMemory.sise: unknown key; known keys are ifMissing, memoryFraction, minGpus, mode, size; did you "
    "mean size?"
)
Raw = dict[str, Any]


def config_map(files: Mapping[str, str], name: str = OURS, **parts: Any) -> Raw:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": files, **parts}


def written(plane: ControlPlane, raw: Raw, *, dry_run: bool = False) -> tuple[int, str]:
    """Status and standard error of `kubectl apply` in the namespace of the webhook."""
    return apply(plane, NAMESPACE, raw, dry_run=dry_run)


def stored(plane: ControlPlane, name: str = OURS, namespace: str = NAMESPACE) -> Any:
    """The files of a ConfigMap; None where there is none."""
    status, answer = plane.raw("GET", f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    return answer["data"] if status == 200 else None


@contextmanager
def checking(webhook: Installation, entries: list[Raw], probe: str = OURS) -> Iterator[ControlPlane]:
    """The server, once it asks by these entries of the validating configuration."""
    plane = webhook.plane
    *_, validating = webhook.configurations()
    plane.kubectl("apply", "-f", "-", input=json.dumps({**validating, "webhooks": entries}))
    eventually(lambda: written(plane, config_map(MISTAKEN, probe), dry_run=True)[0] == 1)
    yield plane


def unanswered(webhook: Installation, **change: Any) -> Raw:
    """The validating configuration, in which the entry of policies leads nowhere, with a change of that entry."""
    (dead,) = free_ports(1)
    *_, validating = webhook.configurations()
    (entry,) = [one for one in validating["webhooks"] if one["name"] == "policies.gpupolicy.dev"]
    entry["clientConfig"]["service"]["port"] = dead
    entry.update(change)
    return validating


@pytest.fixture
def plane(webhook: Installation) -> Iterator[ControlPlane]:
    """The server, without a ConfigMap of policies."""
    yield webhook.plane
    for name in (OURS, THEIRS):
        webhook.plane.raw("DELETE", f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}")


def test_a_mistake_is_refused_with_file_line_and_key(plane: ControlPlane) -> None:
    status, stderr = written(plane, config_map(MISTAKEN))
    assert (status, REFUSAL in stderr) == (1, True), stderr
    assert stored(plane) is None


def test_what_was_stored_before_stays(plane: ControlPlane) -> None:
    assert written(plane, config_map(SOUND)) == (0, "")
    assert REFUSAL in written(plane, config_map(MISTAKEN))[1]
    change = json.dumps({"data": MISTAKEN})
    done = plane.kubectl("patch", "configmap", OURS, f"--patch={change}", namespace=NAMESPACE, check=False)
    assert REFUSAL in done.stderr
    assert stored(plane) == SOUND
    plane.kubectl("delete", "configmap", OURS, namespace=NAMESPACE)


def test_what_is_stored_with_a_mistake_can_be_labelled_and_deleted(plane: ControlPlane) -> None:
    of_another_release = {"app.kubernetes.io/name": "gpu-policy", "app.kubernetes.io/version": "99.0.0"}
    raw = config_map(MISTAKEN)
    raw["metadata"]["labels"] = of_another_release
    status, stderr = written(plane, raw)
    assert (status, "which runs here, finds a mistake: team-vision.yaml:" in stderr) == (0, True), stderr
    plane.kubectl("label", "configmap", OURS, "app.kubernetes.io/version-", "some=label", namespace=NAMESPACE)
    plane.kubectl("delete", "configmap", OURS, namespace=NAMESPACE)


@needs_helm
def test_a_config_map_of_ones_own_is_checked_as_the_chart_was_told_of_it(webhook: Installation) -> None:
    version = ".".join(map(str, webhook.plane.version)) + ".0"
    entries = rendered({"policies": {"configMaps": [THEIRS]}}, version=version).entries[1:]
    for made, ours in zip(entries, webhook.configurations()[-1]["webhooks"], strict=True):
        made["clientConfig"] = ours["clientConfig"]
    with checking(webhook, entries, THEIRS) as plane:
        raw = config_map(MISTAKEN, THEIRS)
        assert REFUSAL in written(plane, raw)[1]
        raw["data"] = SOUND
        assert written(plane, raw) == (0, "")


def test_the_runbooks_command_ends_what_is_said_of_policies_and_pods_are_judged_as_before(
    plane: ControlPlane, webhook: Installation, tmp_path: Path
) -> None:
    command, *_ = runbook.blocks("Storing policies unchecked")
    done = runbook.run(plane, tmp_path, command)
    assert (done.returncode, done.stderr) == (0, "")
    eventually(lambda: written(plane, config_map(MISTAKEN), dry_run=True) == (0, ""))
    assert webhook.is_asked()


def test_while_nobody_answers_for_policies_they_are_stored_and_pods_are_judged_as_before(
    plane: ControlPlane, webhook: Installation
) -> None:
    plane.kubectl("apply", "-f", "-", input=json.dumps(unanswered(webhook)))
    eventually(lambda: written(plane, config_map(MISTAKEN), dry_run=True) == (0, ""))
    assert written(plane, config_map(MISTAKEN)) == (0, "")
    assert webhook.is_asked()
    status, answer = plane.raw("POST", "/api/v1/namespaces/judged-probe/pods?dryRun=All", gpu_pod("late", gpus=100))
    assert (status, "requests 100 GPUs" in answer["message"]) == (403, True)
