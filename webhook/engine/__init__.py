"""The one place where rules are asked and modes applied. The webhook, the command line and the audit all call it.

A pod passes two phases, as in the API server. `mutate` asks the mutators and returns a patch. `validate` asks the
validators about the final pod, and reports injections that were lost on the way. `simulate` does both. For the pods
that a workload makes, `template_outcomes` does so, and `validate_workload` judges the workload by them. It also judges
templates of resource claims, by their requests, as `validate_claim` judges claims.
"""

from webhook.engine.mutating import ANNOTATION, STAMP, mutate
from webhook.engine.validating import is_claim, simulate, validate, validate_claim
from webhook.engine.workload_quotas import NOTHING_AROUND, Around, TemplateOutcome
from webhook.engine.workloads import template_outcomes, validate_workload

__all__ = [
    "ANNOTATION",
    "NOTHING_AROUND",
    "STAMP",
    "Around",
    "TemplateOutcome",
    "is_claim",
    "mutate",
    "simulate",
    "template_outcomes",
    "validate",
    "validate_claim",
    "validate_workload",
]
