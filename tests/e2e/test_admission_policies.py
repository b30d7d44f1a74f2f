"""What the release's ValidatingAdmissionPolicies let through and what not, on a real API server with real replicas."""

import base64
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import Encoding

from tests.deploy.manifests import needs_helm, rendered
from tests.e2e.applying import apply
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.kept_certificates import KINDS, KeptSite

NUMBERS = count(1)
VALUES = {"admissionPolicies": {"administrators": {"groups": ["platform"], "users": ["gitops"]}}}
_REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"
PLACES = {kind: f"{_REGISTRATIONS}/{kind}webhookconfigurations" for kind in KINDS} | {
    kind: f"/api/v1/namespaces/{{namespace}}/{kind.lower()}s" for kind in ("ConfigMap", "Secret")
}
"""Where the objects of a kind are."""
ANNOTATED = {"metadata": {"annotations": {"a": "b"}}}
POLICY_KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")

pytestmark = [needs_helm, pytest.mark.e2e]


class Guarded(KeptSite):
    """An installation with its admission policies."""

    def __init__(self, plane: ControlPlane, namespace: str, directory: Path) -> None:
        super().__init__(plane, namespace, directory, replicas=1)
        self.admission_policies = [
            self._renamed(one) for one in rendered(VALUES, namespace=namespace) if one["kind"] in POLICY_KINDS
        ]
        for one in self.admission_policies:
            if "policyName" in one["spec"]:
                one["spec"]["policyName"] = one["spec"]["policyName"].replace("gpu-policy", namespace, 1)
            for validation in one["spec"].get("validations", ()):
                for before in ("variables.name != '{}'", ".name('{}')"):
                    expression = validation["expression"]
                    validation["expression"] = expression.replace(before.format("gpu-policy"), before.format(namespace))
        plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(self.admission_policies))
        self._grant()

    def remove(self) -> None:
        self.plane.kubectl(
            "delete",
            "--ignore-not-found",
            "-f",
            "-",
            input=yaml.safe_dump_all([*self.admission_policies, self.binding]),
        )
        super().remove()

    def _grant(self) -> None:
        """Everybody whom a test plays may do everything, so that it is the policies that refuse."""
        subjects = [
            {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
            for name in ("tenant", "gitops", "admin")
        ]
        subjects.append({"kind": "ServiceAccount", "name": "gpu-policy", "namespace": self.name})
        self.binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"everything-{self.name}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": subjects,
        }
        self.plane.kubectl("apply", "-f", "-", input=yaml.safe_dump(self.binding))

    def refusal(self, who: str, method: str, kind: str, name: str = "", body: Any = None) -> str:
        """What the API server says when somebody, `USER` or `USER@GROUP`, tries this; empty where it would be done."""
        place = PLACES[kind].format(namespace=self.name)
        patch = "application/json-patch+json" if isinstance(body, list) else None
        status, _, answer = self.plane.exchange(
            method, f"{place}/{name}?dryRun=All".replace("/?", "?"), body, content_type=patch, impersonated=who
        )
        return str(answer["message"]) if status >= 400 else ""

    @property
    def replica(self) -> str:
        """Whom the replicas are known as."""
        return f"system:serviceaccount:{self.name}:gpu-policy"


@pytest.fixture(scope="module")
def site(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """One replica under the policies, which are in force."""
    site = Guarded(control_plane, f"guarded-{next(NUMBERS)}", tmp_path_factory.mktemp("guarded"))
    try:
        site.start()
        eventually(site.is_answering)
        yield site
    finally:
        site.remove()


def change(site: Guarded, kind: str, path: str, value: Any, who: str) -> str:
    """What is said against one field of a configuration being replaced, whose value was another."""
    return site.refusal(who, "PATCH", kind, site.name, [{"op": "add", "path": path, "value": value}])


EVERYTHING = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"], "scope": "*"}]
CHANGES = [
    pytest.param("/webhooks/0/rules", EVERYTHING, id="rules"),
    pytest.param("/webhooks/0/failurePolicy", "Ignore", id="failurePolicy"),
    pytest.param("/webhooks/0/matchPolicy", "Exact", id="matchPolicy"),
    pytest.param("/webhooks/0/namespaceSelector", {}, id="namespaceSelector"),
    pytest.param("/webhooks/0/objectSelector", {"matchLabels": {"a": "b"}}, id="objectSelector"),
    pytest.param("/webhooks/0/sideEffects", "NoneOnDryRun", id="sideEffects"),
    pytest.param("/webhooks/0/timeoutSeconds", 30, id="timeoutSeconds"),
    pytest.param("/webhooks/0/matchConditions", [{"name": "all", "expression": "true"}], id="matchConditions"),
    pytest.param("/webhooks/0/clientConfig/service/name", "other", id="service"),
    pytest.param("/webhooks/0/clientConfig/service/namespace", "other", id="namespace of the service"),
    pytest.param("/webhooks/0/clientConfig", {"url": "https://evil.example.com"}, id="url"),
    pytest.param("/webhooks/0/name", "other.gpupolicy.dev", id="name"),
    pytest.param("/metadata/labels", {"a": "b"}, id="labels"),
    pytest.param("/metadata/annotations", {"a": "b"}, id="annotations"),
    pytest.param("/metadata/finalizers", ["example.com/kept"], id="finalizers"),
]


@pytest.mark.parametrize(("path", "value"), CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_replica_changes_nothing_of_its_configurations_but_the_ca_bundle(
    site: Guarded, kind: str, path: str, value: Any
) -> None:
    if (kind, path) == ("validating", "/webhooks/0/sideEffects"):
        value = "None"
    assert "replicas of gpu-policy change" in change(site, kind, path, value, site.replica)
    assert change(site, kind, path, value, "admin@system:masters") == ""


def test_a_replica_writes_the_ca_bundle(site: Guarded) -> None:
    bundle = base64.b64encode(site.material().bundle[0].public_bytes(Encoding.PEM) * 2).decode()
    for kind in KINDS:
        assert change(site, kind, "/webhooks/0/clientConfig/caBundle", bundle, site.replica) == ""


def test_a_replica_makes_and_deletes_no_configuration(site: Guarded) -> None:
    made = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "made"},
        "webhooks": [],
    }
    assert "neither create nor delete" in site.refusal(site.replica, "POST", "mutating", body=made)
    assert "neither create nor delete" in site.refusal(site.replica, "DELETE", "mutating", site.name)


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}}


def secret(name: str, kind: str = "Opaque") -> dict[str, Any]:
    account = {"kubernetes.io/service-account.name": "default"} if "service-account" in kind else {}
    return {"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": name, "annotations": account}}


@pytest.mark.parametrize(
    ("document", "is_allowed"),
    [
        pytest.param(config_map("gpu-quota.namespace.team"), True, id="a ledger"),
        pytest.param(config_map("gpu-policy-policies"), False, id="policies"),
        pytest.param(config_map("gpu-policy-registration"), False, id="the registration"),
        pytest.param(config_map("other"), False, id="another ConfigMap"),
        pytest.param(secret("other"), False, id="another Secret"),
        pytest.param(secret("token", "kubernetes.io/service-account-token"), False, id="the token of an account"),
    ],
)
def test_a_replica_makes_no_object_but_those_that_it_keeps(
    site: Guarded, document: dict[str, Any], is_allowed: bool
) -> None:
    said = site.refusal(site.replica, "POST", document["kind"], body=document)
    assert ("replicas of gpu-policy write no" in said) is not is_allowed
    assert bool(said) is not is_allowed


def test_a_secret_that_somebody_deleted_is_made_anew_and_certificates_are_rotated(site: Guarded) -> None:
    """The real replica, under the policies."""
    before = site.served()
    site.rotate("authority")
    eventually(lambda: not set(before) & set(site.served()))
    eventually(site.is_answering)
    site.write_secret(None)
    eventually(lambda: site.secret() is not None)
    for kind in KINDS:
        site.write_configuration(kind, clientConfig={"caBundle": ""})
    eventually(lambda: all(site.bundles()))
    eventually(site.is_answering)
    (replica,) = site.replicas
    assert replica.metric("gpu_policy_certificate_fault") == 0
    assert "replicas of gpu-policy" not in replica.log.read_text()


GUARDED = [
    pytest.param(config_map("gpu-policy-policies"), id="policies"),
    pytest.param(config_map("gpu-policy-registration"), id="the registration"),
    pytest.param(config_map("gpu-quota.shared.research"), id="a ledger"),
    pytest.param(config_map("gpu-policy-audit"), id="what an audit found"),
    pytest.param(secret("gpu-policy-tls"), id="certificates"),
]


@pytest.mark.parametrize("document", GUARDED)
def test_nobody_but_administrators_touches_what_replicas_decide_by(site: Guarded, document: dict[str, Any]) -> None:
    name = document["metadata"]["name"]
    assert apply(site.plane, site.name, document)[0] == 0
    for method, body in (("PATCH", ANNOTATED), ("DELETE", None)):
        said = site.refusal("tenant", method, document["kind"], name, body)
        assert f"{name} belongs to gpu-policy, and only its administrators change it" in said
        for who in ("gitops", "anybody@platform", "anybody@system:masters"):
            assert "belongs to gpu-policy" not in site.refusal(who, method, document["kind"], name, body)


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_but_administrators_touches_the_configurations(site: Guarded, kind: str) -> None:
    for method, body in (("PATCH", ANNOTATED), ("DELETE", None)):
        assert "belongs to gpu-policy" in site.refusal("tenant", method, kind, site.name, body)
        assert site.refusal("gitops", method, kind, site.name, body) == ""


def test_what_belongs_to_others_is_nobodys_business(site: Guarded) -> None:
    for document in (config_map("mine"), secret("mine"), config_map("gpu-policy-of-mine")):
        assert site.refusal("tenant", "POST", document["kind"], body=document) == ""
    elsewhere = f"/api/v1/namespaces/{site.judged}/configmaps?dryRun=All"
    ours = config_map("gpu-policy-policies")
    assert site.plane.exchange("POST", elsewhere, ours, impersonated="tenant")[0] == 201


@pytest.mark.parametrize("name", ["gpu-operator", "kube-amd-gpu", "team-a"])
def test_who_may_create_namespaces_takes_none_that_is_excluded(site: Guarded, name: str) -> None:
    """Whoever may change the webhook configuration may create it."""
    right = f"namespaces-of-{site.name}"
    site.plane.kubectl("create", "clusterrole", right, "--verb=create", "--resource=namespaces")
    site.plane.kubectl("create", "clusterrolebinding", right, f"--clusterrole={right}", "--user=creator")
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    path = "/api/v1/namespaces?dryRun=All"

    def created(who: str) -> tuple[int, str]:
        status, _, answer = site.plane.exchange("POST", path, body, impersonated=who)
        return status, answer.get("message", "")

    try:
        eventually(lambda: "cannot create resource" not in created("creator")[1])
        status, said = created("creator")
        if name == "team-a":
            assert status == 201
        else:
            assert f"namespace {name} is excluded from gpu-policy, so only who may update" in said
        assert created("tenant")[0] == created("admin@system:masters")[0] == 201
    finally:
        site.plane.kubectl("delete", "clusterrole,clusterrolebinding", right)
