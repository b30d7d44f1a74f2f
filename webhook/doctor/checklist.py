"""Every question that is asked, in the order in which the answers are of use, and the asking."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from webhook.doctor import (
    absent_rules,
    at_apply,
    certificates,
    configurations,
    crds,
    daemonsets,
    image_results,
    namespaces,
    platform,
    pod_trial,
    quota_ledgers,
    reachable,
    registered_accelerators,
    rights,
    running_pods,
    served,
    server,
    tainted_nodes,
)
from webhook.doctor.cluster import UnavailableError
from webhook.doctor.doctor_finding import Check, DoctorFinding, Status, skipped
from webhook.doctor.installation import Installation

CHECKS: tuple[Check, ...] = (
    # The cluster.
    Check("version", server.version),
    Check("clock", server.clock),
    Check("namespaces", namespaces.look),
    # The way from the API server to the webhook.
    Check("configurations", configurations.look),
    Check("workloads", crds.look),
    Check("daemonsets", daemonsets.look),
    Check("certificates", certificates.look),
    Check("deployment", running_pods.deployment),
    Check("endpoints", running_pods.endpoints),
    Check("spread", running_pods.spread),
    Check("disruption-budget", running_pods.disruption_budget),
    Check("rights", rights.look),
    Check("port", reachable.look),
    # What they decide by.
    Check("policies", platform.policies),
    Check("policies-at-apply", at_apply.look),
    Check("references", platform.references),
    Check("absent-namespaces", absent_rules.look),
    Check("accelerators", registered_accelerators.look),
    Check("gpu-nodes", tainted_nodes.look),
    Check("images", image_results.look),
    Check("quotas", quota_ledgers.look),
    Check("replicas", served.look),
    # All of it together.
    Check("pods", pod_trial.look),
)
"""Everything that is looked at. The keys are a contract."""


@dataclass(frozen=True, slots=True)
class DoctorResult:
    """What one check said about one thing."""

    check: Check
    finding: DoctorFinding


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """Everything that was said."""

    results: tuple[DoctorResult, ...]

    def count(self, status: Status) -> int:
        """How many things stand like this."""
        return sum(result.finding.status is status for result in self.results)

    @property
    def exit_status(self) -> int:
        """1 where anything is wrong, 0 otherwise."""
        return 1 if self.count(Status.PROBLEM) else 0


def examine(installation: Installation, checks: Sequence[Check] = CHECKS) -> DoctorReport:
    """Ask these questions."""
    return DoctorReport(
        tuple(DoctorResult(check, finding) for check in checks for finding in _asked(check, installation))
    )


def _asked(check: Check, installation: Installation) -> Iterator[DoctorFinding]:
    try:
        yield from check.look(installation)
    except UnavailableError as why:
        yield skipped(str(why), why.remedy)
