"""Where a pod could be scheduled to is decided exactly as the scheduler decides it."""

import pytest

from tests.facts.samples import GPU_TAINT, counted, expressions, fields, names, node, pod
from webhook.facts.facts import ClusterFacts
from webhook.model.node import NodeClass, Taint
from webhook.rules.rule import Facts

THREE = ClusterFacts.of(
    [
        node("small", labels={"gpu-memory": "16384", "zone": "a"}),
        node("large", labels={"gpu-memory": "81920", "zone": "b"}),
        node("plain", labels={"zone": "a", "gpu-memory-unknown": ""}),
    ]
)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        pytest.param(expressions(("zone", "In", ["a", "c"])), {"small", "plain"}, id="In"),
        pytest.param(expressions(("zone", "In", ["c"])), set(), id="In with a value that no node has"),
        pytest.param(expressions(("rack", "In", ["1"])), set(), id="In on a label that no node has"),
        pytest.param(expressions(("zone", "NotIn", ["a"])), {"large"}, id="NotIn"),
        pytest.param(
            expressions(("gpu-memory", "NotIn", ["16384"])), {"large", "plain"}, id="NotIn matches without the label"
        ),
        pytest.param(
            expressions(("rack", "NotIn", ["1"])), {"small", "large", "plain"}, id="NotIn on a label that no node has"
        ),
        pytest.param(expressions(("gpu-memory", "Exists", [])), {"small", "large"}, id="Exists"),
        pytest.param(expressions(("gpu-memory-unknown", "Exists", [])), {"plain"}, id="Exists with an empty value"),
        pytest.param(expressions(("gpu-memory", "DoesNotExist", [])), {"plain"}, id="DoesNotExist"),
        pytest.param(
            expressions(("rack", "DoesNotExist", [])),
            {"small", "large", "plain"},
            id="DoesNotExist on a label that no node has",
        ),
        pytest.param(expressions(("gpu-memory", "Gt", ["16384"])), {"large"}, id="Gt is strict"),
        pytest.param(expressions(("gpu-memory", "Gt", ["16383"])), {"small", "large"}, id="Gt"),
        pytest.param(expressions(("gpu-memory", "Gt", ["81920"])), set(), id="Gt the largest"),
        pytest.param(expressions(("gpu-memory", "Lt", ["81920"])), {"small"}, id="Lt is strict"),
        pytest.param(expressions(("gpu-memory", "Lt", ["81921"])), {"small", "large"}, id="Lt"),
        pytest.param(expressions(("gpu-memory", "Lt", ["1"])), set(), id="Lt the smallest"),
        pytest.param(expressions(("zone", "Gt", ["1"])), set(), id="Gt on values that are no integers"),
        pytest.param(expressions(("gpu-memory", "Gt", ["many"])), set(), id="Gt something that is no integer"),
        pytest.param(expressions(("gpu-memory", "Gt", ["1", "2"])), set(), id="Gt two values"),
        pytest.param(expressions(("rack", "Gt", ["1"])), set(), id="Gt on a label that no node has"),
        pytest.param(expressions(("zone", "Near", ["a"])), set(), id="an unknown operator matches nothing"),
        pytest.param(
            expressions(("zone", "In", ["a"]), ("gpu-memory", "Exists", [])), {"small"}, id="expressions are ANDed"
        ),
        pytest.param(fields(("metadata.name", "In", ["large"])), {"large"}, id="field In"),
        pytest.param(fields(("metadata.name", "NotIn", ["large"])), {"small", "plain"}, id="field NotIn"),
        pytest.param(fields(("metadata.uid", "In", ["uid-1"])), set(), id="no other field can be selected by"),
        pytest.param(
            expressions(("zone", "In", ["b"])) | fields(("metadata.name", "In", ["small"])),
            set(),
            id="fields and expressions of a term are ANDed",
        ),
        pytest.param(
            expressions(("kubernetes.io/hostname", "In", ["small", "gone"])), {"small"}, id="host name In picks nodes"
        ),
        pytest.param(expressions(("kubernetes.io/hostname", "NotIn", ["small"])), {"large", "plain"}, id="and NotIn"),
        pytest.param({}, set(), id="an empty term matches nothing"),
    ],
)
def test_a_term_of_required_affinity_selects_as_the_scheduler_does(term, expected):
    assert expected == names(THREE.cluster, pod(terms=[term]))


TAINTED = ClusterFacts.of(
    [
        node("gpu", taints=[GPU_TAINT]),
        node("evicting", taints=[GPU_TAINT, {"key": "team", "value": "a", "effect": "NoExecute"}]),
        node("discouraged", taints=[{"key": "busy", "value": "", "effect": "PreferNoSchedule"}]),
        node(
            "cordoned",
            taints=[
                {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
                {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
            ],
        ),
        node(
            "autoscaled",
            taints=[
                {"key": "startup-taint.cluster-autoscaler.kubernetes.io/driver", "effect": "NoSchedule"},
                {"key": "ToBeDeletedByClusterAutoscaler", "value": "1700000000", "effect": "NoSchedule"},
                {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
                {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"},
                {"key": "node.cilium.io/agent-not-ready", "effect": "NoExecute"},
                {"key": "ebs.csi.aws.com/agent-not-ready", "effect": "NoExecute"},
                {"key": "aws-node-termination-handler/spot-itn", "value": "x-1", "effect": "NoSchedule"},
                {"key": "cloud.google.com/impending-node-termination", "effect": "NoSchedule"},
                {"key": "remediator.kubernetes.azure.com/unschedulable", "effect": "NoSchedule"},
                {"key": "cni.istio.io/not-ready", "effect": "NoSchedule"},
            ],
        ),
    ]
)
OPEN = {"discouraged", "cordoned", "autoscaled"}


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], OPEN, id="preferred and transient taints keep no pod away"),
        pytest.param([{"operator": "Exists"}], OPEN | {"gpu", "evicting"}, id="Exists without key tolerates all"),
        pytest.param(
            [{"key": "nvidia.com/gpu", "operator": "Exists"}], OPEN | {"gpu"}, id="every taint must be tolerated"
        ),
        pytest.param([{"key": "nvidia.com/gpu", "value": "present"}], OPEN | {"gpu"}, id="Equal is the default"),
        pytest.param([{"key": "nvidia.com/gpu", "value": "absent"}], OPEN, id="another value"),
        pytest.param(
            [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}], OPEN, id="another effect"
        ),
        pytest.param([{"value": "present"}], OPEN, id="Equal without key tolerates nothing"),
        pytest.param(
            [
                {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
                {"key": "team", "value": "a", "effect": "NoExecute", "tolerationSeconds": 60},
            ],
            OPEN | {"gpu", "evicting"},
            id="one toleration for each taint",
        ),
    ],
)
def test_taints_keep_away_pods_that_do_not_tolerate_them(tolerations, expected):
    assert expected == names(TAINTED.cluster, pod(tolerations=tolerations))


def test_a_node_needs_every_gpu_resource_that_the_pod_asks_for():
    snapshot = ClusterFacts.of(
        [
            node("whole", capacity={"cpu": "8", "nvidia.com/gpu": "8"}),
            node("sliced", capacity={"nvidia.com/mig-1g.10gb": "7", "nvidia.com/gpu": "0"}),
            node("cpu", capacity={"cpu": "8", "nvidia.com/gpumem": "9"}),
            {"metadata": {"name": "allocatable"}, "status": {"allocatable": {"nvidia.com/gpu": "1"}}},
        ]
    )
    assert {"whole", "sliced", "allocatable"} == names(snapshot.cluster, pod(gpus={"nvidia.com/gpu": 9}))
    assert {"sliced"} == names(snapshot.cluster, pod(gpus={"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 1}))
    assert set() == names(snapshot.cluster, pod(gpus={"amd.com/gpu": 1}))
    assert counted(snapshot, pod(gpus={"nvidia.com/gpu": 0})) == 4


def test_nodes_that_rules_cannot_tell_apart_are_one_class():
    labels = {"nvidia.com/gpu.product": "Tesla-T4", "rack": "1"}
    facts: Facts = ClusterFacts.of(
        [
            node("a", labels=labels, taints=[GPU_TAINT], capacity={"nvidia.com/gpu": "1"}, handlers=["", "nvidia"]),
            node(
                "b",
                labels=labels | {"rack": "2"},
                taints=[GPU_TAINT],
                capacity={"nvidia.com/gpu": "2"},
                handlers=["nvidia", ""],
            ),
            node("c", labels=labels, taints=[GPU_TAINT], capacity={"nvidia.com/gpu": "1"}),
        ]
    )
    shared = ({"nvidia.com/gpu.product": "Tesla-T4"}, (Taint("nvidia.com/gpu", "present", "NoSchedule"),))
    assert [
        NodeClass(*shared, frozenset({"nvidia.com/gpu"}), frozenset({"", "nvidia"}), count=2),
        NodeClass(*shared, frozenset({"nvidia.com/gpu"}), None, count=1),
    ] == list(facts.matching_nodes(pod(gpus={"nvidia.com/gpu": 1}, tolerations=[{"operator": "Exists"}])))


def test_answers_stay_right_when_more_questions_come_than_are_remembered():
    snapshot = ClusterFacts.of([node(f"n{number}") for number in range(200)])
    for _ in range(2):
        assert all(counted(snapshot, pod(nodeName=f"n{number}")) == 1 for number in range(200))
