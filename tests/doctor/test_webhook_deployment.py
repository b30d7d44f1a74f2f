"""What the Deployment says is understood for every way in which the chart makes one."""

from typing import Any

from tests.deploy.manifests import needs_helm, rendered, shipped
from tests.golden import golden
from webhook.doctor.installation import WebhookDeployment


def workload(values: dict[str, Any]) -> WebhookDeployment:
    return WebhookDeployment(rendered(values).one("Deployment"))


def test_the_shipped_deployment_is_understood() -> None:
    found = WebhookDeployment(shipped().one("Deployment"))
    assert (found.wanted, found.ready, found.port, found.service_account) == (3, 0, 8443, "gpu-policy")
    assert (found.keeps_certificates, found.certificate_secret) == (True, "gpu-policy-tls")
    assert [source["name"] for source in found.policy_config_maps] == ["gpu-policy-policies"]
    labels = shipped().one("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert found.labels.items() <= labels.items()


def test_the_registration_and_the_policies_are_where_the_doctor_looks() -> None:
    """Names that it does not read in the Deployment it makes from the release's."""
    names = {config_map["metadata"]["name"] for config_map in shipped().of("ConfigMap")}
    assert names == {"gpu-policy-policies", "gpu-policy-registration"}
    assert list(shipped().one("ConfigMap", "gpu-policy-registration")["data"]) == ["webhooks.yaml"]


PLAIN = {
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "gpu"}},
        "template": {
            "metadata": {"labels": {"app": "gpu"}},
            "spec": {
                "containers": [
                    {"name": "sidecar"},
                    {
                        "name": "webhook",
                        "args": ["serve", "--policies", "/policies/", "--cert=/tls/tls.crt", "--port=9443"],
                        "volumeMounts": [
                            {"name": "files", "mountPath": "/policies"},
                            {"name": "certificate", "mountPath": "/tls"},
                        ],
                    },
                ],
                "volumes": [
                    {
                        "name": "files",
                        "projected": {
                            "sources": [
                                {"configMap": {"name": "defaults"}},
                                {"secret": {"name": "other"}},
                                {"configMap": {"name": "teams", "items": [{"key": "a", "path": "team-a.yaml"}]}},
                            ]
                        },
                    },
                    {"name": "certificate", "secret": {"secretName": "from-cert-manager"}},
                ],
            },
        },
    },
    "status": {"readyReplicas": 1},
}


def test_a_certificate_of_ones_own_and_several_config_maps_are_understood() -> None:
    found = WebhookDeployment(PLAIN)
    assert (found.wanted, found.ready, found.port, found.service_account) == (2, 1, 9443, "default")
    assert (found.keeps_certificates, found.certificate_secret) == (False, "from-cert-manager")
    assert [source["name"] for source in found.policy_config_maps] == ["defaults", "teams"]


@needs_helm
@golden
def test_what_the_chart_makes_is_understood(
    values: dict[str, Any], keeps: bool, secret: str, port: int, config_maps: tuple[str, ...]
) -> None:
    found = workload(values)
    assert (found.keeps_certificates, found.certificate_secret, found.port) == (keeps, secret, port)
    assert tuple(source["name"] for source in found.policy_config_maps) == config_maps
