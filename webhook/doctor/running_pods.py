"""The replicas: whether enough of them run, the Service reaches them, and they survive the loss of a node."""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.doctor.cluster import Object, UnavailableError
from webhook.doctor.doctor_report import DoctorFinding, ok, problem, skipped, warning
from webhook.doctor.installation import Installation
from webhook.kubernetes.api_paths import CORE, path_of
from webhook.model.wording import counted

ENOUGH = 2
"""Least number of replicas, of which one may be lost."""
_ENOUGH = "two or more, so that one may be lost"


def deployment(installation: Installation) -> Iterator[DoctorFinding]:
    """The Deployment is there and its replicas are ready."""
    place, found = installation.place, installation.deployment
    if found is None:
        yield problem(
            f"there is no Deployment {place.namespace}/{place.name}",
            "the Deployment of the webhook",
            f"{installation.restore}; or say with --namespace and --name where it is: "
            "kubectl get deployments -A -l app.kubernetes.io/name=gpu-policy",
        )
        return
    counted = f"{found.ready} of {found.wanted} replicas are ready"
    see = f"{installation.kubectl} describe {installation.title}; {installation.kubectl} get pods"
    if found.ready == 0:
        yield problem(counted, _ENOUGH, see)
    elif found.ready < found.wanted:
        yield warning(counted, f"{found.wanted}", see)
    else:
        yield ok(counted)
    if found.wanted < ENOUGH:
        more = f"helm upgrade with --set replicas=3, or {installation.kubectl} scale {installation.title} --replicas=3"
        yield warning(f"{found.wanted} replicas are wanted", _ENOUGH, more)


def endpoints(installation: Installation) -> Iterator[DoctorFinding]:
    """The Service that the API server calls leads to ready replicas."""
    services = {_service(entry) for entry in installation.entries}
    if not services:
        yield skipped("no webhook configuration names a Service")
    for service in sorted(services, key=str):
        if service is None:
            yield skipped("a configuration names a URL instead of a Service; what stands behind it cannot be seen")
        else:
            yield _reached(*service, installation)


def spread(installation: Installation) -> Iterator[DoctorFinding]:
    """The replicas run on different nodes."""
    nodes = [pod["spec"].get("nodeName", "") for pod in installation.pods]
    if len(nodes) < ENOUGH:
        yield skipped(f"{len(nodes)} of the pods run{'s' if len(nodes) == 1 else ''}, so there is nothing to spread")
    elif len(set(nodes)) == 1:
        yield warning(
            f"all {len(nodes)} replicas run on node {nodes[0]}",
            "replicas on different nodes",
            f"add nodes that they fit on, then {installation.kubectl} rollout restart {installation.title}",
        )
    else:
        yield ok(f"{len(nodes)} replicas run on {len(set(nodes))} nodes")


def disruption_budget(installation: Installation) -> Iterator[DoctorFinding]:
    """A PodDisruptionBudget keeps drains of nodes from taking all replicas at once."""
    labels = installation.workload.raw["spec"]["template"]["metadata"].get("labels", {})
    budgets = installation.cluster.items(installation.path("poddisruptionbudgets", api="/apis/policy/v1"))
    names = [budget["metadata"]["name"] for budget in budgets if _selects(budget["spec"].get("selector"), labels)]
    if names:
        yield ok(f"PodDisruptionBudget {', '.join(names)} selects the replicas")
    else:
        yield warning(
            "no PodDisruptionBudget selects the replicas", "one, so that drains leave some", installation.restore
        )


def _service(entry: Object) -> tuple[str, str, int] | None:
    """Namespace, name and port of the Service that a webhook names; None where it names a URL."""
    service = entry.get("clientConfig", {}).get("service")
    return None if service is None else (service["namespace"], service["name"], service.get("port", 443))


def _reached(namespace: str, name: str, port: int, installation: Installation) -> DoctorFinding:
    service = installation.cluster.find(path_of(CORE, "services", namespace=namespace, name=name))
    if service is None:
        found = f"there is no Service {namespace}/{name}, which the configurations name"
        return problem(found, "the Service of the webhook", installation.restore)
    ports = [one["port"] for one in service["spec"].get("ports", ())]
    if port not in ports:
        found = f"Service {namespace}/{name} has no port {port}, which the configurations name, only {ports}"
        return problem(found, f"port {port}", installation.restore)
    ready = len(_ready_addresses(namespace, name, installation))
    if ready == 0:
        return problem(
            f"Service {namespace}/{name} leads to no ready replica",
            _ENOUGH,
            f"{installation.kubectl} get pods; compare their labels with "
            f"kubectl -n {namespace} get service {name} -o jsonpath='{{.spec.selector}}'",
        )
    found = f"Service {namespace}/{name} leads to {counted(ready, 'ready replica')}"
    if ready < ENOUGH:
        return warning(found, _ENOUGH, f"{installation.kubectl} get pods")
    return ok(found)


def _ready_addresses(namespace: str, name: str, installation: Installation) -> set[str]:
    """The addresses of ready endpoints: of EndpointSlices, before 1.21 of Endpoints."""
    path = path_of("/apis/discovery.k8s.io/v1", "endpointslices", namespace=namespace)
    try:
        slices = list(installation.cluster.items(path, {"labelSelector": f"kubernetes.io/service-name={name}"}))
    except UnavailableError:
        found = installation.cluster.find(path_of(CORE, "endpoints", namespace=namespace, name=name)) or {}
        subsets = found.get("subsets") or ()
        return {address["ip"] for subset in subsets for address in subset.get("addresses") or ()}
    return {
        address
        for one in slices
        for endpoint in one.get("endpoints") or ()
        if endpoint.get("conditions", {}).get("ready", True)
        for address in endpoint.get("addresses", ())
    }


def _selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector with matchLabels only selects a pod with these labels."""
    wanted = (selector or {}).get("matchLabels") or {}
    return bool(wanted) and wanted.items() <= labels.items()
