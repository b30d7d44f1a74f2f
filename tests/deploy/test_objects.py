"""What belongs to a release, and the rights and certificates of its replicas."""

from typing import Any

import pytest

from deploy.generate import INSTALL_VALUES, render
from tests.deploy.manifests import Objects, Raw, needs_helm, rendered, rendered_text, shipped
from tests.deploy.value_sets import CERT_MANAGER, EXISTING, LOOKING_UP, SELF, SILENT, UNCOUNTED, UNSHOWN, value_sets

CLUSTER_WIDE = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "FlowSchema",
    "MutatingWebhookConfiguration",
    "Namespace",
    "PriorityLevelConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
}


# What belongs to a release


@needs_helm
@value_sets
def test_every_object_says_which_release_it_is_of(values: dict[str, Any]) -> None:
    for document in rendered(values, namespace="platform"):
        labels = document["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == labels["app.kubernetes.io/instance"] == "gpu-policy"
        assert labels.items() >= values.get("commonLabels", {}).items()
        expected = None if document["kind"] in CLUSTER_WIDE else "platform"
        assert document["metadata"].get("namespace") == expected


@needs_helm
@value_sets
def test_no_hook_and_no_policy_keeps_an_object_from_being_uninstalled(values: dict[str, Any]) -> None:
    """Helm removes neither hooks nor what carries helm.sh/resource-policy."""
    assert "helm.sh/" not in rendered_text(values)


@needs_helm
@pytest.mark.parametrize(
    ("release", "values", "expected"),
    [
        pytest.param("gpu-policy", {}, "gpu-policy", id="the usual name"),
        pytest.param("staging", {}, "staging-gpu-policy", id="another release"),
        pytest.param("my-gpu-policy", {}, "my-gpu-policy", id="a release that says it"),
        pytest.param("staging", {"fullnameOverride": "gate"}, "gate", id="a name of one's own"),
    ],
)
def test_everything_is_named_after_the_release(release: str, values: dict[str, Any], expected: str) -> None:
    """A custom resource has the name of what it defines."""
    objects = Objects.read(render(values, release=release))
    names = {one["metadata"]["name"] for one in objects if one["kind"] != "CustomResourceDefinition"}
    assert {name for name in names if not name.startswith(f"{expected}-")} == {expected}
    assert {"Service", "Deployment", "ServiceAccount"} <= {
        one["kind"] for one in objects if one["metadata"]["name"] == expected
    }


def test_the_shipped_manifest_brings_its_namespace_first_and_its_registration_last() -> None:
    """Kubectl applies in this order: nothing waits for what comes later, and nobody is asked before there are pods."""
    kinds = [document["kind"] for document in shipped()]
    assert kinds[0] == "Namespace"
    assert kinds[-2:] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    for needed in ("ServiceAccount", "Secret", "ConfigMap", "CustomResourceDefinition", "Role"):
        assert kinds.index(needed) < kinds.index("Deployment")


@needs_helm
@pytest.mark.parametrize(("shares", "level"), [pytest.param(False, "restricted"), pytest.param(True, "privileged")])
def test_the_namespace_is_as_strict_as_the_pods_allow(level: str, *, shares: bool) -> None:
    namespace = rendered({**INSTALL_VALUES, "hostNetwork": shares}).one("Namespace")["metadata"]
    assert namespace["name"] == "gpu-policy"
    assert namespace["labels"]["pod-security.kubernetes.io/enforce"] == level
    assert rendered({"hostNetwork": shares}).of("Namespace") == []


# Rights and certificates


def rights(objects: Objects) -> set[tuple[str, str, str, str]]:
    """(kind of role, resource, its name or *, verb), of the roles that the replicas have"""
    return {
        (role["kind"], resource, name, verb)
        for role in objects
        if role["kind"] in {"Role", "ClusterRole"} and not role["metadata"]["name"].endswith("-view")
        for rule in role["rules"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", ["*"])
        for verb in rule["verbs"]
    }


READING = {
    ("ClusterRole", name, "*", verb)
    for name in (
        "nodes",
        "runtimeclasses",
        "priorityclasses",
        "deviceclasses",
        "resourceclaims",
        "resourceclaimtemplates",
        "resourceslices",
    )
    for verb in ("list", "watch")
} | {("ClusterRole", f"{kind}webhookconfigurations", "gpu-policy", "get") for kind in ("mutating", "validating")}
READING.add(("ClusterRole", "pods", "*", "get"))
COUNTING = (
    {("ClusterRole", "pods", "*", verb) for verb in ("list", "watch")}
    | {("ClusterRole", "namespaces", "*", "get")}
    | {("ClusterRole", "gpuquotas", "*", verb) for verb in ("get", "list", "watch", "create", "update", "delete")}
    | {("Role", "configmaps", "*", verb) for verb in ("get", "list", "create", "update", "delete")}
)
SHOWING = {("ClusterRole", "gpupolicies", "*", verb) for verb in ("get", "list", "watch", "create", "update", "delete")}
TELLING = {("ClusterRole", "events", "*", "create"), ("ClusterRole", "replicasets", "*", "get")}
TOLD = READING | SHOWING | TELLING
KEEPING = {
    ("ClusterRole", "mutatingwebhookconfigurations", "gpu-policy", "update"),
    ("ClusterRole", "validatingwebhookconfigurations", "gpu-policy", "update"),
    ("Role", "secrets", "gpu-policy-tls", "get"),
    ("Role", "secrets", "gpu-policy-tls", "update"),
    ("Role", "secrets", "*", "create"),
}
SHARING = {("Role", "configmaps", "gpu-policy-images", verb) for verb in ("get", "update")}


@needs_helm
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(SELF, TOLD | COUNTING | KEEPING, id="self"),
        pytest.param(CERT_MANAGER, TOLD | COUNTING, id="certManager"),
        pytest.param(EXISTING, TOLD | COUNTING, id="existing"),
        pytest.param(LOOKING_UP, TOLD | COUNTING | KEEPING | SHARING, id="look-ups"),
        pytest.param(LOOKING_UP | CERT_MANAGER, TOLD | COUNTING | SHARING, id="look-ups, certManager"),
        pytest.param(UNCOUNTED, TOLD | KEEPING, id="without quotas"),
        pytest.param(UNCOUNTED | CERT_MANAGER, TOLD, id="without quotas, certManager"),
        pytest.param(SILENT, READING | SHOWING | COUNTING | KEEPING, id="without Events"),
        pytest.param(UNCOUNTED | SILENT | UNSHOWN, READING | KEEPING, id="without quotas, Events and policies"),
    ],
)
def test_replicas_may_write_only_what_they_keep(values: Raw, expected: set[Any]) -> None:
    assert rights(rendered(values)) == expected


@needs_helm
@pytest.mark.parametrize(
    ("values", "secret"),
    [
        pytest.param(SELF, "gpu-policy-tls", id="self"),
        pytest.param(CERT_MANAGER, "gpu-policy-cert-manager", id="certManager"),
        pytest.param(EXISTING, "mine", id="existing"),
    ],
)
def test_each_source_of_certificates_has_a_secret_of_its_own(values: Raw, secret: str) -> None:
    """So that a change of the source hands none from one owner to another. Only the first is of the release."""
    objects = rendered(values)
    options = dict(objects.options)
    (volume,) = [volume for volume in objects.pod["volumes"] if volume["name"] == "tls"]
    if values == SELF:
        assert options["--certificate-secret"] == f"gpu-policy/{secret}"
        assert objects.one("Secret")["metadata"]["name"] == secret
        assert {"--cert", "--key"} & options.keys() == set()
    else:
        assert (options["--cert"], options["--key"]) == ("/etc/gpu-policy/tls/tls.crt", "/etc/gpu-policy/tls/tls.key")
        assert volume["secret"]["secretName"] == secret
        assert objects.of("Secret") == []


@needs_helm
def test_cert_manager_signs_with_an_authority_that_outlives_what_is_served() -> None:
    """A certificate that signs itself would change the caBundle with each renewal, and so refuse pods for a moment."""
    objects = rendered(CERT_MANAGER)
    served, authority = objects.one("Certificate", "gpu-policy"), objects.one("Certificate", "gpu-policy-authority")
    issuer, first = objects.one("Issuer", "gpu-policy"), objects.one("Issuer", "gpu-policy-authority")
    assert served["spec"]["dnsNames"] == ["gpu-policy.gpu-policy.svc"]
    assert served["spec"]["issuerRef"] == {"name": issuer["metadata"]["name"], "kind": "Issuer"}
    assert issuer["spec"]["ca"]["secretName"] == authority["spec"]["secretName"]
    assert authority["spec"]["isCA"] is True
    assert authority["spec"]["issuerRef"]["name"] == first["metadata"]["name"]
    assert first["spec"] == {"selfSigned": {}}
    for configuration in objects.configurations:
        assert configuration["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "gpu-policy/gpu-policy"}


@needs_helm
def test_an_issuer_of_ones_own_takes_the_place_of_the_authority() -> None:
    reference = {"name": "corporate", "kind": "ClusterIssuer", "group": "cert-manager.io"}
    values = {
        "certificates": {"source": "certManager", "certManager": {"issuerRef": reference}},
        "webhook": {"url": "https://gpu.example.com"},
    }
    objects = rendered(values)
    assert objects.one("Certificate")["spec"]["issuerRef"] == reference
    assert objects.one("Certificate")["spec"]["dnsNames"] == ["gpu-policy.gpu-policy.svc", "gpu.example.com"]
    assert objects.of("Issuer") == []


@needs_helm
@pytest.mark.parametrize(("source", "field"), [("configMap", "name"), ("secret", "secretName")])
def test_clients_are_judged_by_an_authority_from_a_config_map_or_a_secret(source: str, field: str) -> None:
    values = {"certificates": {"clientCA": {source: "api", "key": "front.crt"}, "clientNames": ["api-server"]}}
    objects = rendered(values)
    (volume,) = [volume for volume in objects.pod["volumes"] if volume["name"] == "client-ca"]
    assert volume[source][field] == "api"
    assert ("--client-ca", "/etc/gpu-policy/client-ca/front.crt") in objects.options
    assert ("--client-name", "api-server") in objects.options


@needs_helm
def test_an_address_that_is_called_is_an_address_in_the_certificate() -> None:
    """Clients look for addresses among addresses only."""
    values = {"certificates": {"source": "certManager"}, "webhook": {"url": "https://10.1.2.3:8443"}}
    certificate = rendered(values).one("Certificate", "gpu-policy")
    assert certificate["spec"]["dnsNames"] == ["gpu-policy.gpu-policy.svc"]
    assert certificate["spec"]["ipAddresses"] == ["10.1.2.3"]
