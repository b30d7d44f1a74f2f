"""What belongs to a release, and the rights and certificates of its replicas."""

from typing import Any

import pytest

from deploy.generate import render
from tests.deploy.manifests import Objects, Raw, needs_helm, rendered, rendered_text
from tests.deploy.value_sets import CERT_MANAGER, EXISTING, LOOKING_UP, SELF, SILENT, UNCOUNTED, UNSHOWN, value_sets
from tests.golden import each
from webhook.model.pod_groups import GROUP_KINDS

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
    assert "helm.sh/" not in rendered_text(values, namespace="platform")


@needs_helm
@each(
    "release, values, expected",
    {
        "the usual name": ("gpu-policy", {}, "gpu-policy"),
        "another release": ("staging", {}, "staging-gpu-policy"),
        "a release that says it": ("my-gpu-policy", {}, "my-gpu-policy"),
        "a name of one's own": ("staging", {"fullnameOverride": "gate"}, "gate"),
    },
)
def test_everything_is_named_after_the_release(release: str, values: dict[str, Any], expected: str) -> None:
    """A custom resource has the name of what it defines."""
    objects = Objects.read(render(values, release=release))
    names = {one["metadata"]["name"] for one in objects if one["kind"] != "CustomResourceDefinition"}
    assert {name for name in names if not name.startswith(f"{expected}-")} == {expected}
    assert {"Service", "Deployment", "ServiceAccount"} <= {
        one["kind"] for one in objects if one["metadata"]["name"] == expected
    }


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
        "nodepools",
        "ec2nodeclasses",
        "clusterpolicies",
        "nvidiadrivers",
    )
    for verb in ("list", "watch")
} | {("ClusterRole", f"{kind}webhookconfigurations", "gpu-policy", "get") for kind in ("mutating", "validating")}
READING |= {("ClusterRole", "pods", "*", verb) for verb in ("get", "list")}
COUNTING = (
    {("ClusterRole", "pods", "*", verb) for verb in ("list", "watch")}
    | {("ClusterRole", "namespaces", "*", "get")}
    | {("ClusterRole", "gpuquotas", "*", verb) for verb in ("get", "list", "watch", "create", "update", "delete")}
    | {("Role", "configmaps", "*", verb) for verb in ("get", "list", "create", "update", "delete")}
    | {("ClusterRole", one.resource, "*", "get") for one in GROUP_KINDS.values()}
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
@each(
    "values, expected",
    {
        "self": (SELF, TOLD | COUNTING | KEEPING),
        "certManager": (CERT_MANAGER, TOLD | COUNTING),
        "existing": (EXISTING, TOLD | COUNTING),
        "look-ups": (LOOKING_UP, TOLD | COUNTING | KEEPING | SHARING),
        "look-ups, certManager": (LOOKING_UP | CERT_MANAGER, TOLD | COUNTING | SHARING),
        "without quotas": (UNCOUNTED, TOLD | KEEPING),
        "without quotas, certManager": (UNCOUNTED | CERT_MANAGER, TOLD),
        "without Events": (SILENT, READING | SHOWING | COUNTING | KEEPING),
        "without quotas, Events and policies": (UNCOUNTED | SILENT | UNSHOWN, READING | KEEPING),
    },
)
def test_replicas_may_write_only_what_they_keep(values: Raw, expected: set[Any]) -> None:
    assert rights(rendered(values)) == expected


@needs_helm
def test_replicas_may_read_the_objects_of_all_groups() -> None:
    rules = [rule for role in rendered(SELF) if role["kind"] == "ClusterRole" for rule in role["rules"]]
    for one in GROUP_KINDS.values():
        assert any(one.group in rule["apiGroups"] and one.resource in rule["resources"] for rule in rules), one.key


@needs_helm
@each(
    "values, secret",
    {
        "self": (SELF, "gpu-policy-tls"),
        "certManager": (CERT_MANAGER, "gpu-policy-cert-manager"),
        "existing": (EXISTING, "mine"),
    },
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
@pytest.mark.parametrize(("source", "field"), [("configMap", "name"), ("secret", "secretName")])
def test_clients_are_judged_by_an_authority_from_a_config_map_or_a_secret(source: str, field: str) -> None:
    values = {"certificates": {"clientCA": {source: "api", "key": "front.crt"}, "clientNames": ["api-server"]}}
    objects = rendered(values)
    (volume,) = [volume for volume in objects.pod["volumes"] if volume["name"] == "client-ca"]
    assert volume[source][field] == "api"
    assert ("--client-ca", "/etc/gpu-policy/client-ca/front.crt") in objects.options
    assert ("--client-name", "api-server") in objects.options
