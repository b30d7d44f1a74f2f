"""The replicas: whether enough of them run, the Service reaches them, a lost node leaves some, and their rights.

The part at the end reads what the replicas report about themselves, through the API server's proxy to their pods.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import NamedTuple

from webhook.doctor.doctor_report import DoctorFinding, ok, problem, skipped, warning
from webhook.doctor.installation import (
    Installation,
    Object,
    Place,
    UnavailableError,
    WebhookDeployment,
    changed_at,
    selects,
)
from webhook.facts.snapshot import MAKING_KINDS
from webhook.kubernetes.api_errors import RefusedError
from webhook.kubernetes.api_paths import CORE, path_of
from webhook.model.pod_groups import GROUP_KINDS
from webhook.model.wording import counted
from webhook.yaml_files.file_errors import FileErrors

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


def rights(installation: Installation) -> Iterator[DoctorFinding]:
    """The service account of the replicas has the rights that they need."""
    account = f"system:serviceaccount:{installation.place.namespace}:{installation.workload.service_account}"
    asked = any(entry.get("name") == "drivers.gpupolicy.dev" for entry in installation.entries)
    all_rights = needed(installation.workload, installation.place, judges_drivers=asked)
    missing = [right for right in all_rights if not _has(account, right, installation)]
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


def needed(workload: WebhookDeployment, place: Place, *, judges_drivers: bool = True) -> Iterator[Right]:
    """The rights that the replicas need with their arguments."""
    if judges_drivers:
        yield Right("list", "", "pods", "what another driver breaks is asked of the pods")
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
    for _, path, *_ in MAKING_KINDS.values():
        group, _, resource = path.removeprefix("/apis/").split("/")
        what = "drivers nodes get" if group == "nvidia.com" else "nodes Karpenter may make"
        yield _READ, group, resource, f"rules ask which {what}"
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


ENOUGH = 2
_ENOUGH = "two or more replicas, so that one may be lost"
_SHUT = "a NetworkPolicy that lets in only the API server, or a client certificate that callers must show"
_SHUT_REMEDY = (
    "helm upgrade with --set networkPolicy.ingress.cidrs={ADDRESSES OF API SERVERS}; docs/operations.md says which "
    "addresses these are in which network"
)


def deployment(installation: Installation) -> Iterator[DoctorFinding]:
    """The Deployment exists and its replicas are ready."""
    place, found = installation.place, installation.deployment
    if found is None:
        yield problem(
            f"there is no Deployment {place.namespace}/{place.name}",
            "the Deployment of the webhook",
            f"{installation.restore}; or say with --namespace and --name where it is: "
            "kubectl get deployments -A -l app.kubernetes.io/name=gpu-policy",
        )
        return
    ready = f"{found.ready} of {found.wanted} replicas are ready"
    see = f"{installation.kubectl} describe {installation.title}; {installation.kubectl} get pods"
    if found.ready == 0:
        yield problem(ready, _ENOUGH, see)
    elif found.ready < found.wanted:
        yield warning(ready, f"{found.wanted} ready replicas", see)
    else:
        yield ok(ready)
    if found.wanted < ENOUGH:
        more = f"helm upgrade with --set replicas=3, or {installation.kubectl} scale {installation.title} --replicas=3"
        yield warning(f"the Deployment asks for {counted(found.wanted, 'replica')}", _ENOUGH, more)


def endpoints(installation: Installation) -> Iterator[DoctorFinding]:
    """The Service that the API server calls leads to ready replicas."""
    clients = [entry.get("clientConfig", {}).get("service") for entry in installation.entries]
    services = {None if one is None else (one["namespace"], one["name"], one.get("port", 443)) for one in clients}
    if not services:
        yield skipped("no webhook configuration names a Service")
    for service in sorted(services, key=str):
        if service is None:
            yield skipped("a configuration names a URL instead of a Service; the doctor cannot see what answers there")
        else:
            yield _reached(*service, installation)


def spread(installation: Installation) -> Iterator[DoctorFinding]:
    """The replicas run on different nodes."""
    nodes = [pod["spec"].get("nodeName", "") for pod in installation.pods]
    if len(nodes) < ENOUGH:
        yield skipped(f"{counted(len(nodes), 'replica runs', 'replicas run')}, so there is nothing to spread")
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
    labels = installation.workload.pod_labels
    names = [
        budget["metadata"]["name"]
        for budget in installation.cluster.items(installation.path("poddisruptionbudgets", api="/apis/policy/v1"))
        if (selector := budget["spec"].get("selector")) is not None and selects(selector, labels)
    ]
    if names:
        yield ok(f"PodDisruptionBudget {', '.join(names)} selects the replicas")
    else:
        yield warning(
            "no PodDisruptionBudget selects the replicas",
            "a PodDisruptionBudget, so that drains of nodes leave some replicas",
            installation.restore,
        )


def port(installation: Installation) -> Iterator[DoctorFinding]:
    """NetworkPolicies keep most pods away from the port of reviews: whoever reaches it can send reviews in any name.

    No object says whether the network enforces them. Policies of other kinds (Calico, Cilium) are not read.
    """
    workload = installation.workload
    number, names = workload.port, workload.port_names
    if "client-ca" in workload.arguments:
        yield ok(f"on port {number} reviews are answered only for clients with a certificate of the authority")
        return
    if workload.is_on_host_network:
        found = "the replicas listen on the nodes' addresses, to which no NetworkPolicy applies"
        yield warning(f"{found}: pods may reach port {number}", _SHUT, "close the port on the nodes to pods")
        return
    path = installation.path("networkpolicies", api="/apis/networking.k8s.io/v1")
    policies = {
        policy["metadata"]["name"]: policy["spec"].get("ingress") or ()
        for policy in installation.cluster.items(path)
        if selects(policy["spec"].get("podSelector") or {}, workload.pod_labels)
        and "Ingress" in (policy["spec"].get("policyTypes") or ("Ingress",))
    }
    if not policies:
        yield warning(f"no NetworkPolicy selects the replicas: every pod may reach port {number}", _SHUT, _SHUT_REMEDY)
        return
    opened = [name for name, rules in policies.items() if any(_is_open(rule, (None, number, *names)) for rule in rules)]
    for name in sorted(opened):
        yield warning(f"NetworkPolicy {name} lets every pod reach port {number}", _SHUT, _SHUT_REMEDY)
    if not opened:
        yield ok(
            f"NetworkPolicies let only the peers that they name reach port {number}; the doctor cannot see whether the "
            "network enforces them"
        )


def _is_open(rule: Object, ports: Collection[object]) -> bool:
    """Whether a rule about one of these ports names nobody, every namespace, or every address."""
    wanted, peers = rule.get("ports") or (), rule.get("from") or ()
    if wanted and not any(one.get("port") in ports or "endPort" in one for one in wanted):
        return False
    return not peers or any(
        peer["ipBlock"]["cidr"].endswith("/0")
        if "ipBlock" in peer
        else peer.get("namespaceSelector") == {} and not peer.get("podSelector")
        for peer in peers
    )


def _reached(namespace: str, name: str, port: int, installation: Installation) -> DoctorFinding:
    service = installation.cluster.find(path_of(CORE, "services", namespace=namespace, name=name))
    if service is None:
        found = f"there is no Service {namespace}/{name}, which the configurations name"
        return problem(found, "the Service of the webhook", installation.restore)
    ports = [one["port"] for one in service["spec"].get("ports", ())]
    if port not in ports:
        found = f"Service {namespace}/{name} has no port {port}, which the configurations name, only {ports}"
        return problem(found, f"port {port}", installation.restore)
    path = path_of("/apis/discovery.k8s.io/v1", "endpointslices", namespace=namespace)
    addresses = {
        address
        for one in installation.cluster.items(path, {"labelSelector": f"kubernetes.io/service-name={name}"})
        for endpoint in one.get("endpoints") or ()
        if endpoint.get("conditions", {}).get("ready", True)
        for address in endpoint.get("addresses", ())
    }
    if not addresses:
        return problem(
            f"Service {namespace}/{name} leads to no ready replica",
            _ENOUGH,
            f"{installation.kubectl} get pods; compare their labels with "
            f"kubectl -n {namespace} get service {name} -o jsonpath='{{.spec.selector}}'",
        )
    found = f"Service {namespace}/{name} leads to {counted(len(addresses), 'ready replica')}"
    if len(addresses) < ENOUGH:
        return warning(found, _ENOUGH, f"{installation.kubectl} get pods")
    return ok(found)


DELIVERED_SECONDS = 180.0
"""Time after which every kubelet has delivered a changed ConfigMap, and every replica has loaded it."""


def served_policies(installation: Installation) -> Iterator[DoctorFinding]:
    """The replicas are ready, have loaded the files on disk, and serve the policies of the ConfigMaps."""
    if not installation.pods:
        raise UnavailableError("no pod of the Deployment runs, so there is no replica to ask")
    serving: dict[str, list[str]] = defaultdict(list)
    for pod in installation.pods:
        name = pod["metadata"]["name"]
        path = f"{installation.path('pods', f'https:{name}:{installation.workload.port}')}/proxy/statusz"
        try:
            state = installation.cluster.find(path) or {}
            served, unready, refused = (state[key] for key in ("policies", "notReady", "refusedPolicies"))
        except UnavailableError as why:
            if why.is_forbidden:
                raise UnavailableError(str(why), "look again with a kubeconfig that may get pods/proxy") from None
            yield skipped(f"replica {name} cannot be asked: {why}")
            continue
        except KeyError:
            yield skipped(f"replica {name} cannot be asked: it is of another version than this command")
            continue
        serving[served].append(name)
        if unready:
            see = f"{installation.kubectl} logs {name} --tail=50"
            yield problem(f"replica {name} is not ready: {unready}", "ready", see)
        if refused:
            yield problem(
                f"replica {name} refused the policies on disk and keeps the last good set: {refused}",
                "policies without a mistake",
                "correct the policy; `gpu-policy policy check DIRECTORY` names every mistake. A replica that starts "
                "now does not become ready",
            )
    if serving:
        yield _agreement(serving, installation)


def _agreement(serving: dict[str, list[str]], installation: Installation) -> DoctorFinding:
    try:
        held = installation.policies.hash
    except (FileErrors, UnavailableError):
        held = next(iter(serving))  # then replicas are compared with one another
    others = {found: names for found, names in serving.items() if found != held}
    if not others:
        count = sum(map(len, serving.values()))
        return ok(f"{count} {'replica serves' if count == 1 else 'replicas serve'} the policies {held[:12]}")
    found = "; ".join(f"{', '.join(names)}: {one[:12]}" for one, names in sorted(serving.items()))
    if _is_fresh(installation):
        return warning(
            f"replicas serve different policies: {found}",
            f"{held[:12]} everywhere, a minute or two after a change",
            "look again in a few minutes",
        )
    return problem(
        f"replicas serve different policies: {found}",
        f"{held[:12]} everywhere",
        f"see why they do not take up the ConfigMap ({installation.kubectl} logs POD), then "
        f"{installation.kubectl} rollout restart {installation.title}; or this command is of another version than the "
        "replicas",
    )


def _is_fresh(installation: Installation) -> bool:
    try:
        changes = [changed_at(config_map) for _, config_map in installation.policy_config_maps]
    except UnavailableError:
        return False
    now = installation.cluster.now()
    return any((now - change).total_seconds() < DELIVERED_SECONDS for change in changes)
