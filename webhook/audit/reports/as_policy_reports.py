"""The report as objects PolicyReport and ClusterPolicyReport of the Kubernetes policy working group."""

from webhook.audit.report import AuditReport
from webhook.audit.reports import policy_results

FORMAT = policy_results.Format(
    "wgpolicyk8s.io/v1alpha2",
    "PolicyReport",
    "policyreports",
    "ClusterPolicyReport",
    "clusterpolicyreports",
    has_source=False,
)


def render(report: AuditReport) -> str:
    """A List of them, in JSON."""
    return policy_results.render(report, FORMAT)
