"""The report as objects Report and ClusterReport of OpenReports."""

from webhook.audit.report import AuditReport
from webhook.audit.reports import policy_results

FORMAT = policy_results.Format(
    "openreports.io/v1alpha1", "Report", "reports", "ClusterReport", "clusterreports", has_source=True
)


def render(report: AuditReport) -> str:
    """A List of them, in JSON."""
    return policy_results.render(report, FORMAT)
