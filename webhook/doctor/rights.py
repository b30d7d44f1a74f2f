"""The rights of the replicas, by the authorizer of the API server."""

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.doctor.cluster import UnavailableError
from webhook.doctor.doctor_report import DoctorFinding, ok, problem
from webhook.doctor.installation import Installation, Place
from webhook.doctor.webhook_deployment import WebhookDeployment
from webhook.kubernetes.api_errors import RefusedError

_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

_ALL_OF_OBJECTS = ("get", "list", "watch", "create", "update", "delete")


@dataclass(frozen=True, slots=True)
class Right:
    """A right that the replicas need, and its purpose."""

    verb: str
    group: str
    resource: str
    purpose: str
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        named = f" {self.name}" if self.name else ""
        return f"{self.verb} {self.resource}{named}"


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """The service account of the replicas has the rights that they need."""
    account = f"system:serviceaccount:{installation.place.namespace}:{installation.workload.service_account}"
    rights = needed(installation.workload, installation.place)
    missing = [right for right in rights if not _has(account, right, installation)]
    for right in missing:
        kind = f"{right.resource}.{right.group}" if right.group else right.resource
        where = f"-n {right.namespace} " if right.namespace else ""
        yield problem(
            f"{account} may not {right}: {right.purpose}",
            "a role that allows it",
            f"{installation.restore}. Then: kubectl auth can-i {where}{right.verb} {kind}"
            f"{right.name and '/' + right.name} --as={account}",
        )
    if not missing:
        yield ok(f"{account} may do what it needs")


def needed(workload: WebhookDeployment, place: Place) -> Iterator[Right]:
    """The rights that the replicas need with their arguments."""
    yield from _of_facts()
    keeps = workload.keeps_certificates
    if "registration" in workload.arguments or keeps:
        for resource in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            purpose = "changes to the configurations are noticed"
            yield Right("get", "admissionregistration.k8s.io", resource, purpose, place.name)
            if keeps:
                purpose = "the caBundle is kept up to date"
                yield Right("update", "admissionregistration.k8s.io", resource, purpose, place.name)
    if keeps:
        secret = workload.certificate_secret
        for verb in ("get", "update"):
            yield Right(verb, "", "secrets", "certificates are kept there", secret, place.namespace)
        yield Right("create", "", "secrets", "certificates are made on the first start", "", place.namespace)
    yield from _of_shown(workload)
    if results := workload.image_results:
        for verb in ("get", "update"):
            purpose = "results of image look-ups are shared there"
            yield Right(verb, "", "configmaps", purpose, results, place.namespace)


def _of_facts() -> Iterator[Right]:
    """The rights for the facts that rules ask about."""
    for verb in ("list", "watch"):
        yield Right(verb, "", "nodes", "rules ask where a pod can run")
        yield Right(verb, "node.k8s.io", "runtimeclasses", "the rule runtimeClass asks whether it exists")
        yield Right(verb, "scheduling.k8s.io", "priorityclasses", "the rule priorityClass asks whether it exists")
        yield Right(verb, "resource.k8s.io", "deviceclasses", "DeviceClasses may give GPUs that no node lists")
        for resource in ("resourceclaimtemplates", "resourceclaims"):
            yield Right(verb, "resource.k8s.io", resource, "the rule tolerations asks which GPUs pods claim")
        yield Right(verb, "resource.k8s.io", "resourceslices", "rules ask how many GPUs nodes offer for claims")
    yield Right("get", "", "pods", "exceptions of a pod hold for the claims that are made for it")


def _of_shown(workload: WebhookDeployment) -> Iterator[Right]:
    """The rights for quotas, and for what people are shown."""
    if ledgers := workload.quota_ledgers:
        yield from _of_quotas(ledgers)
    if "policy-objects" in workload.arguments:
        for verb in _ALL_OF_OBJECTS:
            yield Right(verb, "gpupolicy.dev", "gpupolicies", "people are shown the policies of their namespaces")
    if "warning-events" in workload.arguments:
        yield Right("create", "", "events", "warnings about pods are shown on their controllers")
        yield Right("get", "apps", "replicasets", "warnings are shown on the Deployment of a ReplicaSet")


def _of_quotas(ledgers: str) -> Iterator[Right]:
    """The rights for ledgers of quotas in a namespace."""
    for verb in ("list", "watch"):
        yield Right(verb, "", "pods", "pods that count against quotas are read")
    yield Right("get", "", "namespaces", "ledgers are begun only for namespaces that exist")
    yield Right("list", "", "resourcequotas", "pods that a ResourceQuota would refuse are not counted")
    for verb in ("get", "list", "create", "update", "delete"):
        yield Right(verb, "", "configmaps", "the ledgers of quotas are kept there", "", ledgers)
    for verb in _ALL_OF_OBJECTS:
        yield Right(verb, "gpupolicy.dev", "gpuquotas", "usage is shown to users")


def _has(account: str, right: Right, installation: Installation) -> bool:
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": right.resource,
        "name": right.name,
        "namespace": right.namespace,
    }
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
