"""Rules tell what their settings name of the cluster, so that people learn of a name that nothing has."""

from tests.rules.samples import each, settings_of
from webhook.model.node import Toleration
from webhook.model.selectors import Expression
from webhook.rules import RULES, node_affinity, runtime_class, tolerations
from webhook.rules.rule import ClassKind, ClassName

POOL = {"key": "example.com/pool", "operator": "In", "values": ["gpu", "spot"]}
PRESENT = {"key": "nvidia.com/gpu.present", "operator": "Exists", "weight": 5}
SPOT = {"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoExecute", "tolerationSeconds": 60}


@each(
    "rule, settings, expected",
    {
        "RuntimeClass, by default": (runtime_class.RULE, {}, [ClassName(ClassKind.RUNTIME, "nvidia")]),
        "RuntimeClass": (runtime_class.RULE, {"name": "gvisor"}, [ClassName(ClassKind.RUNTIME, "gvisor")]),
        "labels, required before preferred": (
            node_affinity.RULE,
            {"required": [POOL], "preferred": [PRESENT]},
            [Expression("example.com/pool", "In", ("gpu", "spot")), Expression("nvidia.com/gpu.present", "Exists")],
        ),
        "no labels": (node_affinity.RULE, {}, []),
        "taints": (tolerations.RULE, {"add": [SPOT]}, [Toleration("spot", "Equal", "yes", "NoExecute", 60)]),
    },
)
def test_a_rule_tells_what_its_settings_name(rule, settings, expected):
    assert expected == list(rule.references(settings_of(rule, settings)))


def test_other_rules_name_nothing():
    naming = {rule.key for rule in RULES if list(rule.references(settings_of(rule, {})))}
    assert naming == {"runtimeClass", "tolerations"}
