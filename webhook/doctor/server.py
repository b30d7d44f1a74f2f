"""The API server: whether it is new enough, and whether its clock and this machine's agree."""

import re
from collections.abc import Iterator

from webhook.doctor.cluster import UnavailableError
from webhook.doctor.doctor_finding import DoctorFinding, ok, skipped, warning
from webhook.doctor.installation import Installation

OLDEST = (1, 28)
"""The first version with matchConditions."""
LARGEST_SKEW = 30.0
"""Seconds that clocks may be apart before certificates and watches begin to suffer."""


def version(installation: Installation) -> Iterator[DoctorFinding]:
    """Kubernetes is new enough to keep pods without GPUs away by itself."""
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
            "1.28 or newer, which knows matchConditions",
            "upgrade the cluster; until then every pod is sent, and failurePolicy Ignore is the safer choice",
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
            "set the clock of whichever is wrong (timedatectl status); certificates and tokens depend on it",
        )
    else:
        yield ok("the clocks of this machine and the API server agree")
