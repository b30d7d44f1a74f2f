"""The webhook configurations: whether both are as they were installed, and send the objects that policies are about."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from webhook.doctor.cluster import UnavailableError
from webhook.doctor.doctor_report import DoctorFinding, ok, problem, skipped, warning
from webhook.doctor.installation import REGISTRATION_KEY, Installation
from webhook.kubernetes.webhook_configurations import PHASES, RegistrationError, differences, webhooks_of
from webhook.model.accelerators import DEVICE_CLASSES, Declared
from webhook.model.wording import few

POLICIES_ENTRY = "policies.gpupolicy.dev"
"""The entry of the webhook configuration that sends ConfigMaps of policies."""


_INSTALLED = "the configuration as it was installed"


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """Both webhook configurations exist and are as they were installed."""
    registration, name = None, f"{installation.place.name}-registration"
    try:
        registration = installation.registration
        if registration is None:
            yield warning(
                f"there is no ConfigMap {installation.place.namespace}/{name}, with which the configurations could be "
                "compared",
                "the configurations as they were installed",
                installation.restore,
            )
    except RegistrationError as error:
        yield problem(str(error), "both webhook configurations as they were installed", installation.restore)
    except UnavailableError as why:
        yield skipped(f"the installed configurations are not known: {why}", why.remedy)
    key = REGISTRATION_KEY.replace(".", r"\.")
    stored = f"{installation.kubectl} get configmap {name} -o jsonpath='{{.data.{key}}}' | kubectl"
    for phase, live in installation.configurations.items():
        if live is None:
            yield problem(
                f"there is no {phase} webhook configuration {installation.place.name}: GPU pods are not "
                f"{'mutated' if phase == 'mutating' else 'validated'}",
                _INSTALLED,
                f"{stored} apply -f -",
            )
        elif registration is not None:
            found = differences(registration.configurations[phase], live)
            for sentence in found:
                yield problem(f"{phase}: {sentence}", _INSTALLED, f"{stored} replace -f -")  # apply keeps additions
            if not found:
                yield ok(f"the {phase} webhook configuration is as it was installed")


def policies_at_apply(installation: Installation) -> Iterator[DoctorFinding]:
    """The API server sends every ConfigMap that the replicas mount as policies when it is applied."""
    entry = next(
        (entry for entry in installation.validating.get("webhooks") or () if entry.get("name") == POLICIES_ENTRY), None
    )
    if entry is None:
        yield ok("ConfigMaps of policies are not checked when they are applied; replicas refuse them later")
        return
    config_maps = [config_map for _, config_map in installation.policy_config_maps]
    conditions = [one.get("expression", "") for one in entry.get("matchConditions") or ()]
    names = [one["metadata"]["name"] for one in config_maps]
    unasked = [name for name in names if not all(f"'{name}'" in expression for expression in conditions)]
    for name in unasked:
        yield warning(
            f"ConfigMap {name} is mounted as policies, but the API server does not send it to the webhook when it is "
            "applied",
            "kubectl apply refuses mistakes in policies, with file, line and key",
            "name it in the chart value policies.configMaps",
        )
    if not unasked:
        count = len(config_maps)
        counted = "the ConfigMap" if count == 1 else f"all {count} ConfigMaps"
        yield ok(f"mistakes in {counted} of policies are refused when they are applied")


def absent_namespaces(installation: Installation) -> Iterator[DoctorFinding]:
    """Every namespace that is left out exists, so that no tenant can create it."""
    there = {namespace["metadata"]["name"] for namespace in installation.cluster.items("/api/v1/namespaces")}
    excluded = {
        name
        for entry in installation.entries
        for one in (entry.get("namespaceSelector") or {}).get("matchExpressions", ())
        if one["key"] == "kubernetes.io/metadata.name" and one["operator"] == "NotIn"
        for name in one["values"]
    }
    if missing := sorted(excluded - there):
        yield warning(
            f"the webhook configurations leave out namespaces that do not exist: {', '.join(missing)}; pods in such a "
            "namespace are not validated",
            "namespaces that exist, or that no tenant may create",
            "create them, or let only administrators create them; otherwise remove them from "
            "webhook.namespaceSelector.exclude",
        )
    else:
        yield ok("every namespace that is left out exists")


_NAMES = re.compile(r"name\.matches\(r'(\^\(.*?\)\$)'\)")
"""The list of names in a match condition of the chart."""


def registered_accelerators(installation: Installation) -> Iterator[DoctorFinding]:
    """The API server sends pods that request GPUs whose names only the policies declare."""
    declared = [
        one
        for one in installation.sound_policies.accelerators.declared
        if one.share is not None and not one.name.startswith(DEVICE_CLASSES)
    ]
    if not declared:
        yield ok("the policies declare no GPU resource names beside the built-in names")
        return
    faults = False
    for phase, live in installation.configurations.items():
        kind = next(kind for kind, short in PHASES.items() if short == phase)
        for name, webhook in webhooks_of({**(live or {}), "kind": kind}).items():
            missing = [one.name for one in declared if not _is_sent(one, webhook)]
            if missing:
                faults = True
                yield problem(
                    f"{phase}: webhooks[{name}].matchConditions do not send pods that request {few(missing)}",
                    "every name of spec.accelerators.extra of the policies",
                    "helm upgrade with these names in accelerators.extra, too",
                )
    if not faults:
        count = len(declared)
        yield ok(f"pods that request {'the name' if count == 1 else f'the {count} names'} of the policies are sent")


def _is_sent(declared: Declared, webhook: Mapping[str, Any]) -> bool:
    """Whether pods that request a declared name are sent: every list of names in the conditions covers it."""
    conditions = [_NAMES.findall(expression) for expression in webhook["matchConditions"].values()]
    example = declared.name.replace("*", "x").replace("?", "x")
    return all(any(_covers(names, example) for names in found) for found in conditions if found)


def _covers(names: str, example: str) -> bool:
    try:
        return re.search(names, example) is not None
    except re.error:
        return False
