"""The list of all checks, in the order in which their results help, and the function that runs them."""

import re
from collections.abc import Iterator, Sequence

from webhook.doctor import certificates, configurations, dry_runs, node_checks, replicas, sent_objects, shared_objects
from webhook.doctor.doctor_report import Check, DoctorFinding, DoctorReport, ok, skipped, warning
from webhook.doctor.installation import Installation, UnavailableError

_OLDEST = (1, 28)
"""The first version that sends only the pods that match conditions."""
_LARGEST_SKEW = 30.0
"""Seconds that clocks may be apart before certificates and watches begin to suffer."""


def _version(installation: Installation) -> Iterator[DoctorFinding]:
    """Kubernetes is new enough to keep pods without GPUs away from the webhook."""
    found = installation.cluster.find("/version")
    if found is None:
        raise UnavailableError("the API server does not say its version")
    name = str(found.get("gitVersion"))
    parts = re.match(r"v(\d+)\.(\d+)", name)
    if parts is None:
        yield skipped(f"the version {name} cannot be compared")
    elif (int(parts[1]), int(parts[2])) < _OLDEST:
        yield warning(
            f"Kubernetes {name}",
            "1.28 or newer",
            "upgrade the cluster; until then every pod is sent, and none can be created while no replica answers",
        )
    else:
        yield ok(f"Kubernetes {name}")


def _clock(installation: Installation) -> Iterator[DoctorFinding]:
    skew = installation.cluster.clock_skew
    if abs(skew) > _LARGEST_SKEW:
        yield warning(
            f"this machine's clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the API server's",
            f"at most {_LARGEST_SKEW:.0f} s",
            "set the clock that is wrong (timedatectl status); certificates and tokens depend on it",
        )
    else:
        yield ok("the clocks of this machine and the API server agree")


CHECKS: tuple[Check, ...] = (
    # The cluster.
    Check("version", _version),
    Check("clock", _clock),
    # The way from the API server to the webhook.
    Check("configurations", configurations.look),
    Check("workloads", sent_objects.workload_kinds),
    Check("daemonsets", sent_objects.daemon_sets),
    Check("certificates", certificates.look),
    Check("deployment", replicas.deployment),
    Check("endpoints", replicas.endpoints),
    Check("spread", replicas.spread),
    Check("disruption-budget", replicas.disruption_budget),
    Check("rights", replicas.rights),
    Check("port", replicas.port),
    # What they decide by.
    Check("policies", configurations.policies),
    Check("policies-at-apply", configurations.policies_at_apply),
    Check("references", configurations.references),
    Check("absent-namespaces", configurations.absent_namespaces),
    Check("accelerators", configurations.registered_accelerators),
    Check("tolerate-all", sent_objects.tolerant_pods),
    Check("gpu-nodes", node_checks.look),
    Check("images", shared_objects.image_results),
    Check("quotas", shared_objects.quotas),
    Check("replicas", replicas.served_policies),
    # All of it together.
    Check("pods", dry_runs.look),
)
"""All checks. The keys are a contract."""


def examine(installation: Installation, checks: Sequence[Check] = CHECKS) -> DoctorReport:
    """Run these checks."""
    return DoctorReport(tuple((check.key, finding) for check in checks for finding in _asked(check, installation)))


def _asked(check: Check, installation: Installation) -> Iterator[DoctorFinding]:
    try:
        yield from check.look(installation)
    except UnavailableError as why:
        yield skipped(str(why), why.remedy)
