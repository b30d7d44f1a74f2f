"""Namespaces that are left out, or have a looser policy, and that nobody has created."""

from collections.abc import Iterator

from webhook.doctor.configurations import left_out
from webhook.doctor.doctor_finding import DoctorFinding, ok, warning
from webhook.doctor.installation import Installation
from webhook.policy.show import loosened_for_nobody

_MEND = "create them, or let only administrators create them; otherwise remove them from"

_MOST_POLICIES = 10
"""Policies that a finding names."""


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """Every namespace that is left out or has a looser policy is there, so that nobody else makes it."""
    there = {namespace["metadata"]["name"] for namespace in installation.cluster.items("/api/v1/namespaces")}
    excluded = {name for entry in installation.entries for name in left_out(entry.get("namespaceSelector") or {})}
    missing = sorted(excluded - there)
    if missing:
        yield warning(
            f"left out, but missing: {', '.join(missing)}; pods in such a namespace are not validated",
            "namespaces that exist, or that no tenant may create",
            f"{_MEND} webhook.namespaceSelector.exclude",
        )
    loosened = list(loosened_for_nobody(installation.sound_policies, there))
    if loosened:
        named = [f"{', '.join(patterns)} ({policy.files[-1]})" for policy, patterns in loosened]
        more = f" and those of {len(named) - _MOST_POLICIES} more files" if len(named) > _MOST_POLICIES else ""
        yield warning(
            f"with a policy of their own, but missing: {', '.join(named[:_MOST_POLICIES])}{more}; whoever creates "
            "such a namespace gets that policy, which may be looser",
            "namespaces that exist, or that no tenant may create",
            f"{_MEND} spec.namespaces of the policy",
        )
    if not missing and not loosened:
        yield ok("every namespace that is left out or has a looser policy exists")
