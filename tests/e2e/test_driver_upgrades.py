"""A driver upgrade on a real API server: announced, rolled out node by node, and judged by what each node says."""

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.applying import apply
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import add_node, change, cuda_pod, labels, remove_node
from tests.e2e.installation import Installation

IMAGE = "nvidia/cuda:12.4.1-base-ubuntu22.04"
VOLTA = ("580.95.05", "Tesla-V100-SXM2-32GB", "7.0")
NODES = ("volta-1", "volta-2")
POOL = """spec:
  nodePools:
    - name: volta
      labels: {{pool: volta}}
      product: Tesla-V100-SXM2-32GB
      next: {{driver: "595.71.05", from: "{day}"}}
  rules: {{cudaDriver: {{mode: enforce}}}}
"""


@pytest.fixture
def site(control_plane: ControlPlane, webhook: Installation) -> Iterator[Installation]:
    """Two nodes with V100, which no branch after 580 drives; gone afterwards."""
    for name in NODES:
        add_node(control_plane, name, {**labels(*VOLTA), "pool": "volta"})
    yield webhook
    for name in NODES:
        remove_node(control_plane, name)


def test_an_upgrade_is_announced_and_then_judged_node_by_node(
    control_plane: ControlPlane, site: Installation, make_namespace: Callable[[str], str]
) -> None:
    """Warned of before, whatever the day says afterwards: only a node with the new driver refuses a pod."""
    namespace = make_namespace("upgrades")

    def applied(node: str) -> tuple[int, str]:
        return apply(control_plane, namespace, cuda_pod(f"on-{node}", IMAGE, node), dry_run=True)

    def is_warned() -> bool:
        status, said = applied("volta-1")
        return status == 0 and "from 1 December 2099 on, nodes of pool volta have driver 595.71.05" in said

    site.write_policy(namespace, POOL.format(day="2099-12-01"))
    eventually(is_warned)
    assert "there are no other nodes for the pod" in applied("volta-1")[1]

    site.write_policy(namespace, POOL.format(day="2020-12-01"))
    eventually(lambda: applied("volta-1") == (0, ""))

    change(control_plane, "volta-1", {"metadata": {"labels": labels("595.71.05", *VOLTA[1:])}})
    eventually(lambda: applied("volta-1")[0] == 1)
    volta = 'gpu_policy_nodes{driver="595.71.05",product="Tesla-V100-SXM2-32GB"} 1.0'
    assert volta in site.get("/metrics")[1]
    assert "driver branch 580 is the last for compute capability 7.0" in applied("volta-1")[1]
    assert applied("volta-2") == (0, "")
