"""The doctor says whether pods reach the port of the reviews, as far as NetworkPolicies tell."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from tests.deploy.manifests import shipped
from webhook.doctor import reachable
from webhook.doctor.cluster import DoctorCluster, UnavailableError
from webhook.doctor.doctor_report import Status
from webhook.doctor.installation import Installation, Place

PATHS = {
    "/apis/networking.k8s.io/v1/namespaces/gpu-policy/networkpolicies": "policies",
    "/api/v1/nodes": "nodes",
}
NODE = {"metadata": {"name": "n1"}, "spec": {"podCIDRs": ["10.8.1.0/24", "fd00:8:1::/64"]}}
NEXT = {"metadata": {"name": "n2"}, "spec": {"podCIDRs": ["10.8.2.1/24"]}}
MINE = {"matchLabels": {"app.kubernetes.io/name": "gpu-policy"}}
OTHERS = {"matchLabels": {"app": "other"}}
CONTROL_PLANE = {"ipBlock": {"cidr": "192.0.2.0/28"}}


class Holding(DoctorCluster):
    """A cluster with these NetworkPolicies, a node, and the Deployment of install.yaml."""

    def __init__(self, *policies: Any, pod: Mapping[str, Any] = MappingProxyType({}), arguments: tuple[str, ...] = ()):
        self.policies, self.nodes = policies, [NODE, NEXT]
        self.deployment = shipped().one("Deployment")
        self.deployment["spec"]["template"]["spec"].update(pod)
        self.deployment["spec"]["template"]["spec"]["containers"][0]["args"] += arguments

    def find(self, *_: Any) -> Any:
        return self.deployment

    def items(self, path: str, *_: Any) -> Iterator[Any]:
        found = getattr(self, PATHS[path])
        if found is None:
            raise UnavailableError("forbidden")
        yield from found


def network_policy(*peers: Any, ports: Any = ({"port": 8443},), selector: Any = MINE, **spec: Any) -> dict[str, Any]:
    rule = {"ports": list(ports), **({"from": list(peers)} if peers else {})}
    return {"metadata": {"name": "one"}, "spec": {"podSelector": selector, "ingress": [rule], **spec}}


def block(cidr: str, *but: str) -> dict[str, Any]:
    return {"ipBlock": {"cidr": cidr, "except": list(but)}}


def said(*policies: Any, **cluster: Any) -> list[tuple[Status, str]]:
    return [(one.status, one.found) for one in reachable.look(Installation(Holding(*policies, **cluster), Place()))]


@pytest.mark.parametrize(
    ("policies", "who"),
    [
        pytest.param([network_policy()], "every pod", id="everybody"),
        pytest.param([network_policy(ports=())], "every pod", id="on every port"),
        pytest.param([network_policy(ports=[{"port": "https"}])], "every pod", id="a port by name"),
        pytest.param([network_policy(ports=[{"port": 8000, "endPort": 9000}])], "every pod", id="a range of ports"),
        pytest.param([network_policy({"namespaceSelector": {}})], "every pod", id="every namespace"),
        pytest.param([network_policy(block("0.0.0.0/0"))], "pods with addresses in 0.0.0.0/0", id="any address"),
        pytest.param(
            [network_policy(block("10.0.0.0/8"))], "pods with addresses in 10.0.0.0/8", id="addresses of pods"
        ),
        pytest.param([network_policy(block("10.8.1.5/32"))], "pods with addresses in 10.8.1.5/32", id="of one pod"),
        pytest.param(
            [network_policy(block("10.8.0.0/16", "10.8.1.0/24"))], "pods with addresses in 10.8.0.0/16", id="one node's"
        ),
        pytest.param([network_policy(block("010.8.0.0/16"))], "pods with addresses in 010.8.0.0/16", id="with zeros"),
        pytest.param([network_policy(block("fd00::/16"))], "pods with addresses in fd00::/16", id="the other family"),
        pytest.param([network_policy(CONTROL_PLANE), network_policy()], "every pod", id="one of two policies"),
        pytest.param([network_policy(selector={})], "every pod", id="a policy for every pod of the namespace"),
    ],
)
def test_A33_pods_that_are_let_in_are_told(policies: Any, who: str) -> None:
    assert said(*policies) == [(Status.WARNING, f"NetworkPolicy one lets {who} reach port 8443")]


@pytest.mark.parametrize(
    "policies",
    [
        pytest.param([network_policy(CONTROL_PLANE)], id="the control plane"),
        pytest.param([network_policy(block("10.0.0.0/8", "10.8.0.0/16"))], id="all but pods"),
        pytest.param([network_policy(CONTROL_PLANE), network_policy(ports=[{"port": 8444}])], id="metrics for all"),
        pytest.param(
            [network_policy(CONTROL_PLANE), network_policy(ports=[{"port": 8443, "protocol": "UDP"}])], id="UDP"
        ),
        pytest.param([network_policy(CONTROL_PLANE), network_policy(policyTypes=["Egress"])], id="one about egress"),
        pytest.param([network_policy(CONTROL_PLANE), network_policy(selector=OTHERS)], id="other pods"),
        pytest.param([{"metadata": {"name": "none"}, "spec": {"podSelector": MINE}}], id="a policy without rules"),
    ],
)
def test_A33_where_no_pod_is_let_in_it_is_said_what_cannot_be_seen(policies: Any) -> None:
    found = "NetworkPolicies let no pod reach port 8443; the doctor cannot see whether the network enforces them"
    assert said(*policies) == [(Status.OK, found)]


@pytest.mark.parametrize("nodes", [[], [{"metadata": {"name": "n1"}, "spec": {}}], None])
def test_A33_without_addresses_of_pods_on_nodes_the_finding_gives_no_assurance(nodes: Any) -> None:
    """Some networks assign addresses themselves, and some users may not read nodes."""
    cluster = Holding(network_policy(block("10.0.0.0/8")))
    cluster.nodes = nodes
    (finding,) = reachable.look(Installation(cluster, Place()))
    assert finding.found.startswith(
        "NetworkPolicies let none but pods with addresses in 10.0.0.0/8, if there are any, reach port 8443; "
    )


@pytest.mark.parametrize(
    "peer",
    [
        pytest.param({"podSelector": {}}, id="pods of its namespace"),
        pytest.param({"namespaceSelector": MINE}, id="pods of another namespace"),
        pytest.param({"namespaceSelector": {}, "podSelector": MINE}, id="some of every namespace"),
    ],
)
def test_A33_pods_that_are_selected_are_meant(peer: dict[str, Any]) -> None:
    ((status, found),) = said(network_policy(peer, CONTROL_PLANE))
    assert (status, found.partition(";")[0]) == (
        Status.OK,
        "NetworkPolicies let none but pods that NetworkPolicy one selects reach port 8443",
    )


def test_A33_without_a_policy_every_pod_may_reach_the_port() -> None:
    for policies in ([], [network_policy(CONTROL_PLANE, selector=OTHERS)]):
        found = "no NetworkPolicy selects the replicas: every pod may reach port 8443"
        assert said(*policies) == [(Status.WARNING, found)]


def test_A33_no_network_policy_is_about_the_nodes_addresses() -> None:
    ((status, found),) = said(network_policy(CONTROL_PLANE), pod={"hostNetwork": True})
    assert (status, "to which no NetworkPolicy applies" in found) == (Status.WARNING, True)


def test_A33_callers_that_have_to_show_a_certificate_are_let_in() -> None:
    ((status, found),) = said(arguments=("--client-ca=/ca.crt",))
    assert (status, "only for clients with a certificate of the authority" in found) == (Status.OK, True)


def test_A33_the_shipped_policies_let_everybody_in() -> None:
    """The addresses of API servers are not known before the cluster exists."""
    found = "NetworkPolicy gpu-policy lets every pod reach port 8443"
    assert said(*shipped().of("NetworkPolicy")) == [(Status.WARNING, found)]
