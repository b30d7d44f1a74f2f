"""The one place where rules are asked and modes applied. The webhook, the command line and the audit all call it.

A pod passes two phases, as in the API server. `complete` asks the mutators and returns a patch. `judge` asks the
validators about the final pod, and reports injections that were lost on the way. `foresee` does both. `check_workload`
and `foresee_pods` do so for the pods that workloads make.
"""

from webhook.engine.mutating import ANNOTATION, STAMP, complete
from webhook.engine.templates import Foreseen
from webhook.engine.validating import foresee, judge
from webhook.engine.workloads import check_workload, foresee_pods

__all__ = ["ANNOTATION", "STAMP", "Foreseen", "check_workload", "complete", "foresee", "foresee_pods", "judge"]
