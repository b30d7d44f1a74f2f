"""Whether NetworkPolicies let pods reach the port of reviews.

No object says whether the network enforces them, or which pods have addresses of a range. Policies of other kinds
(Calico, Cilium) are not read.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from webhook.doctor.cluster import selects
from webhook.doctor.doctor_report import DoctorFinding, ok, warning
from webhook.doctor.installation import Installation
from webhook.model.wording import few

_EXPECTED = "a NetworkPolicy that lets in only the API server, or a client certificate that callers must show"
_REMEDY = (
    "helm upgrade with --set networkPolicy.ingress.cidrs={ADDRESSES OF API SERVERS}; docs/operations.md says which "
    "addresses these are in which network"
)
_UNSEEN = "the doctor cannot see whether the network enforces them"

Rule = Mapping[str, Any]


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """No pod reaches the port of reviews. A client that reaches the port can send reviews in any name."""
    workload = installation.workload
    port = workload.port
    if "client-ca" in workload.arguments:
        yield ok(f"on port {port} reviews are answered only for clients with a certificate of the authority")
        return
    if workload.is_on_host_network:
        found = "the replicas listen on the nodes' addresses, to which no NetworkPolicy applies"
        yield warning(f"{found}: pods may reach port {port}", _EXPECTED, "close the port on the nodes to pods")
        return
    path = installation.path("networkpolicies", api="/apis/networking.k8s.io/v1")
    policies = [
        policy
        for policy in installation.cluster.items(path)
        if selects(policy["spec"].get("podSelector") or {}, workload.pod_labels) and _is_about_ingress(policy["spec"])
    ]
    if not policies:
        yield warning(f"no NetworkPolicy selects the replicas: every pod may reach port {port}", _EXPECTED, _REMEDY)
        return
    rules = [
        (policy["metadata"]["name"], rule)
        for policy in policies
        for rule in policy["spec"].get("ingress") or ()
        if _covers(rule, port, workload.port_names)
    ]
    opened = sorted({name for name, rule in rules if _is_for_everybody(rule)})
    for name in opened:
        yield warning(f"NetworkPolicy {name} lets every pod reach port {port}", _EXPECTED, _REMEDY)
    if not opened:
        peers = [(name, peer) for name, rule in rules for peer in rule["from"]]
        blocks = sorted({peer["ipBlock"]["cidr"] for _, peer in peers if "ipBlock" in peer})
        selecting = sorted({name for name, peer in peers if "ipBlock" not in peer})
        others = [f"pods that NetworkPolicy {few(selecting)} selects"] if selecting else []
        others += [f"whoever has an address in {few(blocks)}"] if blocks else []
        who = f"none but {' and '.join(others)}" if others else "nobody"
        yield ok(f"NetworkPolicies let {who} reach port {port}; {_UNSEEN}")


def _is_about_ingress(spec: Mapping[str, Any]) -> bool:
    return "Ingress" in (spec.get("policyTypes") or ("Ingress",))


def _covers(rule: Rule, port: int, names: Iterable[str]) -> bool:
    ports = rule.get("ports") or ()
    return not ports or any(
        one.get("protocol", "TCP") == "TCP"
        and (
            (wanted := one.get("port")) is None
            or wanted in names
            or (isinstance(wanted, int) and wanted <= port <= one.get("endPort", wanted))
        )
        for one in ports
    )


def _is_for_everybody(rule: Rule) -> bool:
    """Whether a rule lets in every pod: it names nobody, every namespace, or every address."""
    peers = rule.get("from") or ()
    return not peers or any(
        peer["ipBlock"]["cidr"].endswith("/0")
        if "ipBlock" in peer
        else peer.get("namespaceSelector") == {} and not peer.get("podSelector")
        for peer in peers
    )
