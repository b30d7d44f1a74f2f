"""Dry runs of GPU pods, which the API server sends to the webhook as it sends every GPU pod.

If the API server cannot call the webhook, its error is explained, with a remedy.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webhook import engine
from webhook.doctor.doctor_report import DoctorFinding, ok, problem, skipped, warning
from webhook.doctor.installation import DEFAULT_PORT, Installation, Object, Place, UnavailableError
from webhook.kubernetes.api_errors import RefusedError
from webhook.kubernetes.api_paths import CORE, path_of
from webhook.yaml_files.shipped_tables import read_rows, read_table


@dataclass(frozen=True, slots=True)
class CallFault:
    """A reason why calls of the webhook fail: what the API server says, what that means, and the remedy."""

    pattern: re.Pattern[str]
    means: str
    remedy: str


_FILE = Path(__file__).with_name("data") / "call_faults.yaml"
CALL_FAULTS = read_rows(CallFault, read_table(_FILE), _FILE.name)
"""The known reasons. More specific reasons come first."""


def explained(message: str, names: Mapping[str, object]) -> DoctorFinding:
    """The finding about a failed call, with its reason if known. `names` has namespace, name and port."""
    expected = "an answer from the webhook"
    for fault in CALL_FAULTS:
        if fault.pattern.search(message):
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
