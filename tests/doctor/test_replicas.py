"""The doctor finds what keeps the replicas alive and apart from pods, however it is written."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.deploy.manifests import shipped
from tests.doctor.stored import NOW
from tests.golden import each
from webhook.doctor.doctor_report import Status
from webhook.doctor.installation import DoctorCluster, Installation, Place, UnavailableError
from webhook.doctor.replicas import disruption_budget, port, served_policies, spread

MINE = {"matchLabels": {"app.kubernetes.io/name": "gpu-policy"}}
OTHERS = {"matchLabels": {"app": "other"}}
CONTROL_PLANE = {"ipBlock": {"cidr": "192.0.2.0/28"}}


class Holding(DoctorCluster):
    """A cluster with the Deployment of install.yaml, whose lists have these objects."""

    def __init__(self, *objects: Any, arguments: tuple[str, ...] = (), pages: Any = None, **pod: Any) -> None:
        self._objects, self._pages = objects, pages
        self._deployment = shipped().one("Deployment")
        spec = self._deployment["spec"]["template"]["spec"]
        spec.update(pod)
        spec["containers"][0]["args"] += arguments

    def find(self, path: str, *_: Any) -> Any:
        found = self._pages[path.split("%3A")[1]] if path.endswith("/statusz") else self._deployment
        if isinstance(found, Exception):
            raise found
        return found

    def now(self) -> Any:
        return NOW

    def items(self, *_: Any) -> Iterator[Any]:
        yield from self._objects


@each(
    "selector, expected",
    {
        "labels": (MINE, Status.OK),
        "other labels": (OTHERS, Status.WARNING),
        "expressions": (
            {"matchExpressions": [{"key": "app.kubernetes.io/name", "operator": "In", "values": ["gpu-policy"]}]},
            Status.OK,
        ),
        "labels and expressions that exclude them": (
            {**MINE, "matchExpressions": [{"key": "app.kubernetes.io/name", "operator": "DoesNotExist"}]},
            Status.WARNING,
        ),
        "an empty selector selects all pods of the namespace (policy/v1)": ({}, Status.OK),
        "no selector selects none": (None, Status.WARNING),
    },
)
def test_a_disruption_budget_is_found_by_its_whole_selector(selector: Any, expected: Status) -> None:
    budget = {"metadata": {"name": "some"}, "spec": {"selector": selector}}
    (found,) = disruption_budget(Installation(Holding(budget), Place()))
    assert found.status is expected


def network_policy(*peers: Any, ports: Any = ({"port": 8443},), selector: Any = MINE, **spec: Any) -> dict[str, Any]:
    rule = {"ports": list(ports), **({"from": list(peers)} if peers else {})}
    return {"metadata": {"name": "one"}, "spec": {"podSelector": selector, "ingress": [rule], **spec}}


OPEN = "NetworkPolicy one lets every pod reach port 8443"
UNSELECTED = "no NetworkPolicy selects the replicas: every pod may reach port 8443"
SHUT = (
    "NetworkPolicies let only the peers that they name reach port 8443; the doctor cannot see whether the network "
    "enforces them"
)


@each(
    "policies, said",
    {
        "everybody": ([network_policy()], OPEN),
        "on every port": ([network_policy(ports=())], OPEN),
        "a port by name": ([network_policy(ports=[{"port": "https"}])], OPEN),
        "a range of ports": ([network_policy(ports=[{"port": 8000, "endPort": 9000}])], OPEN),
        "every namespace": ([network_policy({"namespaceSelector": {}})], OPEN),
        "any address": ([network_policy({"ipBlock": {"cidr": "0.0.0.0/0"}})], OPEN),
        "one of two policies": (
            [network_policy(CONTROL_PLANE), network_policy() | {"metadata": {"name": "two"}}],
            OPEN.replace("one", "two"),
        ),
        "a policy for every pod of the namespace": ([network_policy(selector={})], OPEN),
        "shipped: addresses are not known yet": (shipped().of("NetworkPolicy"), OPEN.replace("one", "gpu-policy")),
        "no policy": ([], UNSELECTED),
        "a policy for other pods": ([network_policy(CONTROL_PLANE, selector=OTHERS)], UNSELECTED),
        "a policy about egress": ([network_policy(policyTypes=["Egress"])], UNSELECTED),
        "the control plane alone": ([network_policy(CONTROL_PLANE)], SHUT),
        "metrics for all": ([network_policy(ports=[{"port": 8444}])], SHUT),
        "pods of its namespace": ([network_policy({"podSelector": {}})], SHUT),
        "some of every namespace": ([network_policy({"namespaceSelector": {}, "podSelector": MINE})], SHUT),
        "no rules": ([{"metadata": {"name": "none"}, "spec": {"podSelector": MINE}}], SHUT),
    },
)
def test_policies_that_let_every_pod_reach_the_port_are_named(policies: list[Any], said: str) -> None:
    (found,) = port(Installation(Holding(*policies), Place()))
    assert (found.status, found.found) == (Status.OK if said == SHUT else Status.WARNING, said)


def test_no_network_policy_is_about_the_nodes_addresses() -> None:
    (found,) = port(Installation(Holding(network_policy(CONTROL_PLANE), hostNetwork=True), Place()))
    assert (found.status, "to which no NetworkPolicy applies" in found.found) == (Status.WARNING, True)


def test_callers_that_have_to_show_a_certificate_are_let_in() -> None:
    (found,) = port(Installation(Holding(arguments=("--client-ca=/ca.crt",)), Place()))
    assert (found.status, "only for clients with a certificate of the authority" in found.found) == (Status.OK, True)


def test_replicas_say_by_their_state_whether_they_are_well() -> None:
    """Not by words for people; a replica of another version says nothing of it."""
    state = {"notReady": "", "policies": "a" * 64, "refusedPolicies": ""}
    pages = {
        "well": state,
        "slow": state | {"notReady": "facts: not loaded yet"},
        "wrong": state | {"refusedPolicies": "team.yaml:1: unknown rule"},
        "gone": UnavailableError("the API server answered 503: connection refused"),
        "old": None,
    }
    pods = [{"metadata": {"name": name}, "status": {"phase": "Running"}} for name in pages]
    installation = Installation(Holding(*pods, pages=pages), Place())
    installation.policies = type("Policies", (), {"hash": "a" * 64})
    assert [(one.status, one.found) for one in served_policies(installation)] == [
        (Status.PROBLEM, "replica slow is not ready: facts: not loaded yet"),
        (
            Status.PROBLEM,
            "replica wrong refused the policies on disk and keeps the last good set: team.yaml:1: unknown rule",
        ),
        (Status.SKIPPED, "replica gone cannot be asked: the API server answered 503: connection refused"),
        (Status.SKIPPED, "replica old cannot be asked: it is of another version than this command"),
        (Status.OK, "3 replicas serve the policies aaaaaaaaaaaa"),
    ]


@each("minutes, status", {"just changed": (1, Status.WARNING), "changed a while ago": (10, Status.PROBLEM)})
def test_replicas_that_do_not_take_up_a_changed_policy_are_a_problem_after_a_while(
    minutes: int, status: Status
) -> None:
    """Kubelets need a minute or two; only then is it a fault."""
    pages = {name: {"notReady": "", "policies": name * 64, "refusedPolicies": ""} for name in "ab"}
    pods = [{"metadata": {"name": name}, "status": {"phase": "Running"}} for name in pages]
    installation = Installation(Holding(*pods, pages=pages), Place())
    installation.policies = type("Policies", (), {"hash": "a" * 64})
    written = f"{NOW - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"
    installation.policy_config_maps = (({}, {"metadata": {"creationTimestamp": written}}),)
    (found,) = served_policies(installation)
    assert (found.status, found.found) == (
        status,
        "replicas serve different policies: a: aaaaaaaaaaaa; b: bbbbbbbbbbbb",
    )


def test_without_pods_nobody_can_be_asked() -> None:
    with pytest.raises(UnavailableError, match="no pod of the Deployment runs, so there is no replica to ask"):
        list(served_policies(Installation(Holding(), Place())))
    (found,) = spread(Installation(Holding(), Place()))
    assert found.status is Status.SKIPPED
