"""The cluster: its version, its clock, and namespaces that do not exist."""

import re
from collections.abc import Iterator

from webhook.doctor.cluster import UnavailableError
from webhook.doctor.configurations import left_out
from webhook.doctor.doctor_report import DoctorFinding, ok, skipped, warning
from webhook.doctor.installation import Installation
from webhook.policy.show import loosened_for_nobody

OLDEST = (1, 28)
"""The first version that sends only the pods that match conditions."""
LARGEST_SKEW = 30.0
"""Seconds that clocks may be apart before certificates and watches begin to suffer."""


def version(installation: Installation) -> Iterator[DoctorFinding]:
    """Kubernetes is new enough to keep pods without GPUs away from the webhook."""
    found = installation.cluster.find("/version")
    if found is None:
        raise UnavailableError("the API server does not say its version")
    name = str(found.get("gitVersion"))
    parts = re.match(r"v(\d+)\.(\d+)", name)
    if parts is None:
        yield skipped(f"the version {name} cannot be compared")
    elif (int(parts[1]), int(parts[2])) < OLDEST:
        yield warning(
            f"Kubernetes {name}",
            "1.28 or newer",
            "upgrade the cluster; until then every pod is sent, and none can be created while no replica answers",
        )
    else:
        yield ok(f"Kubernetes {name}")


def clock(installation: Installation) -> Iterator[DoctorFinding]:
    """The clocks of this machine and the API server agree."""
    skew = installation.cluster.clock_skew
    if abs(skew) > LARGEST_SKEW:
        yield warning(
            f"this machine's clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the API server's",
            f"at most {LARGEST_SKEW:.0f} s",
            "set the clock that is wrong (timedatectl status); certificates and tokens depend on it",
        )
    else:
        yield ok("the clocks of this machine and the API server agree")


_REMEDY = "create them, or let only administrators create them; otherwise remove them from"

_MOST_POLICIES = 10
"""Most policies that a finding names."""


def absent_namespaces(installation: Installation) -> Iterator[DoctorFinding]:
    """Every namespace that is left out or has a looser policy exists, so that no tenant can create it."""
    there = {namespace["metadata"]["name"] for namespace in installation.cluster.items("/api/v1/namespaces")}
    excluded = {name for entry in installation.entries for name in left_out(entry.get("namespaceSelector") or {})}
    missing = sorted(excluded - there)
    if missing:
        yield warning(
            f"the webhook configurations leave out namespaces that do not exist: {', '.join(missing)}; pods in such a "
            "namespace are not validated",
            "namespaces that exist, or that no tenant may create",
            f"{_REMEDY} webhook.namespaceSelector.exclude",
        )
    loosened = list(loosened_for_nobody(installation.sound_policies, there))
    if loosened:
        named = [f"{', '.join(patterns)} ({policy.files[-1]})" for policy, patterns in loosened]
        more = f" and namespaces of {len(named) - _MOST_POLICIES} more files" if len(named) > _MOST_POLICIES else ""
        yield warning(
            f"policies name namespaces that do not exist: {', '.join(named[:_MOST_POLICIES])}{more}; whoever creates "
            "such a namespace gets its policy, which may be looser",
            "namespaces that exist, or that no tenant may create",
            f"{_REMEDY} spec.namespaces of the policy",
        )
    if not missing and not loosened:
        yield ok("every namespace that is left out or has a looser policy exists")
