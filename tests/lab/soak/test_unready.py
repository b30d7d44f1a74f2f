"""When replicas turn unready and when they stay ready, and what becomes of requests to one that is not."""

from collections.abc import Callable
from pathlib import Path

import yaml

from tests.e2e.control_plane import TENANT_TOKEN, ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.load_balancer import LoadBalancer
from tests.e2e.replica_set import Replica
from tests.lab.soak.site import Site

RIGHTS = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: soak-facts}
rules:
  - apiGroups: ["", node.k8s.io, scheduling.k8s.io]
    resources: [nodes, runtimeclasses, priorityclasses]
    verbs: [list, watch]
  - apiGroups: [resource.k8s.io]
    resources: [deviceclasses, resourceclaims, resourceclaimtemplates, resourceslices]
    verbs: [list, watch]
"""
BINDING = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: soak-facts}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: soak-facts}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]
"""


def test_a_replica_that_is_asked_before_it_is_ready_costs_no_create(
    open_site: Callable[..., Site], tmp_path: Path
) -> None:
    """Every fourth connection leads to a replica without facts. It answers 503, and the API server asks another one."""
    site = open_site(probe="/livez")
    unready = site.replicas.idle
    unready.arguments.append(f"--kubeconfig={leading_to('https://127.0.0.1:1', site.plane.kubeconfig, tmp_path)}")
    unready.begin()
    eventually(lambda: unready.port in site.balancer.members())
    with site.under_load("one of four members is not ready") as account:
        pass
    account.demand_no_gap()
    assert unready.metric("gpu_policy_errors_total", 'reason="not_ready"') > 0
    assert unready.metric("gpu_policy_requests_total") == 0


def test_a_replica_turns_unready_only_where_the_api_server_answers(site: Site, tmp_path: Path) -> None:
    """One replica loses the right to watch, for another the network falls silent; the third hears everything.

    The first turns unready after a minute. The second stays ready, since going unready would not help: its watches say
    nothing and end nothing, which it notices after two minutes. Both are well again when the fault has gone.
    """
    plane = site.plane
    barred, deaf, _ = site.replicas.running
    plane.kubectl("apply", "-f", "-", input=f"{RIGHTS}---\n{BINDING}")
    ways = [way_to(plane, tmp_path / name) for name in ("barred", "deaf")]
    tokens = (TENANT_TOKEN, plane.token)
    try:
        for replica, way, token in zip((barred, deaf), ways, tokens, strict=True):
            lead_by(way, replica, plane.kubeconfig_for(token), tmp_path)
        site.wait_for_members()
        with site.under_load("watches end without a word") as account:
            plane.kubectl("delete", "-f", "-", input=BINDING)
            ways[0].stop()
            ways[0].start()
            ways[1].freeze()
            eventually(lambda: barred.get("/readyz")[0] == 503)
            assert "stale although the API server answers" in barred.get("/readyz")[1]
            eventually(lambda: deaf.metric("gpu_policy_apiserver_reachable") == 0, seconds=200)
            assert deaf.is_ready()
            eventually(lambda: barred.port not in site.balancer.members())
            assert deaf.port in site.balancer.members()
            plane.kubectl("apply", "-f", "-", input=BINDING)
            ways[1].thaw()
            eventually(barred.is_ready)
            eventually(lambda: deaf.metric("gpu_policy_apiserver_reachable") == 1)
        account.demand_no_gap()
    finally:
        for way in ways:
            way.stop()
        plane.kubectl("delete", "--ignore-not-found", "-f", "-", input=f"{RIGHTS}---\n{BINDING}")


def way_to(plane: ControlPlane, directory: Path) -> LoadBalancer:
    """A way to the API server that can be cut off or fall silent."""
    directory.mkdir()
    way = LoadBalancer(directory, [int(plane.url.rpartition(":")[2])])
    way.start()
    return way


def lead_by(way: LoadBalancer, replica: Replica, kubeconfig: Path, directory: Path) -> None:
    """Start the replica again, with its facts coming this way."""
    replica.stop()
    replica.arguments.append(f"--kubeconfig={leading_to(f'https://127.0.0.1:{way.port}', kubeconfig, directory)}")
    replica.start()


def leading_to(url: str, kubeconfig: Path, directory: Path) -> Path:
    """A copy of the kubeconfig that leads elsewhere."""
    content = yaml.safe_load(kubeconfig.read_text())
    content["clusters"][0]["cluster"]["server"] = url
    copy = directory / f"{kubeconfig.name}-{url.rpartition(':')[2]}"
    copy.write_text(yaml.safe_dump(content))
    return copy
