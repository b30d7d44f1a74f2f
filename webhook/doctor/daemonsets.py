"""DaemonSets whose pods are sent to the webhook: on a new node they cannot start while no replica answers."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from webhook.doctor.cluster import Object, UnavailableError
from webhook.doctor.doctor_finding import DoctorFinding, ok, warning
from webhook.doctor.installation import Installation
from webhook.doctor.selecting import selects
from webhook.doctor.sent import why_sent
from webhook.model.accelerators import BUILT_IN, Accelerators

DAEMON_SETS = "/apis/apps/v1/daemonsets"
_NAMESPACES = "/api/v1/namespaces"
_NEEDS_A_RUNTIME_CLASS = "has(spec.runtimeClassName) && ("
"""What the condition about privileged containers begins with where NVIDIA's is not the default runtime."""


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """Agents of nodes, such as device plugins, start without anybody's answer."""
    entries = [entry for entry in installation.entries if _is_depended_on(entry)]
    if not entries:
        yield ok("no pod depends on an answer of the webhook")
        return
    labels = {
        namespace["metadata"]["name"]: namespace["metadata"].get("labels") or {}
        for namespace in installation.cluster.items(_NAMESPACES)
    }
    accelerators = BUILT_IN
    with suppress(UnavailableError):  # what everybody knows is told without the policies, too
        accelerators = installation.sound_policies.accelerators
    count = 0
    for daemon_set in installation.cluster.items(DAEMON_SETS):
        namespace, name = daemon_set["metadata"]["namespace"], daemon_set["metadata"]["name"]
        why = _why(daemon_set, entries, labels.get(namespace, {}), accelerators)
        if why:
            count += 1
            yield warning(
                f"the pods of DaemonSet {namespace}/{name} are sent, since the pod {why}: on a new node they cannot "
                "start while no replica answers",
                "device plugins, exporters and other node agents in namespaces that are left out",
                f"where only the platform creates pods in {namespace}, add it to webhook.namespaceSelector.exclude of "
                "the chart; otherwise move the DaemonSet to a namespace of its own, and add that",
            )
    if not count:
        yield ok("no DaemonSet depends on an answer of the webhook")


def _is_depended_on(entry: Mapping[str, Any]) -> bool:
    """Whether pods are not created while nobody answers for this entry."""
    return entry.get("failurePolicy", "Fail") == "Fail" and any(
        not {"pods", "*", "*/*"}.isdisjoint(rule.get("resources") or ())
        and not {"CREATE", "*"}.isdisjoint(rule.get("operations") or ())
        for rule in entry.get("rules") or ()
    )


def _why(daemon_set: Object, entries: list[Object], labels: Mapping[str, str], accelerators: Accelerators) -> str:
    """Why pods of the DaemonSet are sent by one of the entries; empty where they are not."""
    template = (daemon_set.get("spec") or {}).get("template") or {}
    for entry in entries:
        if not selects(entry.get("namespaceSelector") or {}, labels):
            continue
        conditions = " ".join(one.get("expression", "") for one in entry.get("matchConditions") or ())
        if not conditions:
            return "is sent as all pods are, without matchConditions"
        is_default = _NEEDS_A_RUNTIME_CLASS not in " ".join(conditions.split())
        if why := why_sent(template, accelerators, nvidia_is_default_runtime=is_default):
            return why
    return ""
