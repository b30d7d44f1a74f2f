"""Dry runs of GPU pods, which the API server sends to the webhook as it sends every GPU pod.

If the API server cannot call the webhook, its error is explained, with a remedy.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from webhook import engine
from webhook.doctor.doctor_report import DoctorFinding, ok, problem, skipped, warning
from webhook.doctor.installation import DEFAULT_PORT, Installation, Object, Place, UnavailableError
from webhook.kubernetes.api_errors import RefusedError
from webhook.kubernetes.api_paths import CORE, path_of


@dataclass(frozen=True, slots=True)
class CallFault:
    """A reason why calls of the webhook fail. `remedy` may have {namespace}, {name} and {port}."""

    pattern: str
    """Regular expression for the message of the API server."""
    means: str
    remedy: str


_NETWORK = (
    "let the control plane reach port {port} of the pods: on a private GKE cluster a firewall rule from the control "
    "plane's range to the nodes (gcloud compute firewall-rules create gpu-policy --allow=tcp:{port} "
    "--source-ranges=CONTROL_PLANE_RANGE), on EKS the nodes' security group; with a NetworkPolicy, ingress to {port} "
    "(kubectl -n {namespace} describe networkpolicy). Where only 443 and 10250 pass, set the chart's port to 10250"
)
_BUNDLE = (
    "a replica that keeps certificates fixes it within seconds (kubectl -n {namespace} logs deployment/{name} | "
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
        "the replicas refuse the API server: they require a client certificate, and it shows none",
        "give the API server one (--admission-control-config-file with a kubeconfig for the webhook), or start the "
        "replicas without --client-ca",
    ),
    CallFault(
        r"first record does not look like a TLS handshake|malformed HTTP response|"
        r"tls: .*(?:handshake|unexpected|protocol)|gave HTTP response to HTTPS client",
        "something other than the webhook answers at this port",
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
"""The known reasons. More specific reasons come first."""


def explained(message: str, names: Mapping[str, object]) -> DoctorFinding:
    """The finding about a failed call, with its reason if known. `names` has namespace, name and port."""
    expected = "an answer from the webhook"
    for fault in CALL_FAULTS:
        if re.search(fault.pattern, message):
            return problem(f"{fault.means}: {message}", expected, fault.remedy.format(**names))
    remedy = "kubectl -n {namespace} get pods,service,endpoints; kubectl -n {namespace} logs deployment/{name}"
    return problem(f"the API server cannot call the webhook: {message}", expected, remedy.format(**names))


MUTATE, VALIDATE = "mutate.gpupolicy.dev", "validate.gpupolicy.dev"
GPU = "nvidia.com/gpu"

_DENIED = re.compile(r'admission webhook "([^"]+)" denied the request')
_UNCALLED = re.compile(r'failed calling (?:admission )?webhook "([^"]+)"')


_OWN_VALIDATION = "the API server's own validation"

DRY_RUNS = (
    ("a pod with one GPU", {"limits": {GPU: "1"}}, ""),
    ("a pod with a GPU in requests only", {"limits": {}, "requests": {GPU: "1"}}, MUTATE),
    ("a pod with 100000 GPUs", {"limits": {GPU: "100000"}}, VALIDATE),
)
"""Pods to create without storing them: a title, the GPUs, and the webhook that has to refuse the pod.

A pod that no webhook has to refuse has to get injections.
"""


def _pod(resources: Mapping[str, Mapping[str, str]]) -> Object:
    """A pod. Only its GPUs can be a reason to refuse it."""
    container = {
        "name": "doctor",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {part: {"cpu": "1m", "memory": "8Mi", **gpus} for part, gpus in resources.items()},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    profile = {"type": "RuntimeDefault"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "gpu-policy-doctor-"},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [container],
            "restartPolicy": "Never",
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": profile},
        },
    }


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """Who refused the pod (or empty), or the rules that mutated it."""

    refused_by: str
    injected: str = ""

    @property
    def shows_a_call(self) -> bool:
        return self.refused_by in (MUTATE, VALIDATE) or bool(self.injected)

    def __str__(self) -> str:
        if self.refused_by:
            return f"is refused by {self.refused_by}"
        return f"gets {self.injected}" if self.injected else "is admitted unchanged"


class _UncalledError(Exception):
    """The API server could not call the webhook; the text is its own."""


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """GPU pods reach the webhook, which mutates and refuses them as the policies say."""
    for title, resources, refused_by in DRY_RUNS:
        pod = _pod(resources)
        try:
            found, message = _result_of(pod, installation)
        except _UncalledError as error:
            yield explained(str(error), _names(installation))
            return
        try:
            expected = _expected(pod, installation)
        except UnavailableError as why:
            yield (
                ok(f"{title} {found}")
                if found.shows_a_call
                else warning(
                    f"{title} {found}, and it is not known whether it should: {why}",
                    f"a refusal by {refused_by}"
                    if refused_by
                    else f"injections, named in the annotation {engine.ANNOTATION}",
                    why.remedy or "name the policies with --policies",
                )
            )
        else:
            yield _compared(title, found, message, expected, installation.place)


def _result_of(pod: Object, installation: Installation) -> tuple[DryRunResult, str]:
    """What becomes of a pod, and the words of who refuses it.

    Raises UnavailableError where something other than the webhook refuses the pod.
    """
    namespace = installation.place.dry_run_namespace
    try:
        stored = installation.cluster.create(path_of(CORE, "pods", namespace=namespace), pod, {"dryRun": "All"})
    except RefusedError as refusal:
        message = str(refusal)
        uncalled, denied = _UNCALLED.search(message), _DENIED.search(message)
        if uncalled and uncalled[1] in (MUTATE, VALIDATE):
            raise _UncalledError(message) from None
        if denied and not uncalled and denied[1] in (MUTATE, VALIDATE):
            return DryRunResult(denied[1]), message
        if refusal.status == 422 and not uncalled and not denied:
            return DryRunResult(_OWN_VALIDATION), message
        raise UnavailableError(
            f"in namespace {namespace} something other than the webhook refuses the pod: {message}",
            "name a namespace in which you may create pods with --dry-run-namespace",
        ) from None
    return DryRunResult("", (stored["metadata"].get("annotations") or {}).get(engine.ANNOTATION, "")), ""


def _expected(pod: Object, installation: Installation) -> DryRunResult:
    policy = installation.sound_policies.for_namespace(installation.place.dry_run_namespace)
    completed = engine.mutate(pod, policy, installation.facts)
    if completed.refusals:
        return DryRunResult(MUTATE)
    if any(finding.fails_validation for finding in completed.findings):
        return DryRunResult(_OWN_VALIDATION)
    if engine.validate(completed.object, policy, installation.facts).refusals:
        return DryRunResult(VALIDATE)
    return DryRunResult("", ",".join(completed.injected))


def _compared(title: str, found: DryRunResult, message: str, expected: DryRunResult, place: Place) -> DoctorFinding:
    if found != expected:
        return problem(
            f"{title} in namespace {place.dry_run_namespace} {found}{message and ': ' + message}",
            f"by its policy it {expected}",
            "see the checks configurations, certificates and replicas; if they are well, look whether the "
            "namespaceSelector of the configurations leaves the namespace out (kubectl get "
            f"mutatingwebhookconfiguration {place.name} -o yaml)",
        )
    if found.shows_a_call:
        return ok(f"{title} {found}")
    return skipped(
        f"{title} {found}, as its policy in namespace {place.dry_run_namespace} says; this does not show that the "
        "webhook was called",
        "name a namespace whose policy enforces rules with --dry-run-namespace",
    )


def _names(installation: Installation) -> dict[str, Any]:
    try:
        port = installation.workload.port
    except UnavailableError:
        port = DEFAULT_PORT
    return {"namespace": installation.place.namespace, "name": installation.place.name, "port": port}
