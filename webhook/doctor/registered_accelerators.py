"""Names of GPUs: whether the API server sends the pods that use those which the policies declare."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from webhook.doctor.doctor_finding import DoctorFinding, ok, problem
from webhook.doctor.installation import Installation
from webhook.kubernetes.webhook_configurations import PHASES, webhooks_of
from webhook.model.accelerators import DEVICE_CLASSES, Declared
from webhook.model.wording import few

_NAMES = re.compile(r"name\.matches\(r'(\^\(.*?\)\$)'\)")
"""The list of names in a condition, as the chart writes it."""


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """The API server sends pods that ask for the GPUs which only the policies know."""
    declared = [
        one
        for one in installation.sound_policies.accelerators.declared
        if one.share is not None and not one.name.startswith(DEVICE_CLASSES)
    ]
    if not declared:
        yield ok("the policies declare no names of GPUs beside the built-in ones")
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
    """Whether a pod with such a name comes through: there is no list of names, or each has one that covers it."""
    conditions = [_NAMES.findall(expression) for expression in webhook["matchConditions"].values()]
    example = declared.name.replace("*", "x").replace("?", "x")
    return all(any(_covers(names, example) for names in found) for found in conditions if found)


def _covers(names: str, example: str) -> bool:
    try:
        return re.search(names, example) is not None
    except re.error:
        return False
