"""The policies of a plan for which nobody names any: cudaDriver with its defaults, and tolerations of GPU taints.

The taints nvidia.com/gpu and alike are tolerated as ExtendedResourceToleration of Kubernetes does: templates rarely
name them, and without tolerations they would have no nodes.
"""

from webhook.policy.policy_set import BoundRule, Policy, PolicySet, content_hash
from webhook.rules import cuda_driver, tolerations
from webhook.rules.rule_settings import Mode

_NAME = "defaults"


def policies_without_files() -> PolicySet:
    """The policies of all namespaces."""
    rules = tuple(
        BoundRule(rule, Mode.ENFORCE, rule.settings(mode=Mode.ENFORCE), _NAME)
        for rule in (tolerations.RULE, cuda_driver.RULE)
    )
    return PolicySet.of(Policy(_NAME, (), content_hash(_NAME), rules), {})
