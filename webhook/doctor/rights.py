"""The rights of the replicas, by the authorizer of the API server."""

from collections.abc import Iterator
from typing import NamedTuple

from webhook.doctor.cluster import UnavailableError
from webhook.doctor.doctor_report import DoctorFinding, ok, problem
from webhook.doctor.installation import Installation, Place, WebhookDeployment
from webhook.kubernetes.api_errors import RefusedError
from webhook.model.pod_groups import GROUP_KINDS

_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

_READ = ("list", "watch")
_ALL = ("get", "list", "watch", "create", "update", "delete")
_CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_REGISTRATION = "admissionregistration.k8s.io"


class Right(NamedTuple):
    """A right that the replicas need, and its purpose."""

    verb: str
    group: str
    resource: str
    purpose: str
    name: str = ""
    namespace: str = ""


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """The service account of the replicas has the rights that they need."""
    account = f"system:serviceaccount:{installation.place.namespace}:{installation.workload.service_account}"
    rights = needed(installation.workload, installation.place)
    missing = [right for right in rights if not _has(account, right, installation)]
    for right in missing:
        kind = f"{right.resource}.{right.group}" if right.group else right.resource
        where = f"-n {right.namespace} " if right.namespace else ""
        yield problem(
            f"{account} may not {right.verb} {right.resource}{right.name and ' ' + right.name}: {right.purpose}",
            "a role that allows it",
            f"{installation.restore}. Then: kubectl auth can-i {where}{right.verb} {kind}"
            f"{right.name and '/' + right.name} --as={account}",
        )
    if not missing:
        yield ok(f"{account} may do what it needs")


def needed(workload: WebhookDeployment, place: Place) -> Iterator[Right]:
    """The rights that the replicas need with their arguments."""
    for verbs, *others in _rows(workload, place):
        yield from (Right(verb, *others) for verb in verbs)


def _rows(workload: WebhookDeployment, place: Place) -> Iterator[tuple[tuple[str, ...], *tuple[str, ...]]]:
    """Verbs, API group, resource and purpose, and perhaps name and namespace."""
    yield _READ, "", "nodes", "rules ask where a pod can run"
    yield _READ, "node.k8s.io", "runtimeclasses", "the rule runtimeClass asks whether it exists"
    yield _READ, "scheduling.k8s.io", "priorityclasses", "the rule priorityClass asks whether it exists"
    yield _READ, "resource.k8s.io", "deviceclasses", "DeviceClasses may give GPUs that no node lists"
    for resource in ("resourceclaimtemplates", "resourceclaims"):
        yield _READ, "resource.k8s.io", resource, "the rule tolerations asks which GPUs pods claim"
    yield _READ, "resource.k8s.io", "resourceslices", "rules ask how many GPUs nodes offer for claims"
    yield ("get",), "", "pods", "exceptions of a pod hold for the claims that are made for it"
    keeps, secret = workload.keeps_certificates, workload.certificate_secret
    if keeps or "registration" in workload.arguments:
        for resource in _CONFIGURATIONS:
            yield ("get",), _REGISTRATION, resource, "changes to the configurations are noticed", place.name
    if keeps:
        for resource in _CONFIGURATIONS:
            yield ("update",), _REGISTRATION, resource, "the caBundle is kept up to date", place.name
        yield ("get", "update"), "", "secrets", "certificates are kept there", secret, place.namespace
        yield ("create",), "", "secrets", "certificates are made on the first start", "", place.namespace
    if ledgers := workload.quota_ledgers:
        yield _READ, "", "pods", "pods that count against quotas are read"
        yield ("get",), "", "namespaces", "ledgers are begun only for namespaces that exist"
        for kind in GROUP_KINDS.values():
            yield ("get",), kind.group, kind.resource, "pods that start together are counted together"
        verbs = tuple(verb for verb in _ALL if verb != "watch")
        yield verbs, "", "configmaps", "the ledgers of quotas are kept there", "", ledgers
        yield _ALL, "gpupolicy.dev", "gpuquotas", "usage is shown to users"
    if "policy-objects" in workload.arguments:
        yield _ALL, "gpupolicy.dev", "gpupolicies", "people are shown the policies of their namespaces"
    if "warning-events" in workload.arguments:
        yield ("create",), "", "events", "warnings about pods are shown on their controllers"
        yield ("get",), "apps", "replicasets", "warnings are shown on the Deployment of a ReplicaSet"
    if results := workload.image_results:
        purpose = "results of image look-ups are shared there"
        yield ("get", "update"), "", "configmaps", purpose, results, place.namespace


def _has(account: str, right: Right, installation: Installation) -> bool:
    attributes = {key: value for key, value in right._asdict().items() if key != "purpose"}
    namespace = installation.place.namespace
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": account, "groups": groups, "resourceAttributes": attributes},
    }
    try:
        return bool(installation.cluster.create(_REVIEWS, body)["status"]["allowed"])
    except RefusedError as refusal:
        remedy = "look again with a kubeconfig that may create subjectaccessreviews"
        raise UnavailableError(str(refusal), remedy) from None
