"""The list of all checks, in the order in which their results help, and the function that runs them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from webhook.doctor import certificates, configurations, dry_runs, node_checks, replicas, sent_objects, shared_objects
from webhook.doctor.doctor_report import DoctorFinding, DoctorReport, ok, skipped, warning
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


Look = Callable[[Installation], Iterable[DoctorFinding]]
"""May raise UnavailableError at any point: the findings so far count, and the rest is skipped."""
CHECKS: Mapping[str, Look] = {
    # The cluster.
    "version": _version,
    "clock": _clock,
    # The way from the API server to the webhook.
    "configurations": configurations.look,
    "workloads": sent_objects.workload_kinds,
    "daemonsets": sent_objects.daemon_sets,
    "certificates": certificates.look,
    "deployment": replicas.deployment,
    "endpoints": replicas.endpoints,
    "spread": replicas.spread,
    "disruption-budget": replicas.disruption_budget,
    "rights": replicas.rights,
    "port": replicas.port,
    # What they decide by.
    "policies": configurations.policies,
    "policies-at-apply": configurations.policies_at_apply,
    "references": configurations.references,
    "absent-namespaces": configurations.absent_namespaces,
    "accelerators": configurations.registered_accelerators,
    "tolerate-all": sent_objects.tolerant_pods,
    "gpu-nodes": node_checks.look,
    "images": shared_objects.image_results,
    "quotas": shared_objects.quotas,
    "replicas": replicas.served_policies,
    # All of it together.
    "pods": dry_runs.look,
}
"""All checks, by their names for programs, which are a contract."""


def examine(installation: Installation, checks: Mapping[str, Look] = CHECKS) -> DoctorReport:
    """Run these checks."""
    return DoctorReport(tuple((key, finding) for key, look in checks.items() for finding in _asked(look, installation)))


def _asked(look: Look, installation: Installation) -> Iterator[DoctorFinding]:
    try:
        yield from look(installation)
    except UnavailableError as why:
        yield skipped(str(why), why.remedy)
