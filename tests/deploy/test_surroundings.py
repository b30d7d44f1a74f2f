"""What surrounds the pods: network, disruptions, monitoring."""

from typing import Any

import pytest

from deploy.generate import CHART, HelmError
from tests.deploy.manifests import Raw, needs_helm, rendered, shipped
from tests.deploy.value_sets import AUTHORITY, CERT_MANAGER, EXISTING, SELF, VALUE_SETS
from tests.golden import each, golden

OPERATOR = "monitoring.coreos.com/v1"


# Network


def test_a_replica_reaches_the_api_server_and_dns_and_nothing_else() -> None:
    policy = shipped().one("NetworkPolicy", "gpu-policy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    ports = [[(port["port"], port["protocol"]) for port in rule["ports"]] for rule in policy["egress"]]
    assert ports == [[(443, "TCP"), (6443, "TCP")], [(53, "UDP"), (53, "TCP")]]


@needs_helm
def test_drains_take_one_replica_at_a_time_and_any_that_is_not_ready() -> None:
    budget = rendered().one("PodDisruptionBudget")["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")


@needs_helm
def test_metrics_have_a_network_policy_of_their_own() -> None:
    open_to_all, narrow = (
        rendered(VALUE_SETS[name]).one("NetworkPolicy", "gpu-policy-metrics")["spec"]
        for name in ("defaults", "everything closed")
    )
    assert open_to_all["ingress"] == [{"ports": [{"port": 8444, "protocol": "TCP"}]}]
    peers = VALUE_SETS["everything closed"]["networkPolicy"]["metrics"]
    blocks = [{"ipBlock": {"cidr": cidr}} for cidr in peers["cidrs"]]
    assert narrow["ingress"] == [{"ports": [{"port": 9443, "protocol": "TCP"}], "from": [*blocks, *peers["from"]]}]
    assert narrow["policyTypes"] == ["Ingress"]


@needs_helm
@golden
def test_metrics_never_leave_the_cluster(kind: str, services: tuple[tuple[str, tuple[str, ...]], ...]) -> None:
    objects = rendered({"service": {"type": kind}, "metrics": {"port": 9100}})
    found = objects.of("Service")
    shown = ((one["metadata"]["name"], tuple(port["name"] for port in one["spec"]["ports"])) for one in found)
    assert (*shown,) == services
    assert found[-1]["spec"]["type"] == "ClusterIP"
    assert ("--metrics-port", "9100") in objects.options
    assert ("metrics", 9100) in [(port["name"], port["containerPort"]) for port in objects.container["ports"]]


@needs_helm
@each(
    "values, names",
    {
        "whoever reaches the port can ask": ({}, "none"),
        "callers are authenticated": ({"certificates": {"clientCA": {"secret": "ca"}}}, "own"),
        "by a ConfigMap": ({"certificates": {"clientCA": {"configMap": "ca"}}}, "own"),
        "because somebody says so": ({"quota": {"names": "own"}}, "own"),
        "also with an authority": (VALUE_SETS["everything closed"], "none"),
    },
)
def test_refusals_say_more_where_callers_are_authenticated(values: Raw, names: str) -> None:
    assert dict(rendered(values).options)["--quota-names"] == names


# What the API server lets nobody do


POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


@needs_helm
@golden
def test_admission_policies_are_there_where_the_cluster_knows_them(
    version: str, enabled: Any, *, expected: bool
) -> None:
    objects = rendered({"admissionPolicies": {"enabled": enabled}}, version=version)
    names = ["gpu-policy-replicas-webhooks", "gpu-policy-replicas-objects", "gpu-policy-excluded-namespaces"]
    for kind in POLICIES:
        assert [one["metadata"]["name"] for one in objects.of(kind)] == (names if expected else [])


@needs_helm
def test_every_name_that_the_configurations_leave_out_is_kept_for_the_platform() -> None:
    more = [{"operator": "NotIn", "values": ["disks"]}, {"operator": "In", "values": ["disks", "team-a"]}]
    selector = {"exclude": ["agents", "kube-system"], "matchExpressions": more}
    objects = rendered({"webhook": {"namespaceSelector": selector}}, namespace="platform")
    (condition,) = objects.one("ValidatingAdmissionPolicy", "gpu-policy-excluded-namespaces")["spec"]["matchConditions"]
    assert condition["expression"] == "object.metadata.name in ['kube-system', 'platform', 'agents', 'disks']"
    for entry in objects.about_pods:
        left_out, *_ = entry["namespaceSelector"]["matchExpressions"]
        assert left_out["values"] == ["kube-system", "platform", "agents", "disks"]


@needs_helm
def test_nobody_is_kept_away_until_an_administrator_is_named() -> None:
    assert not [one for one in rendered() if one["metadata"]["name"].endswith("-guard")]
    guard = rendered(VALUE_SETS["everything closed"]).one("ValidatingAdmissionPolicy", "gpu-policy-guard")["spec"]
    (condition,) = guard["matchConditions"]
    for name in (
        "platform-team",
        "oidc:admins",
        "system:masters",
        "system:serviceaccount:argocd:argocd-application-controller",
        "system:serviceaccount:gpu-policy:gpu-policy",
        "system:serviceaccount:kube-system:namespace-controller",
    ):
        assert f"'{name}'" in condition["expression"]


@needs_helm
def test_the_secrets_that_replicas_trust_and_log_in_with_are_guarded() -> None:
    """Whoever writes the authority of callers decides who is taken for the API server."""
    values = {
        "admissionPolicies": {"administrators": {"groups": ["platform"]}},
        "certificates": {"clientCA": {"secret": "callers"}},
        "registries": {"enabled": True, "credentialsSecret": "logins"},
    }
    (validation,) = rendered(values).one("ValidatingAdmissionPolicy", "gpu-policy-guard")["spec"]["validations"]
    assert "!(variables.name in ['gpu-policy-tls', 'callers', 'logins'])" in validation["expression"]


@needs_helm
@pytest.mark.parametrize("name", ["it's me", "a\\b", ""], ids=["a quote", "a backslash", "nothing"])
def test_no_name_of_an_administrator_is_an_expression(name: str) -> None:
    with pytest.raises(HelmError, match="administrators"):
        rendered({"admissionPolicies": {"administrators": {"users": [name]}}})


# Monitoring


@needs_helm
@pytest.mark.parametrize(
    ("enabled", "without", "within"),
    [pytest.param("auto", False, True), pytest.param(True, True, True), pytest.param(False, False, False)],
)
def test_what_the_prometheus_operator_reads_is_there_where_it_is_or_on_demand(
    enabled: Any, *, without: bool, within: bool
) -> None:
    values = {"serviceMonitor": {"enabled": enabled}, "prometheusRule": {"enabled": enabled}}
    for objects, expected in ((rendered(values), without), (rendered(values, OPERATOR), within)):
        for kind in ("ServiceMonitor", "PrometheusRule"):
            assert bool(objects.of(kind)) is expected


@needs_helm
def test_grafana_gets_both_dashboards_as_they_are() -> None:
    boards = rendered().one("ConfigMap", "gpu-policy-dashboard")["data"]
    files = {name: CHART / "files" / name.replace("gpu-policy", "dashboard") for name in boards}
    assert {name: file.read_text() for name, file in files.items()} == boards
    assert [*boards] == ["gpu-policy-teams.json", "gpu-policy-webhook.json"]


TRUSTED = {"certificates": {"source": "existing", "existing": {"secretName": "mine", "caBundle": AUTHORITY}}}


@needs_helm
@each(
    "values, authority",
    {
        "self": (SELF, {"secret": {"name": "gpu-policy-tls", "key": "ca-bundle.crt"}}),
        "certManager": (CERT_MANAGER, {"secret": {"name": "gpu-policy-cert-manager", "key": "ca.crt"}}),
        "existing": (EXISTING, {"secret": {"name": "mine", "key": "ca.crt"}}),
        "existing, with caBundle": (TRUSTED, {"configMap": {"name": "gpu-policy-ca", "key": "ca.crt"}}),
    },
)
def test_prometheus_verifies_whom_it_asks(values: Raw, authority: Raw) -> None:
    objects = rendered(values, OPERATOR)
    (endpoint,) = objects.one("ServiceMonitor")["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["scheme"], endpoint["path"]) == ("metrics", "https", "/metrics")
    assert endpoint["tlsConfig"] == {"serverName": "gpu-policy.gpu-policy.svc", "ca": authority}
    if "configMap" in authority:
        assert objects.one("ConfigMap", "gpu-policy-ca")["data"] == {"ca.crt": AUTHORITY}
    selector = objects.one("ServiceMonitor")["spec"]["selector"]["matchLabels"]
    assert selector.items() <= objects.one("Service")["metadata"]["labels"].items()
