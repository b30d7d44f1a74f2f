"""The cluster: its version, its clock, and namespaces that do not exist."""

import re
from collections.abc import Iterator

from webhook.doctor.cluster import UnavailableError
from webhook.doctor.configurations import left_out
from webhook.doctor.doctor_report import DoctorFinding, ok, skipped, warning
from webhook.doctor.installation import Installation

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


def absent_namespaces(installation: Installation) -> Iterator[DoctorFinding]:
    """Every namespace that is left out exists, so that no tenant can create it."""
    there = {namespace["metadata"]["name"] for namespace in installation.cluster.items("/api/v1/namespaces")}
    excluded = {name for entry in installation.entries for name in left_out(entry.get("namespaceSelector") or {})}
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
