"""GPU pods on trial: dry runs that go from the API server to the webhook and back, as any pod does."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from webhook import engine
from webhook.doctor.call_faults import explained
from webhook.doctor.cluster import Object, UnavailableError
from webhook.doctor.doctor_finding import DoctorFinding, ok, problem, skipped, warning
from webhook.doctor.installation import Installation
from webhook.doctor.workload import DEFAULT_PORT
from webhook.kubernetes.api_paths import CORE, path_of
from webhook.kubernetes.api_server import RefusedError

MUTATE, VALIDATE = "mutate.gpupolicy.dev", "validate.gpupolicy.dev"
GPU = "nvidia.com/gpu"

_DENIED = re.compile(r'admission webhook "([^"]+)" denied the request')
_UNCALLED = re.compile(r'failed calling (?:admission )?webhook "([^"]+)"')


@dataclass(frozen=True, slots=True)
class PodTrial:
    """A pod that is tried. `title` says what it is; what it shows is a refusal by `judge`, or injections."""

    title: str
    resources: Mapping[str, Mapping[str, str]]
    judge: str = ""

    @property
    def pod(self) -> Object:
        """The pod, such that nothing but its GPUs gives anybody a reason to refuse it."""
        container = {
            "name": "doctor",
            "image": "registry.k8s.io/pause:3.10",
            "resources": {part: {"cpu": "1m", "memory": "8Mi", **gpus} for part, gpus in self.resources.items()},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "gpu-policy-doctor-"},
            "spec": {
                "automountServiceAccountToken": False,
                "containers": [container],
                "restartPolicy": "Never",
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
            },
        }


TRIALS = (
    PodTrial("a pod with one GPU", {"limits": {GPU: "1"}}),
    PodTrial("a pod with a GPU in requests only", {"limits": {}, "requests": {GPU: "1"}}, MUTATE),
    PodTrial("a pod with 100000 GPUs", {"limits": {GPU: "100000"}}, VALIDATE),
)


@dataclass(frozen=True, slots=True)
class TrialVerdict:
    """What became of a pod: who refused it (empty: nobody), or which rules completed it. `said` is for people."""

    refused_by: str
    injected: str = ""
    said: str = ""

    def __str__(self) -> str:
        if self.refused_by:
            return f"is refused by {self.refused_by}"
        return f"gets {self.injected}" if self.injected else "is admitted unchanged"


class _Uncallable(Exception):  # noqa: N818  # a verdict, no error of ours
    """The API server could not call the webhook."""


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """GPU pods go from the API server to the webhook: they are completed and refused as the policies say."""
    for trial in TRIALS:
        try:
            found = _tried(trial, installation)
        except _Uncallable as said:
            yield explained(str(said), _names(installation))
            return
        try:
            expected = _expected(trial, installation)
        except UnavailableError as why:
            yield _shown(trial, found, why)
        else:
            yield _compared(trial, found, expected, installation)


def _tried(trial: PodTrial, installation: Installation) -> TrialVerdict:
    """What becomes of the pod in a dry run; UnavailableError where somebody else decides about it."""
    namespace = installation.place.tried_in
    path = path_of(CORE, "pods", namespace=namespace)
    try:
        stored = installation.cluster.create(path, trial.pod, {"dryRun": "All"})
    except RefusedError as refusal:
        said = str(refusal)
        if uncalled := _UNCALLED.search(said):
            if uncalled[1] in (MUTATE, VALIDATE):
                raise _Uncallable(said) from None
        elif (denied := _DENIED.search(said)) and denied[1] in (MUTATE, VALIDATE):
            return TrialVerdict(denied[1], said=said)
        elif refusal.status == 422:
            return TrialVerdict("the API server's own validation", said=said)
        another = "name a namespace in which you may create pods with --dry-run-namespace"
        raise UnavailableError(f"in namespace {namespace} something else refuses it: {said}", another) from None
    return TrialVerdict("", (stored["metadata"].get("annotations") or {}).get(engine.ANNOTATION, ""))


def _expected(trial: PodTrial, installation: Installation) -> TrialVerdict:
    """What the policies make of the pod."""
    policy = installation.sound_policies.for_namespace(installation.place.tried_in)
    completed = engine.complete(trial.pod, policy, installation.facts)
    if completed.refusals:
        return TrialVerdict(MUTATE)
    if any(finding.fails_validation for finding in completed.findings):
        return TrialVerdict("the API server's own validation")
    if engine.judge(completed.object, policy, installation.facts).refusals:
        return TrialVerdict(VALIDATE)
    return TrialVerdict("", ",".join(completed.injected))


def _compared(
    trial: PodTrial, found: TrialVerdict, expected: TrialVerdict, installation: Installation
) -> DoctorFinding:
    namespace = installation.place.tried_in
    if (found.refused_by, found.injected) != (expected.refused_by, expected.injected):
        return problem(
            f"{trial.title} in namespace {namespace} {found}{found.said and ': ' + found.said}",
            f"by its policy it {expected}",
            "the checks configurations, certificates and replicas say why, else: is the namespace left out by the "
            f"configurations' namespaceSelector ({_selectors(installation)})",
        )
    if found.refused_by in (MUTATE, VALIDATE) or found.injected:
        return ok(f"{trial.title} {found}")
    return skipped(
        f"{trial.title} {found}, as its policy in namespace {namespace} wants; that proves nothing",
        "name a namespace whose policy enforces rules with --dry-run-namespace",
    )


def _shown(trial: PodTrial, found: TrialVerdict, why: UnavailableError) -> DoctorFinding:
    """What can be said without the policies."""
    if found.refused_by in (MUTATE, VALIDATE) or found.injected:
        return ok(f"{trial.title} {found}")
    return warning(
        f"{trial.title} {found}, and it is not known whether it should: {why}",
        f"a refusal by {trial.judge}" if trial.judge else f"injections, named in the annotation {engine.ANNOTATION}",
        why.remedy or "name the policies with --policies",
    )


def _selectors(installation: Installation) -> str:
    return f"kubectl get mutatingwebhookconfiguration {installation.place.name} -o yaml"


def _names(installation: Installation) -> dict[str, Any]:
    try:
        port = installation.workload.port
    except UnavailableError:
        port = DEFAULT_PORT
    return {"namespace": installation.place.namespace, "name": installation.place.name, "port": port}
