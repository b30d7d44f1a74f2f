"""The doctor finds what keeps the replicas alive and apart from pods, however it is written."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.deploy.manifests import shipped
from tests.doctor.stored import NOW
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


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(MINE, Status.OK, id="labels"),
        pytest.param(OTHERS, Status.WARNING, id="other labels"),
        pytest.param(
            {"matchExpressions": [{"key": "app.kubernetes.io/name", "operator": "In", "values": ["gpu-policy"]}]},
            Status.OK,
            id="expressions",
        ),
        pytest.param(
            {**MINE, "matchExpressions": [{"key": "app.kubernetes.io/name", "operator": "DoesNotExist"}]},
            Status.WARNING,
            id="labels and expressions that exclude them",
        ),
        pytest.param({}, Status.OK, id="an empty selector selects all pods of the namespace (policy/v1)"),
        pytest.param(None, Status.WARNING, id="no selector selects none"),
    ],
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


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        pytest.param([network_policy()], OPEN, id="everybody"),
        pytest.param([network_policy(ports=())], OPEN, id="on every port"),
        pytest.param([network_policy(ports=[{"port": "https"}])], OPEN, id="a port by name"),
        pytest.param([network_policy(ports=[{"port": 8000, "endPort": 9000}])], OPEN, id="a range of ports"),
        pytest.param([network_policy({"namespaceSelector": {}})], OPEN, id="every namespace"),
        pytest.param([network_policy({"ipBlock": {"cidr": "0.0.0.0/0"}})], OPEN, id="any address"),
        pytest.param(
            [network_policy(CONTROL_PLANE), network_policy() | {"metadata": {"name": "two"}}],
            OPEN.replace("one", "two"),
            id="one of two policies",
        ),
        pytest.param([network_policy(selector={})], OPEN, id="a policy for every pod of the namespace"),
        pytest.param(
            shipped().of("NetworkPolicy"), OPEN.replace("one", "gpu-policy"), id="shipped: addresses are not known yet"
        ),
        pytest.param([], UNSELECTED, id="no policy"),
        pytest.param([network_policy(CONTROL_PLANE, selector=OTHERS)], UNSELECTED, id="a policy for other pods"),
        pytest.param([network_policy(policyTypes=["Egress"])], UNSELECTED, id="a policy about egress"),
        pytest.param([network_policy(CONTROL_PLANE)], SHUT, id="the control plane alone"),
        pytest.param([network_policy(ports=[{"port": 8444}])], SHUT, id="metrics for all"),
        pytest.param([network_policy({"podSelector": {}})], SHUT, id="pods of its namespace"),
        pytest.param(
            [network_policy({"namespaceSelector": {}, "podSelector": MINE})], SHUT, id="some of every namespace"
        ),
        pytest.param([{"metadata": {"name": "none"}, "spec": {"podSelector": MINE}}], SHUT, id="no rules"),
    ],
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


@pytest.mark.parametrize(
    ("minutes", "status"),
    [pytest.param(1, Status.WARNING, id="just changed"), pytest.param(10, Status.PROBLEM, id="changed a while ago")],
)
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
