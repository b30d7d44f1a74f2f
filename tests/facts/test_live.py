"""Facts follow a real API server: what changes there is known here within seconds, whatever happens in between."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.control_plane import NODE_TOKEN, ControlPlane
from tests.e2e.eventually import eventually
from tests.facts.samples import node
from webhook.facts.facts import FactsSource
from webhook.facts.live import CLAIMS, SLICES, LiveFacts
from webhook.kubernetes.api_errors import ClusterConfigError
from webhook.kubernetes.watch import WatchTiming

pytestmark = pytest.mark.e2e

NODES = "/api/v1/nodes"
QUICK = WatchTiming(last_retry=1.0)


@pytest.fixture
def nodes(control_plane: ControlPlane) -> Iterator[list[str]]:
    """Two nodes, gone again after the test with all others whose names a test adds to the list."""
    names = ["live-a", "live-b"]
    for name in names:
        create_node(control_plane, name)
    yield names
    for name in names:
        control_plane.raw("DELETE", f"{NODES}/{name}")


def create_node(control_plane: ControlPlane, name: str) -> None:
    raw = node(name, labels={"zone": "a"})
    del raw["metadata"]["uid"], raw["status"]
    status, answer = control_plane.raw("POST", NODES, raw)
    assert status == 201, answer
    capacity = {"status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}}}
    status, answer = control_plane.raw("PATCH", f"{NODES}/{name}/status", capacity)
    assert status == 200, answer


def relabel(control_plane: ControlPlane, name: str, zone: str) -> None:
    status, answer = control_plane.raw("PATCH", f"{NODES}/{name}", {"metadata": {"labels": {"zone": zone}}})
    assert status == 200, answer


@contextmanager
def following(kubeconfig: Path | None, timing: WatchTiming = QUICK) -> Iterator[LiveFacts]:
    facts = LiveFacts(kubeconfig, timing=timing)
    facts.start()
    try:
        yield facts
    finally:
        facts.close()


def zones(facts: FactsSource) -> dict[str, str | None] | None:
    """The zone of each node of these tests, None where facts are not loaded."""
    if facts.facts is None:
        return None
    return {name: found.label("zone") for name, found in facts.facts.cluster.nodes.items() if name.startswith("live-")}


def test_nodes_are_known_after_start_and_their_changes_within_seconds(control_plane, nodes):
    with following(control_plane.kubeconfig) as facts:
        eventually(lambda: zones(facts) == {"live-a": "a", "live-b": "a"})
        eventually(lambda: facts.status(time.monotonic()).ready)
        assert facts.facts is not None
        assert {"nvidia.com/gpu"} == set(facts.facts.cluster.nodes["live-a"].kind.gpu_resources)
        nodes.append("live-c")
        create_node(control_plane, "live-c")
        relabel(control_plane, "live-a", "b")
        control_plane.raw("DELETE", f"{NODES}/live-b")
        eventually(lambda: zones(facts) == {"live-a": "b", "live-c": "a"})


def test_an_api_server_that_goes_away_leaves_the_facts_and_is_followed_again_when_it_is_back(control_plane, nodes):
    with following(control_plane.kubeconfig) as facts:
        eventually(lambda: zones(facts) == {"live-a": "a", "live-b": "a"})
        control_plane.stop_apiserver()
        try:
            eventually(lambda: not facts.status(time.monotonic()).server_reachable)
            much_later = facts.status(time.monotonic() + 3600)
            assert (much_later.ready, much_later.stale) == (True, False)
            assert zones(facts) == {"live-a": "a", "live-b": "a"}
        finally:
            control_plane.start_apiserver()
        relabel(control_plane, "live-a", "b")
        control_plane.raw("DELETE", f"{NODES}/live-b")
        eventually(lambda: zones(facts) == {"live-a": "b"})
        assert facts.status(time.monotonic()).server_reachable


def test_what_must_not_be_listed_is_told_until_the_right_is_granted(control_plane, nodes):
    role = {
        "rules": [
            {
                "apiGroups": ["", "node.k8s.io", "scheduling.k8s.io", "resource.k8s.io"],
                "resources": ["nodes", "runtimeclasses", "priorityclasses", "deviceclasses", *CLAIMS.values(), SLICES],
                "verbs": ["list", "watch"],
            }
        ]
    }
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:node:n1"}
    binding = {
        "metadata": {"name": "live-facts"},
        "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "live-facts"},
    }
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    with following(control_plane.kubeconfig_for(NODE_TOKEN)) as facts:
        eventually(lambda: facts.status(time.monotonic()).detail.count("answered 403") >= 7)
        status = facts.status(time.monotonic())
        assert (status.loaded, status.ready, status.server_reachable) == (False, False, True)
        assert 'cannot list resource "nodes"' in status.detail
        try:
            control_plane.raw("POST", f"{rbac}/clusterroles", {"metadata": {"name": "live-facts"}, **role})
            control_plane.raw("POST", f"{rbac}/clusterrolebindings", binding)
            eventually(lambda: zones(facts) == {"live-a": "a", "live-b": "a"})
        finally:
            control_plane.raw("DELETE", f"{rbac}/clusterrolebindings/live-facts")
            control_plane.raw("DELETE", f"{rbac}/clusterroles/live-facts")


def test_in_a_cluster_the_service_account_is_used_and_its_faults_are_told(control_plane, nodes, tmp_path, monkeypatch):
    host, port = control_plane.url.removeprefix("https://").split(":")
    token = tmp_path / "token"
    token.write_text(control_plane.token)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_CERT_FILENAME", str(control_plane.ca_file))
    with following(None) as facts:
        eventually(lambda: zones(facts) == {"live-a": "a", "live-b": "a"})
    token.write_text("")
    with pytest.raises(
        ClusterConfigError, match=r"not in a cluster: Token file exists but empty; name a kubeconfig file"
    ):
        LiveFacts()
