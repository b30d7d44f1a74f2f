"""The one place where rules are asked and modes applied. Webhook, command line and audit all end here.

A pod passes two phases, as in the API server. `complete` asks the mutators and gives a patch; `judge` asks the
validators about the final pod and notices injections that got lost on the way. `foresee` does both, and
`check_workload` and `foresee_pods` ask it about the pods that workloads make.
"""

from webhook.engine.mutating import ANNOTATION, complete
from webhook.engine.running_rules import STAMP
from webhook.engine.templates import Foreseen
from webhook.engine.validating import foresee, judge
from webhook.engine.workloads import check_workload, foresee_pods

__all__ = ["ANNOTATION", "STAMP", "Foreseen", "check_workload", "complete", "foresee", "foresee_pods", "judge"]
