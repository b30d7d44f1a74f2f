"""The webhook configurations: whether both are there and say what was installed."""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.doctor import at_apply, crds
from webhook.doctor.cluster import UnavailableError
from webhook.doctor.doctor_finding import DoctorFinding, ok, problem, skipped, warning
from webhook.doctor.installation import REGISTRATION_KEY, Installation
from webhook.kubernetes.webhook_configurations import PHASES, Document, RegistrationError, differences, webhooks_of

PLURALS = {phase: f"{kind.lower()}s" for kind, phase in PHASES.items()}
"""What kubectl calls the two kinds."""
WITHOUT_PODS = {
    crds.ENTRY: "no Deployment can be created while nobody answers, the webhook's own included",
    at_apply.ENTRY: "no policy can be mended while nobody answers",
}
"""The entries that no pod depends on, and why the API server has to go on without an answer to them."""
LONGEST_TIMEOUT = 10
"""Seconds that a pod may wait for an answer before people wait too long."""


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """Both webhook configurations are there and as they were installed."""
    registration = None
    try:
        registration = installation.registration
    except RegistrationError as error:
        yield problem(str(error), "both webhook configurations as they were installed", installation.restore)
    except UnavailableError as why:
        yield skipped(f"what was installed is not known, so only the essentials can be checked: {why}", why.remedy)
    else:
        if registration is None:
            yield warning(
                f"there is no ConfigMap {_config_map(installation)}, so only the essentials can be checked",
                "the configurations as they were installed",
                installation.restore,
            )
    for phase, live in installation.configurations.items():
        if live is None:
            yield _missing(phase, installation)
        elif registration is not None:
            yield from _compared(phase, registration.configurations[phase], live, installation)
        else:
            yield from _essentials(phase, live, installation)


def _missing(phase: str, installation: Installation) -> DoctorFinding:
    return problem(
        f"there is no {phase} webhook configuration {installation.place.name}: "
        + ("GPU pods are not mutated" if phase == "mutating" else "GPU pods are not validated"),
        "the configuration as it was installed",
        _as_installed(installation, "apply"),
    )


def _compared(phase: str, expected: Document, live: Document, installation: Installation) -> Iterator[DoctorFinding]:
    found = differences(expected, live)
    for sentence in found:
        remedy = _as_installed(installation, "replace")  # apply would leave what somebody added
        yield problem(f"{phase}: {sentence}", "the configuration as it was installed", remedy)
    if not found:
        yield ok(f"the {phase} webhook configuration is as it was installed")


def _essentials(phase: str, live: Document, installation: Installation) -> Iterator[DoctorFinding]:
    """What every installation needs, for want of anything to compare with."""
    kind = next(kind for kind, short in PHASES.items() if short == phase)
    webhooks = webhooks_of({**live, "kind": kind})
    faults = [] if webhooks else ["webhooks"]
    if not webhooks:
        yield problem(f"{phase}: there are no webhooks in the configuration", "a webhook", installation.restore)
    for name, webhook in webhooks.items():
        for field, found, expected in _flaws(name, webhook, installation):
            faults.append(field)
            yield problem(f"{phase}: webhooks[{name}].{field} {found}", expected, installation.restore)
        if webhook["failurePolicy"] == "Ignore" and name not in WITHOUT_PODS:
            yield warning(
                f"{phase}: webhooks[{name}].failurePolicy is Ignore: pods pass unchecked while nobody answers",
                "Fail, unless it was switched off on purpose",
                f"kubectl edit {PLURALS[phase]} {installation.place.name}",
            )
    if not faults:
        yield ok(f"the {phase} webhook configuration has the essentials")


def _flaws(name: str, webhook: Mapping[str, Any], installation: Installation) -> Iterator[tuple[str, str, str]]:
    """Field, what was found and what is expected."""
    if webhook["matchPolicy"] != "Equivalent":
        yield "matchPolicy", f"is {webhook['matchPolicy']}", "Equivalent, or other API versions of a kind are not sent"
    if webhook["sideEffects"] not in ("None", "NoneOnDryRun"):
        yield "sideEffects", f"is {webhook['sideEffects']}", "None, or dry runs fail"
    if webhook["timeoutSeconds"] > LONGEST_TIMEOUT:
        yield "timeoutSeconds", f"is {webhook['timeoutSeconds']}", f"at most {LONGEST_TIMEOUT}"
    if name != at_apply.ENTRY:
        yield from _flaws_of_namespaces(webhook, installation)
    if name not in WITHOUT_PODS:
        yield from _flaws_of_pods(webhook)
    elif webhook["failurePolicy"] != "Ignore":
        yield "failurePolicy", f"is {webhook['failurePolicy']}", f"Ignore, or {WITHOUT_PODS[name]}"


def _flaws_of_namespaces(webhook: Mapping[str, Any], installation: Installation) -> Iterator[tuple[str, str, str]]:
    selected = left_out(webhook["namespaceSelector"])
    for namespace in sorted({"kube-system", installation.place.namespace} - selected):
        yield (
            "namespaceSelector",
            f"does not leave out {namespace}",
            "kube-system and the webhook's own namespace left out by kubernetes.io/metadata.name, or a cluster "
            "without a webhook could not start one",
        )


def _flaws_of_pods(webhook: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    if not any(
        {"pods", "*"} & {*rule["resources"]} and {"CREATE", "*"} & {*rule["operations"]} for rule in webhook["rules"]
    ):
        yield "rules", "do not include pods on CREATE", "pods on CREATE"


def left_out(selector: Mapping[str, Any]) -> set[str]:
    """The namespaces that a selector leaves out by name."""
    return {
        name
        for one in selector.get("matchExpressions", ())
        if one["key"] == "kubernetes.io/metadata.name" and one["operator"] == "NotIn"
        for name in one["values"]
    }


def _config_map(installation: Installation) -> str:
    return f"{installation.place.namespace}/{installation.place.name}-registration"


def _as_installed(installation: Installation, verb: str) -> str:
    """The command that has the configurations as they were installed; `verb` is apply or replace."""
    key = REGISTRATION_KEY.replace(".", r"\.")
    return (
        f"{installation.kubectl} get configmap {installation.place.name}-registration "
        f"-o jsonpath='{{.data.{key}}}' | kubectl {verb} -f -"
    )
