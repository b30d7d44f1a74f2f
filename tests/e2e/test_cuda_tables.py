"""Rows of `_cuda.yaml` on a real API server: they take effect while the webhook runs, and a fault in them none."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import add_node, cuda_pod, remove_node
from tests.e2e.installation import Installation

HEAD = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUCudaTables\nmetadata: {name: _cuda}\n"
TOOLKIT = '{cuda: "14.0.0", driver: "650.10.02", source: me, date: unknown}'
BRANCH = '{branch: 650, cuda: "14.0", source: me, date: unknown}'
ROWS = f"{HEAD}spec:\n  toolkits: [{TOOLKIT}]\n  drivers: [{BRANCH}]\n"
NO_ROWS = f"{HEAD}spec: {{}}\n"
IMAGE = "nvidia/cuda:14.0.0-base-ubuntu26.04"
DRIVER = "nvidia.com/cuda.driver-version.full"
NODES = {"older-650": "650.05.01", "newer-650": "650.20.01"}


def rows(webhook: Installation, text: str) -> None:
    """Write the file as an editor does, in one step."""
    staged = webhook.directory / "staged.yaml"
    staged.write_text(text)
    staged.replace(webhook.policies / "_cuda.yaml")


@pytest.fixture
def site(control_plane: ControlPlane, webhook: Installation) -> Iterator[Installation]:
    """Two nodes with a driver branch that the release does not know, and afterwards no row and no node of them."""
    for name, driver in NODES.items():
        known = {DRIVER: driver, "nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-5090"}
        add_node(control_plane, name, known)
    yield webhook
    rows(webhook, NO_ROWS)
    for name in NODES:
        remove_node(control_plane, name)


def test_a_cuda_newer_than_the_release_is_refused_and_steered_once_a_row_names_it(
    control_plane: ControlPlane, site: Installation, make_namespace: Callable[[str], str]
) -> None:
    """Unknown before, certain after, without a restart; what is faulty changes nothing; an empty file takes it back."""
    path = f"/api/v1/namespaces/{make_namespace('tables')}/pods?dryRun=All"

    def stored(on: str = "") -> tuple[int, dict[str, Any]]:
        status, answer = control_plane.raw("POST", path, cuda_pod("p", IMAGE, on))
        return status, dict(answer)

    def is_steered() -> bool:
        return '"650.05.01"' in json.dumps(stored()[1].get("spec", {}).get("affinity", {}))

    eventually(lambda: stored("older-650")[0] == 201)
    assert not is_steered()

    rows(site, ROWS)
    eventually(lambda: stored("older-650")[0] == 403)
    message = stored("older-650")[1]["message"]
    assert "needs driver 650.10.02 or newer (CUDA 14.0.0)" in message
    assert stored("newer-650")[0] == 201
    assert is_steered()

    rows(site, ROWS.replace("14.0.0", "14.0"))
    eventually(lambda: "gpu_policy_policy_reload_ok 0.0" in site.get("/metrics")[1])
    assert stored("older-650")[0] == 403

    rows(site, NO_ROWS)
    eventually(lambda: stored("older-650")[0] == 201)
