"""The webhook configurations that the chart makes: where the answers come from, and who is compared with them."""

from typing import Any

import pytest

from tests.deploy.manifests import Objects, needs_helm, rendered
from tests.deploy.value_sets import value_sets
from tests.golden import each

PHASES = ("mutate", "validate", "workloads", "policies", "claims", "drivers")


@needs_helm
@value_sets
def test_the_replicas_compare_with_exactly_what_is_installed(values: dict[str, Any]) -> None:
    objects = rendered(values, namespace="platform")
    (registration,) = [one for one in objects.of("ConfigMap") if one["metadata"]["name"].endswith("-registration")]
    assert Objects.read(registration["data"]["webhooks.yaml"]) == objects.configurations


@needs_helm
@pytest.mark.parametrize("port", [8443, 10250, 1024])
def test_the_port_reaches_everything_that_has_to_know_it(port: int) -> None:
    objects = rendered({"port": port})
    container_port, metrics_port = objects.container["ports"]
    assert ("--port", str(port)) in objects.options
    assert (container_port["name"], container_port["containerPort"]) == ("https", port)
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert objects.container[probe]["httpGet"]["port"] == "https"
    assert (metrics_port["name"], metrics_port["containerPort"]) == ("metrics", 8444)
    service_port, _ = objects.one("Service")["spec"]["ports"]
    assert (service_port["targetPort"], service_port["port"]) == ("https", 443)
    (allowed,) = objects.one("NetworkPolicy", "gpu-policy")["spec"]["ingress"]
    assert allowed["ports"] == [{"port": port, "protocol": "TCP"}]
    for phase, entry in zip(PHASES, objects.entries, strict=True):
        service = objects.one("Service")["metadata"]
        expected = {"name": service["name"], "namespace": service["namespace"], "port": 443, "path": f"/{phase}"}
        assert entry["clientConfig"] == {"service": expected}


@needs_helm
def test_the_service_selects_the_pods_and_nothing_of_other_releases() -> None:
    objects = rendered()
    template = objects.one("Deployment")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        objects.one("Service")["spec"]["selector"],
        objects.one("Deployment")["spec"]["selector"]["matchLabels"],
        objects.one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        objects.one("NetworkPolicy", "gpu-policy")["spec"]["podSelector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector.items() <= template.items()
        assert "app.kubernetes.io/instance" in selector


@needs_helm
@each(
    "url, expected, host",
    {
        "host": ("https://gpu.example.com", "https://gpu.example.com", "gpu.example.com"),
        "path": ("https://gpu.example.com:444/a/", "https://gpu.example.com:444/a", "gpu.example.com"),
        "IPv6": ("https://[2001:db8::1]:444", "https://[2001:db8::1]:444", "2001:db8::1"),
    },
)
def test_an_address_takes_the_place_of_the_service_and_is_in_the_certificate(
    url: str, expected: str, host: str
) -> None:
    objects = rendered({"webhook": {"url": url}})
    assert [entry["clientConfig"] for entry in objects.entries] == [{"url": f"{expected}/{phase}"} for phase in PHASES]
    names = [value for option, value in objects.options if option == "--certificate-name"]
    assert names == ["gpu-policy.gpu-policy.svc", host]
