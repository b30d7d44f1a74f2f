"""What the API server says when it cannot call the webhook, in words that tell where to look."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from webhook.doctor.doctor_finding import DoctorFinding, problem


@dataclass(frozen=True, slots=True)
class CallFault:
    """A way for calls to fail. Texts may hold {namespace}, {name} and {port}."""

    says: str
    """Regular expression for what the API server says."""
    means: str
    remedy: str


_NETWORK = (
    "let the control plane reach port {port} of the pods: on a private GKE cluster a firewall rule from the control "
    "plane's range to the nodes (gcloud compute firewall-rules create gpu-policy --allow=tcp:{port} "
    "--source-ranges=CONTROL_PLANE_RANGE), on EKS the nodes' security group; with a NetworkPolicy, ingress to {port} "
    "(kubectl -n {namespace} describe networkpolicy). Where only 443 and 10250 pass, set the chart's port to 10250"
)
_BUNDLE = (
    "a replica that keeps certificates mends it within seconds (kubectl -n {namespace} logs deployment/{name} | "
    "grep gpu_policy.certificates); with a certificate of your own put the authority that signed it into the caBundle"
)

CALL_FAULTS: tuple[CallFault, ...] = (
    CallFault(
        r"no endpoints available|has no endpoints",
        "no replica is ready",
        "kubectl -n {namespace} get pods; kubectl -n {namespace} describe deployment/{name}",
    ),
    CallFault(
        r'service[s]? "[^"]+" not found',
        "the Service is missing",
        "apply the release again: helm upgrade RELEASE ... --namespace {namespace}, or kubectl apply -f install.yaml",
    ),
    CallFault(
        r"x509: certificate has expired|x509: certificate .*not yet valid",
        "the serving certificate is not valid now",
        "renew it, or set the clocks; kubectl -n {namespace} logs deployment/{name} | grep gpu_policy.certificates",
    ),
    CallFault(
        r"x509: certificate is (?:valid for|not valid for any names)|x509: certificate is not valid|"
        r"x509: cannot validate certificate|x509: certificate relies on legacy",
        "the serving certificate is for another name",
        "issue it for {name}.{namespace}.svc (--certificate-name)",
    ),
    CallFault(
        r"x509:|unable to load root certificates|unable to parse bytes as PEM|failed to verify certificate",
        "the caBundle does not trust the serving certificate",
        _BUNDLE,
    ),
    CallFault(
        r"client certificate: found|remote error: tls|certificate required",
        "the replicas turn the API server away: they ask for a client certificate that it does not show",
        "give the API server one (--admission-control-config-file with a kubeconfig for the webhook), or start the "
        "replicas without --client-ca",
    ),
    CallFault(
        r"first record does not look like a TLS handshake|malformed HTTP response|"
        r"tls: .*(?:handshake|unexpected|protocol)|gave HTTP response to HTTPS client",
        "something else than the webhook answers at this port",
        "compare the Service's targetPort with the pods' port {port}: kubectl -n {namespace} describe service {name}",
    ),
    CallFault(
        r"connection refused",
        "nothing listens where the Service leads",
        "kubectl -n {namespace} get pods; compare the Service's targetPort with the pods' port {port}",
    ),
    CallFault(
        r"awaiting headers|while reading body|request canceled \(Client",
        "the webhook was reached and did not answer in time, or something on the way swallows the answer",
        "look at its load (gpu_policy_request_duration_seconds) and CPU limits; else " + _NETWORK,
    ),
    CallFault(
        r"TLS handshake timeout|i/o timeout|deadline exceeded|no route to host|network is unreachable|"
        r"No agent available|failed to dial|dial timeout",
        "packets from the control plane to the pods get lost: a firewall or a NetworkPolicy",
        _NETWORK,
    ),
    CallFault(
        r"no such host|server misbehaving",
        "the name in the configuration cannot be resolved",
        "correct the URL; a Service is named by clientConfig.service, not by a URL",
    ),
    CallFault(
        r"\bEOF\b|connection reset|broken pipe|http2: ",
        "the connection breaks off: the replica went away, or a proxy stands between",
        "kubectl -n {namespace} get pods; restarts show in kubectl -n {namespace} describe pods",
    ),
    CallFault(
        r"because of a bug|facts: not loaded|overloaded|this connection ends|this server is stopping|too many |"
        r"unable to handle the request|an error on the server",
        "the replicas answer, but with no decision",
        "kubectl -n {namespace} logs deployment/{name} --tail=50",
    ),
)
"""What is known, the more telling first."""


def explained(said: str, names: Mapping[str, object]) -> DoctorFinding:
    """A failed call, with what it means where that is known; `names` has namespace, name and port."""
    expected = "an answer from the webhook"
    for fault in CALL_FAULTS:
        if re.search(fault.says, said):
            return problem(f"{fault.means}: {said}", expected, fault.remedy.format(**names))
    remedy = "kubectl -n {namespace} get pods,service,endpoints; kubectl -n {namespace} logs deployment/{name}"
    return problem(f"the API server cannot call the webhook: {said}", expected, remedy.format(**names))
