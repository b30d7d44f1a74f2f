"""The one place where rules are asked and modes applied. Webhook, command line and audit all end here.

A pod passes two phases, as in the API server. `complete` asks the mutators and gives a patch; `judge` asks the
validators about the final pod and notices injections that got lost on the way. `check_template` judges what workloads
make pods of.
"""

from webhook.engine.completing import ANNOTATION, complete
from webhook.engine.judging import judge
from webhook.engine.stamps import STAMP
from webhook.engine.templates import check_template, completed_template

__all__ = ["ANNOTATION", "STAMP", "check_template", "complete", "completed_template", "judge"]
