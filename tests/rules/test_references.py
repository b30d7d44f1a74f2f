"""Rules tell what their settings name of the cluster, so that people learn of a name that nothing has."""

import pytest

from tests.rules.samples import settings_of
from webhook.model.node import Toleration
from webhook.model.selectors import Expression
from webhook.rules import RULES, node_affinity, runtime_class, tolerations
from webhook.rules.rule import ClassKind, ClassName

POOL = {"key": "example.com/pool", "operator": "In", "values": ["gpu", "spot"]}
PRESENT = {"key": "nvidia.com/gpu.present", "operator": "Exists", "weight": 5}
SPOT = {"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoExecute", "tolerationSeconds": 60}


@pytest.mark.parametrize(
    ("rule", "settings", "expected"),
    [
        pytest.param(runtime_class.RULE, {}, [ClassName(ClassKind.RUNTIME, "nvidia")], id="RuntimeClass, by default"),
        pytest.param(
            runtime_class.RULE, {"name": "gvisor"}, [ClassName(ClassKind.RUNTIME, "gvisor")], id="RuntimeClass"
        ),
        pytest.param(
            node_affinity.RULE,
            {"required": [POOL], "preferred": [PRESENT]},
            [
                Expression("example.com/pool", "In", ("gpu", "spot")),
                Expression("nvidia.com/gpu.present", "Exists"),
            ],
            id="labels, required before preferred",
        ),
        pytest.param(node_affinity.RULE, {}, [], id="no labels"),
        pytest.param(
            tolerations.RULE,
            {"add": [SPOT]},
            [Toleration("spot", "Equal", "yes", "NoExecute", 60)],
            id="taints",
        ),
    ],
)
def test_a_rule_tells_what_its_settings_name(rule, settings, expected):
    assert expected == list(rule.references(settings_of(rule, settings)))


def test_other_rules_name_nothing():
    naming = {rule.key for rule in RULES if list(rule.references(settings_of(rule, {})))}
    assert naming == {"runtimeClass", "tolerations"}
