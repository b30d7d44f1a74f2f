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


OURS, FACTS = NAMESPACE, "nodes runtimeclasses.node.k8s.io priorityclasses.scheduling.k8s.io pods"
CLAIMS = "deviceclasses resourceclaims resourceclaimtemplates resourceslices"
SECRET, LEDGER, STATUS = (
    "secrets/gpu-policy-tls",
    "configmaps/gpu-quota.shared.a",
    "gpupolicies.gpupolicy.dev/effective",
)
RIGHTS = [
    *((verb, what, "", ALWAYS) for verb in ("list", "watch") for what in FACTS.split()),
    *((verb, f"{what}.resource.k8s.io", "", ALWAYS) for verb in ("list", "watch") for what in CLAIMS.split()),
    *(("get", f"{kind}/gpu-policy", "", ALWAYS) for kind in (MUTATING, VALIDATING)),
    *(("update", f"{kind}/gpu-policy", "", KEEPERS) for kind in (MUTATING, VALIDATING)),
    *((verb, what, OURS, KEEPERS) for verb, what in (("get", SECRET), ("update", SECRET), ("create", "secrets"))),
    *(
        (verb, what, OURS, NEVER)
        for verb, what in (("get", "secrets/another"), ("list", "secrets"), ("delete", SECRET))
    ),
    *((verb, what, "default", NEVER) for verb, what in (("get", SECRET), ("create", "secrets"), ("delete", "pods"))),
    *((verb, f"{MUTATING}/another", "", NEVER) for verb in ("get", "update", "delete")),
    *((verb, VALIDATING, "", NEVER) for verb in ("list", "create")),
    ("delete", f"{MUTATING}/gpu-policy", "", NEVER),
    *((verb, "configmaps", OURS, ALWAYS) for verb in ("list", "create")),
    *((verb, LEDGER, OURS, ALWAYS) for verb in ("update", "delete")),
    ("update", "gpupolicies.gpupolicy.dev/effective", "default", ALWAYS),
    *((verb, "gpuquotas.gpupolicy.dev", "default", ALWAYS) for verb in ("create", "delete")),
    ("create", "resourcequotas", "default", NEVER),
    ("update", "customresourcedefinitions.apiextensions.k8s.io", "", NEVER),
    *((verb, "configmaps", where, NEVER) for verb, where in (("get", "default"), ("update", "kube-system"))),
    *((verb, what, "", NEVER) for verb, what in (("list", "namespaces"), ("patch", "nodes"))),
    *(("create", what, OURS, NEVER) for what in ("pods", "serviceaccounts/token")),
]
"""Verb, resource and namespace, and which replicas may do that."""


@pytest.mark.parametrize(("verb", "resource", "where", "who"), RIGHTS)
def test_the_replicas_may_do_what_they_need_and_nothing_else(
    account: tuple[ControlPlane, bool], verb: str, resource: str, where: str, who: int
) -> None:
    server, keeps_certificates = account
    user = f"--as=system:serviceaccount:{NAMESPACE}:gpu-policy"
    done = server.kubectl("auth", "can-i", verb, resource, user, namespace=where or None, check=False)
    allowed = who == ALWAYS or (who == KEEPERS and keeps_certificates)
    assert done.stdout.strip().partition(" ")[0] == ("yes" if allowed else "no")
