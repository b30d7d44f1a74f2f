"""The webhook configurations and the policies: whether both are sound, and all that policies are about is sent."""

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress

from webhook.doctor.doctor_report import DoctorFinding, ok, problem, skipped, warning
from webhook.doctor.installation import REGISTRATION_KEY, Installation, UnavailableError
from webhook.kubernetes.webhook_configurations import PHASES, RegistrationError, differences, webhooks_of
from webhook.model.accelerators import DEVICE_CLASSES, accelerator
from webhook.model.node import Taint, Toleration
from webhook.model.selectors import Expression
from webhook.model.wording import counted, few
from webhook.rules.rule import ClassKind, ClassName, Reference
from webhook.yaml_files.file_errors import FileErrors

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
            found = differences(registration[phase], live)
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
        for name, webhook in webhooks_of(live or {}, kind).items():
            conditions = [_NAMES.findall(expression) for expression in webhook["matchConditions"].values()]
            missing = [one.name for one in declared if not all(_covers(one.name, lists) for lists in conditions)]
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


def _covers(name: str, lists: list[str]) -> bool:
    """Whether a condition sends pods that request a declared name: one of its lists of names has it, or it has none."""
    example = name.replace("*", "x").replace("?", "x")
    for names in lists:
        with suppress(re.error):
            if re.search(names, example):
                return True
    return not lists


def policies(installation: Installation) -> Iterator[DoctorFinding]:
    """The policies have no mistakes, so a replica that starts with them becomes ready."""
    try:
        found = installation.policies
    except FileErrors as errors:
        for error in errors.errors:
            yield problem(
                str(error), "policies without a mistake", "correct it; running replicas keep the last good set"
            )
        return
    for notice in found.notices:
        yield warning(
            notice, "rules that can keep what they promise", "correct the policy or the nodes, unless this is intended"
        )
    if not found.notices:
        yield ok(f"{counted(len(found.policies), 'policy', 'policies')}, hash {found.hash[:12]}")


def references(installation: Installation) -> Iterator[DoctorFinding]:
    """The cluster has the RuntimeClasses, PriorityClasses, node labels and taints that the policies name."""
    named: dict[Reference, list[str]] = defaultdict(list)
    for policy in installation.sound_policies.policies:
        for bound in policy.rules:
            for reference in bound.rule.references(bound.settings):
                place = f"{bound.origin}: {bound.rule.key}"
                if place not in named[reference]:
                    named[reference].append(place)
    absent = 0
    for reference, places in named.items():
        if missing := _missing(reference, installation):
            absent += 1
            found, expected, remedy = missing
            yield warning(f"{found} ({', '.join(places)})", expected, remedy)
    if not named:
        yield skipped("the policies name no RuntimeClass, no PriorityClass, no node label and no taint")
    elif not absent:
        kinds = "class, node label or taint" if len(named) == 1 else "classes, node labels and taints"
        yield ok(f"the cluster has all that the policies name: {len(named)} {kinds}")


def _missing(reference: Reference, installation: Installation) -> tuple[str, str, str] | None:
    """The finding about an object in settings, the expectation and the remedy; None where the cluster has it."""
    facts, nodes = installation.facts, installation.nodes
    gpus = facts.gpu_resources()  # policies may tolerate taints with the names of GPUs that no node has
    pool = "nothing to do where such a pool is scaled to zero; otherwise correct the policy, or"
    match reference:
        case ClassName(ClassKind.RUNTIME, name) if not facts.runtime_class(name):
            toolkit = "nothing to do where nvidia is the default runtime; otherwise correct the policy, or install it"
            expected = "the RuntimeClass of the container toolkit; pods get it only where it exists"
            return f"the cluster has no {reference}", expected, toolkit
        case ClassName(ClassKind.PRIORITY, name) if name not in facts.priority_classes():
            create = f"kubectl create priorityclass {name} --value=VALUE"
            found = f"the cluster has no {reference}"
            return found, "a PriorityClass that exists", f"correct the policy, or {create}"
        case Expression() if not any(reference.matches(node["metadata"].get("labels") or {}) for node in nodes):
            label = f"{pool} kubectl label node NODE {reference.key}=VALUE"
            return f"no node satisfies {reference}", "a node that satisfies it", label
        case Toleration() if reference.key and (accelerator(reference.key) is None or reference.key in gpus):
            raw = (taint for node in nodes for taint in node["spec"].get("taints") or ())
            taints = (Taint(one["key"], one.get("value", ""), one["effect"]) for one in raw)
            if not any(map(reference.tolerates, taints)):
                value = f"={reference.value}" if reference.value else ""
                taint = f"{reference.key}{value}:{reference.effect or 'NoSchedule'}"
                return f"no node has a taint {taint}", "a node that has it", f"{pool} kubectl taint node NODE {taint}"
    return None
