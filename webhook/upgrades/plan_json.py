"""A plan for programs. The shape is a contract: `docs/plan-schema.json` describes it, `apiVersion` names it."""

from webhook.audit.reports.as_json import dumps
from webhook.upgrades.driver_plan import DriverPlan


def render(plan: DriverPlan) -> str:
    """The whole plan as indented JSON in ASCII; values that do not apply are null."""
    return dumps(plan.to_json())
