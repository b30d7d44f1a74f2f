"""The list of all checks, in the order in which their results help, and the function that runs them."""

from collections.abc import Iterator, Sequence

from webhook.doctor import (
    certificates,
    cluster_checks,
    configurations,
    dry_runs,
    node_checks,
    policy_checks,
    reachable,
    replicas,
    rights,
    sent_objects,
    shared_objects,
)
from webhook.doctor.cluster import UnavailableError
from webhook.doctor.doctor_report import Check, DoctorFinding, DoctorReport, DoctorResult, skipped
from webhook.doctor.installation import Installation

CHECKS: tuple[Check, ...] = (
    # The cluster.
    Check("version", cluster_checks.version),
    Check("clock", cluster_checks.clock),
    # The way from the API server to the webhook.
    Check("configurations", configurations.look),
    Check("workloads", sent_objects.workload_kinds),
    Check("daemonsets", sent_objects.daemon_sets),
    Check("certificates", certificates.look),
    Check("deployment", replicas.deployment),
    Check("endpoints", replicas.endpoints),
    Check("spread", replicas.spread),
    Check("disruption-budget", replicas.disruption_budget),
    Check("rights", rights.look),
    Check("port", reachable.look),
    # What they decide by.
    Check("policies", policy_checks.policies),
    Check("policies-at-apply", configurations.policies_at_apply),
    Check("references", policy_checks.references),
    Check("absent-namespaces", cluster_checks.absent_namespaces),
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
    return DoctorReport(
        tuple(DoctorResult(check, finding) for check in checks for finding in _asked(check, installation))
    )


def _asked(check: Check, installation: Installation) -> Iterator[DoctorFinding]:
    try:
        yield from check.look(installation)
    except UnavailableError as why:
        yield skipped(str(why), why.remedy)
