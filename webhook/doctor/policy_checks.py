"""Policies: whether they have mistakes, and whether the cluster has the classes, labels and taints in them."""

from collections import defaultdict
from collections.abc import Iterator

from webhook.doctor.doctor_report import DoctorFinding, ok, problem, skipped, warning
from webhook.doctor.installation import Installation
from webhook.model.accelerators import accelerator
from webhook.model.node import Taint, Toleration
from webhook.model.selectors import Expression
from webhook.model.wording import counted
from webhook.rules.rule import ClassKind, ClassName, Reference
from webhook.yaml_files.file_errors import FileErrors


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
        case Toleration() if reference.key and not _is_of_absent_gpus(reference, installation):
            raw = (taint for node in nodes for taint in node["spec"].get("taints") or ())
            taints = (Taint(one["key"], one.get("value", ""), one["effect"]) for one in raw)
            if not any(map(reference.tolerates, taints)):
                value = f"={reference.value}" if reference.value else ""
                taint = f"{reference.key}{value}:{reference.effect or 'NoSchedule'}"
                return f"no node has a taint {taint}", "a node that has it", f"{pool} kubectl taint node NODE {taint}"
    return None


def _is_of_absent_gpus(reference: Toleration, installation: Installation) -> bool:
    """Whether the taint has the name of GPUs that no node has. Policies may tolerate taints of several vendors."""
    return accelerator(reference.key) is not None and reference.key not in installation.facts.gpu_resources()
