"""The doctor says whether pods reach the port of the reviews, as far as NetworkPolicies tell."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from tests.deploy.manifests import shipped
from webhook.doctor import reachable
from webhook.doctor.cluster import DoctorCluster
from webhook.doctor.doctor_report import Status
from webhook.doctor.installation import Installation, Place

PATH = "/apis/networking.k8s.io/v1/namespaces/gpu-policy/networkpolicies"
MINE = {"matchLabels": {"app.kubernetes.io/name": "gpu-policy"}}
OTHERS = {"matchLabels": {"app": "other"}}
CONTROL_PLANE = {"ipBlock": {"cidr": "192.0.2.0/28"}}


class Holding(DoctorCluster):
    """A cluster with these NetworkPolicies and the Deployment of install.yaml."""

    def __init__(self, *policies: Any, pod: Mapping[str, Any] = MappingProxyType({}), arguments: tuple[str, ...] = ()):
        self.policies = policies
        self.deployment = shipped().one("Deployment")
        self.deployment["spec"]["template"]["spec"].update(pod)
        self.deployment["spec"]["template"]["spec"]["containers"][0]["args"] += arguments

    def find(self, *_: Any) -> Any:
        return self.deployment

    def items(self, path: str, *_: Any) -> Iterator[Any]:
        assert path == PATH
        yield from self.policies


def network_policy(*peers: Any, ports: Any = ({"port": 8443},), selector: Any = MINE, **spec: Any) -> dict[str, Any]:
    rule = {"ports": list(ports), **({"from": list(peers)} if peers else {})}
    return {"metadata": {"name": "one"}, "spec": {"podSelector": selector, "ingress": [rule], **spec}}


def block(cidr: str, *but: str) -> dict[str, Any]:
    return {"ipBlock": {"cidr": cidr, "except": list(but)}}


def said(*policies: Any, **cluster: Any) -> list[tuple[Status, str]]:
    return [(one.status, one.found) for one in reachable.look(Installation(Holding(*policies, **cluster), Place()))]


@pytest.mark.parametrize(
    "policies",
    [
        pytest.param([network_policy()], id="everybody"),
        pytest.param([network_policy(ports=())], id="on every port"),
        pytest.param([network_policy(ports=[{"port": "https"}])], id="a port by name"),
        pytest.param([network_policy(ports=[{"port": 8000, "endPort": 9000}])], id="a range of ports"),
        pytest.param([network_policy({"namespaceSelector": {}})], id="every namespace"),
        pytest.param([network_policy(block("0.0.0.0/0"))], id="any address"),
        pytest.param([network_policy(block("::/0"))], id="any address of the other family"),
        pytest.param([network_policy(CONTROL_PLANE), network_policy()], id="one of two policies"),
        pytest.param([network_policy(selector={})], id="a policy for every pod of the namespace"),
    ],
)
def test_A33_policies_that_let_every_pod_in_are_named(policies: Any) -> None:
    assert said(*policies) == [(Status.WARNING, "NetworkPolicy one lets every pod reach port 8443")]


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([], id="the control plane alone"),
        pytest.param([network_policy(ports=[{"port": 8444}])], id="metrics for all"),
        pytest.param([network_policy(ports=[{"port": 8443, "protocol": "UDP"}])], id="UDP"),
        pytest.param([network_policy(policyTypes=["Egress"])], id="one about egress"),
        pytest.param([network_policy(selector=OTHERS)], id="other pods"),
    ],
)
def test_A33_addresses_that_are_let_in_are_named_with_what_cannot_be_seen(others: Any) -> None:
    found = (
        "NetworkPolicies let none but whoever has an address in 192.0.2.0/28 reach port 8443; the doctor cannot see "
        "whether the network enforces them"
    )
    assert said(network_policy(CONTROL_PLANE), *others) == [(Status.OK, found)]


def test_A33_a_policy_without_rules_lets_nobody_in() -> None:
    ((status, found),) = said({"metadata": {"name": "none"}, "spec": {"podSelector": MINE}})
    assert (status, found.partition(";")[0]) == (Status.OK, "NetworkPolicies let nobody reach port 8443")


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
        "NetworkPolicies let none but pods that NetworkPolicy one selects and whoever has an address in 192.0.2.0/28 "
        "reach port 8443",
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
