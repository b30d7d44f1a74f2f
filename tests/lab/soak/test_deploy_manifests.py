"""What the chart makes, judged by a real API server: objects are accepted, rights are enough and no more."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.deploy.manifests import Objects, needs_helm, rendered
from tests.deploy.value_sets import EXISTING, SELF, VALUE_SETS, value_sets
from tests.e2e.control_plane import ControlPlane

pytestmark = needs_helm

NAMESPACE = "gpu-policy-manifests"
"""Stands for the namespace gpu-policy on the server, so that tests which install the webhook find it untouched."""
OF_OTHERS = {
    "Certificate": "cert-manager.io/v1",
    "Issuer": "cert-manager.io/v1",
    "PrometheusRule": "monitoring.coreos.com/v1",
    "ServiceMonitor": "monitoring.coreos.com/v1",
}
"""Kinds that a cluster knows only where somebody else has brought them."""


def objects_for(server: ControlPlane, values: dict[str, Any]) -> Objects:
    major, minor = server.version
    return rendered(values, version=f"{major}.{minor}.0", namespace=NAMESPACE)


def refusals(server: ControlPlane, objects: list[dict[str, Any]]) -> str:
    """What the server and kubectl say against these objects, unknown fields included; nothing is stored."""
    text = yaml.safe_dump_all(objects)
    done = server.kubectl("apply", "--validate=true", "--dry-run=server", "-f", "-", input=text, check=False)
    accepted = done.stdout.count("(server dry run)")
    return done.stderr or ("" if accepted == len(objects) else done.stdout)


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane) -> ControlPlane:
    """The API server with a namespace that was applied as manifests apply it."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    control_plane.kubectl("apply", "-f", "-", input=yaml.safe_dump(namespace))
    return control_plane


@value_sets
def test_every_object_is_accepted_without_a_warning(server: ControlPlane, values: dict[str, Any]) -> None:
    objects = [document for document in objects_for(server, values) if document["kind"] not in OF_OTHERS]
    assert len(objects) > 10
    assert refusals(server, objects) == ""


@pytest.mark.parametrize("kind", OF_OTHERS)
def test_objects_for_other_operators_are_of_the_versions_that_these_serve(server: ControlPlane, kind: str) -> None:
    objects = [document for values in VALUE_SETS.values() for document in objects_for(server, values).of(kind)]
    assert {document["apiVersion"] for document in objects} == {OF_OTHERS[kind]}


# Rights

ROLES = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}


@pytest.fixture(scope="module", params=[pytest.param(SELF, id="self"), pytest.param(EXISTING, id="existing")])
def account(server: ControlPlane, request: pytest.FixtureRequest) -> Iterator[tuple[ControlPlane, bool]]:
    """The server with the rights of the replicas, and whether these keep certificates."""
    objects = [document for document in objects_for(server, request.param) if document["kind"] in ROLES]
    text = yaml.safe_dump_all(objects)
    definitions = objects_for(server, request.param).of("CustomResourceDefinition")
    server.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(definitions))
    server.kubectl("wait", "--for=condition=Established", *(f"crd/{one['metadata']['name']}" for one in definitions))
    server.kubectl("apply", "-f", "-", input=text)
    yield server, request.param == SELF
    server.kubectl("delete", "-f", "-", input=text)


MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
NEVER, KEEPERS, ALWAYS = range(3)


@pytest.mark.parametrize(
    ("verb", "resource", "where", "who"),
    [
        pytest.param("list", "nodes", "", ALWAYS, id="list nodes"),
        pytest.param("watch", "nodes", "", ALWAYS, id="watch nodes"),
        pytest.param("list", "runtimeclasses.node.k8s.io", "", ALWAYS, id="list runtime classes"),
        pytest.param("watch", "runtimeclasses.node.k8s.io", "", ALWAYS, id="watch runtime classes"),
        pytest.param("list", "priorityclasses.scheduling.k8s.io", "", ALWAYS, id="list priority classes"),
        pytest.param("watch", "priorityclasses.scheduling.k8s.io", "", ALWAYS, id="watch priority classes"),
        pytest.param("list", "deviceclasses.resource.k8s.io", "", ALWAYS, id="list device classes"),
        pytest.param("watch", "deviceclasses.resource.k8s.io", "", ALWAYS, id="watch device classes"),
        pytest.param("list", "resourceclaims.resource.k8s.io", "", ALWAYS, id="list claims"),
        pytest.param("watch", "resourceclaims.resource.k8s.io", "", ALWAYS, id="watch claims"),
        pytest.param("list", "resourceclaimtemplates.resource.k8s.io", "", ALWAYS, id="list claim templates"),
        pytest.param("watch", "resourceclaimtemplates.resource.k8s.io", "", ALWAYS, id="watch claim templates"),
        pytest.param("list", "resourceslices.resource.k8s.io", "", ALWAYS, id="list slices"),
        pytest.param("watch", "resourceslices.resource.k8s.io", "", ALWAYS, id="watch slices"),
        pytest.param("get", f"{MUTATING}/gpu-policy", "", ALWAYS, id="see its mutating configuration"),
        pytest.param("get", f"{VALIDATING}/gpu-policy", "", ALWAYS, id="see its validating configuration"),
        pytest.param("update", f"{MUTATING}/gpu-policy", "", KEEPERS, id="write its mutating configuration"),
        pytest.param("update", f"{VALIDATING}/gpu-policy", "", KEEPERS, id="write its validating configuration"),
        pytest.param("get", "secrets/gpu-policy-tls", NAMESPACE, KEEPERS, id="read its Secret"),
        pytest.param("update", "secrets/gpu-policy-tls", NAMESPACE, KEEPERS, id="write its Secret"),
        pytest.param("create", "secrets", NAMESPACE, KEEPERS, id="create its Secret"),
        pytest.param("get", "secrets/another", NAMESPACE, NEVER, id="read another Secret"),
        pytest.param("list", "secrets", NAMESPACE, NEVER, id="list Secrets"),
        pytest.param("delete", "secrets/gpu-policy-tls", NAMESPACE, NEVER, id="delete its Secret"),
        pytest.param("get", "secrets/gpu-policy-tls", "default", NEVER, id="read a Secret elsewhere"),
        pytest.param("create", "secrets", "default", NEVER, id="create a Secret elsewhere"),
        pytest.param("update", f"{MUTATING}/another", "", NEVER, id="write another configuration"),
        pytest.param("get", f"{VALIDATING}/another", "", NEVER, id="see another configuration"),
        pytest.param("list", MUTATING, "", NEVER, id="list configurations"),
        pytest.param("create", VALIDATING, "", NEVER, id="create configurations"),
        pytest.param("delete", f"{MUTATING}/gpu-policy", "", NEVER, id="delete its configuration"),
        pytest.param("list", "pods", "", ALWAYS, id="list pods"),
        pytest.param("watch", "pods", "", ALWAYS, id="watch pods"),
        pytest.param("create", "pods", NAMESPACE, NEVER, id="create pods"),
        pytest.param("delete", "pods", "default", NEVER, id="delete pods"),
        pytest.param("list", "configmaps", NAMESPACE, ALWAYS, id="list its ledgers"),
        pytest.param("create", "configmaps", NAMESPACE, ALWAYS, id="create its ledgers"),
        pytest.param("update", "configmaps/gpu-quota.shared.a", NAMESPACE, ALWAYS, id="write its ledgers"),
        pytest.param("delete", "configmaps/gpu-quota.shared.a", NAMESPACE, ALWAYS, id="delete its ledgers"),
        pytest.param("update", "gpupolicies.gpupolicy.dev/effective", "default", ALWAYS, id="show a policy"),
        pytest.param("create", "gpuquotas.gpupolicy.dev", "default", ALWAYS, id="show a quota"),
        pytest.param("delete", "gpuquotas.gpupolicy.dev/shared.a", "default", ALWAYS, id="take it away again"),
        pytest.param("create", "resourcequotas", "default", NEVER, id="create quotas of Kubernetes"),
        pytest.param("update", "customresourcedefinitions.apiextensions.k8s.io", "", NEVER, id="change definitions"),
        pytest.param("get", "configmaps", "default", NEVER, id="read ConfigMaps elsewhere"),
        pytest.param("update", "configmaps", "kube-system", NEVER, id="write ConfigMaps elsewhere"),
        pytest.param("list", "namespaces", "", NEVER, id="list namespaces"),
        pytest.param("patch", "nodes", "", NEVER, id="change nodes"),
        pytest.param("create", "serviceaccounts/token", NAMESPACE, NEVER, id="ask for tokens"),
    ],
)
def test_the_replicas_may_do_what_they_need_and_nothing_else(
    account: tuple[ControlPlane, bool], verb: str, resource: str, where: str, who: int
) -> None:
    server, keeps_certificates = account
    user = f"--as=system:serviceaccount:{NAMESPACE}:gpu-policy"
    done = server.kubectl("auth", "can-i", verb, resource, user, namespace=where or None, check=False)
    allowed = who == ALWAYS or (who == KEEPERS and keeps_certificates)
    assert done.stdout.strip().partition(" ")[0] == ("yes" if allowed else "no")
