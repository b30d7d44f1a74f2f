"""Whether NetworkPolicies let pods reach the port of reviews.

No object says whether the network enforces them. Policies of other kinds (Calico, Cilium) are not read.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from webhook.doctor.cluster import UnavailableError, selects
from webhook.doctor.doctor_report import DoctorFinding, ok, warning
from webhook.doctor.installation import Installation
from webhook.model.wording import few

_EXPECTED = "a NetworkPolicy that lets in only the API server, or a client certificate that callers must show"
_REMEDY = (
    "helm upgrade with --set networkPolicy.ingress.cidrs={ADDRESSES OF API SERVERS}; docs/operations.md says which "
    "addresses these are in which network"
)
_UNSEEN = "the doctor cannot see whether the network enforces them"

_ZEROS = re.compile(r"\b0+(?=[0-9])", re.ASCII)

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
    opened = dict.fromkeys(
        f"NetworkPolicy {name} lets {who} reach port {port}"
        for name, rule in rules
        for who in _let_in(rule, installation)
    )
    for found in opened:
        yield warning(found, _EXPECTED, _REMEDY)
    if not opened:
        who = f"none but {' and '.join(others)}" if (others := list(_others(rules, installation))) else "no pod"
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


def _let_in(rule: Rule, installation: Installation) -> Iterator[str]:
    """The pods, in words, that a rule lets in without selecting them by labels or namespaces."""
    peers = rule.get("from") or ()
    if not peers:
        yield "every pod"
    for peer in peers:
        if block := peer.get("ipBlock"):
            if _holds_pods(block, installation):
                yield f"pods with addresses in {block['cidr']}"
        elif peer.get("namespaceSelector") == {} and not peer.get("podSelector"):
            yield "every pod"


def _others(rules: Iterable[tuple[str, Rule]], installation: Installation) -> Iterator[str]:
    """The pods, in words, that the rules of NetworkPolicies select, or may let in by their addresses.

    In many networks nodes do not say which addresses pods have.
    """
    peers = [(name, peer) for name, rule in rules for peer in rule["from"]]
    if selecting := sorted({name for name, peer in peers if "ipBlock" not in peer}):
        yield f"pods that NetworkPolicy {', '.join(selecting)} selects"
    versions = {one.version for one in _pod_networks(installation)}
    blocks = {peer["ipBlock"]["cidr"] for _, peer in peers if "ipBlock" in peer}
    if unknown := sorted(one for one in blocks if _network(one).version not in versions):
        yield f"pods with addresses in {few(unknown)}, if there are any,"


def _holds_pods(block: Mapping[str, Any], installation: Installation) -> bool:
    """Whether pods have addresses in a block, by the address ranges of nodes; a block of all addresses has all pods."""
    allowed = _network(block["cidr"])
    if not allowed.prefixlen:
        return True
    excepted = [_network(one) for one in block.get("except") or ()]
    return any(
        given.version == allowed.version
        and given.overlaps(allowed)
        and not any(one.version == given.version and given.subnet_of(one) for one in excepted)  # type: ignore[arg-type]
        for given in _pod_networks(installation)
    )


def _pod_networks(installation: Installation) -> list[IPv4Network | IPv6Network]:
    """The address ranges of nodes for pods; empty where the network assigns addresses, or nodes may not be read."""
    with suppress(UnavailableError):
        return [_network(one) for node in installation.nodes for one in node.get("spec", {}).get("podCIDRs") or ()]
    return []


def _network(cidr: str) -> IPv4Network | IPv6Network:
    """An address range as Kubernetes reads it: bits after the prefix and leading zeros are allowed."""
    return ip_network(cidr if ":" in cidr else _ZEROS.sub("", cidr), strict=False)
