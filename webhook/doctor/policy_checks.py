"""Policies: whether they have mistakes, and whether the cluster has the classes, labels and taints in them."""

from collections import defaultdict
from collections.abc import Iterator

from webhook.doctor.doctor_report import DoctorFinding, ok, problem, skipped, warning
from webhook.doctor.installation import Installation
from webhook.model.accelerators import accelerator
from webhook.model.node import Taint, Toleration
from webhook.model.selectors import Expression
from webhook.model.wording import counted
from webhook.rules.references import PriorityClassName, Reference, RuntimeClassName
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
        if found := _absent(reference, installation):
            absent += 1
            expected, remedy = _wanted(reference)
            yield warning(f"{found} ({', '.join(places)})", expected, remedy)
    if not named:
        yield skipped("the policies name no RuntimeClass, no PriorityClass, no node label and no taint")
    elif not absent:
        kinds = "class, node label or taint" if len(named) == 1 else "classes, node labels and taints"
        yield ok(f"the cluster has all that the policies name: {len(named)} {kinds}")


def _is_of_absent_gpus(reference: Toleration, installation: Installation) -> bool:
    """Whether the taint has the name of GPUs that no node has. Policies may tolerate taints of several vendors."""
    return accelerator(reference.key) is not None and reference.key not in installation.facts.gpu_resources()


def _absent(reference: Reference, installation: Installation) -> str:
    """The finding about an object in settings that the cluster does not have; empty where it has it."""
    match reference:
        case RuntimeClassName(name):
            return "" if installation.facts.runtime_class(name) else f"the cluster has no {reference}"
        case PriorityClassName(name):
            return "" if name in installation.facts.priority_classes() else f"the cluster has no {reference}"
        case Expression():
            labels = (node["metadata"].get("labels") or {} for node in installation.nodes)
            return "" if any(map(reference.matches, labels)) else f"no node satisfies {reference}"
        case Toleration():
            raw = (taint for node in installation.nodes for taint in node["spec"].get("taints") or ())
            taints = (Taint(one["key"], one.get("value", ""), one["effect"]) for one in raw)
            is_idle = not reference.key or _is_of_absent_gpus(reference, installation)
            tolerated = is_idle or any(map(reference.tolerates, taints))
            return "" if tolerated else f"no node has a taint {_spelled(reference)}"


def _wanted(reference: Reference) -> tuple[str, str]:
    """The expectation and the remedy."""
    pool = "nothing to do where such a pool is scaled to zero; otherwise correct the policy, or"
    match reference:
        case RuntimeClassName():
            toolkit = "nothing to do where nvidia is the default runtime; otherwise correct the policy, or install it"
            return "the RuntimeClass of the container toolkit; pods get it only where it exists", toolkit
        case PriorityClassName():
            create = f"kubectl create priorityclass {reference.name} --value=VALUE"
            return "a PriorityClass that exists", f"correct the policy, or {create}"
        case Expression():
            return "a node that satisfies it", f"{pool} kubectl label node NODE {reference.key}=VALUE"
        case Toleration():
            return "a node that has it", f"{pool} kubectl taint node NODE {_spelled(reference)}"


def _spelled(reference: Toleration) -> str:
    """A taint that the toleration tolerates, as kubectl writes it."""
    value = f"={reference.value}" if reference.value else ""
    return f"{reference.key}{value}:{reference.effect or 'NoSchedule'}"
