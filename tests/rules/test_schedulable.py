"""Pods that no node could ever run are told why, and all others are left alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.facts.samples import device_class, node
from tests.facts.test_matching_nodes_properties import NODES, PODS, RUNTIME_CLASSES
from tests.golden import each
from tests.rules.gpu_cluster import CLUSTER, MIG, PLAIN, POOL, PRODUCT, T4, asking, told
from tests.rules.rule_case import RuleCase, RulePods, requesting, tolerating_gpu_nodes
from tests.rules.samples import NOTHING_KNOWN, Cluster, container, pod, settings_of, term, terms, violations
from tests.strategies import checked
from webhook.facts.facts import ClusterFacts
from webhook.model import wording
from webhook.model.claims import TEMPLATE, Devices
from webhook.model.node import EVERYTHING, NodePool, Taint
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.rule import Advice, Violation
from webhook.rules.schedulable import RULE


@each(
    "raw",
    {
        "as many GPUs as the largest node has": asking(8),
        "slices": asking(7, MIG),
        "labels that a node has": asking(1, nodeSelector={PRODUCT: T4, POOL: "serving"}),
        "a whole node": asking(8, resources={"cpu": "96", "memory": "1000Gi", "rdma/hca": 4}),
        "a value of several": asking(1, affinity=terms(term((PRODUCT, "In", ["?", T4])))),
        "a term of several": asking(1, affinity=terms(term((PRODUCT, "In", ["?"])), term((POOL, "Exists", [])))),
        "what no node lists": asking(1, resources={"pods": 1, "requests.cpu": 999}),
        "no GPU, and more cpu than there is": pod(container(resources={"limits": {"cpu": "1000"}})),
        "zero GPUs": pod(container(gpus=0), nodeSelector={PRODUCT: "?"}),
        "a node chosen already": asking(16, nodeName="small"),
        "a number that nobody can read": asking("many"),
    },
)
def test_a_pod_that_some_node_could_run_is_left_alone(raw):
    assert told(raw) == []


def test_nothing_is_said_where_no_node_is_known():
    assert told(asking(16), NOTHING_KNOWN) == []
    assert told(asking(16), ClusterFacts.of([])) == []
    assert told(asking(16), ClusterFacts().with_pools(POOLS)) == [], "pools are not all nodes there are"


DRA = ClusterFacts.of([node("cpu", capacity={"cpu": "8"})])


@each(
    "classes, is_told",
    {
        "a DeviceClass gives the GPUs": ([device_class("gpu.nvidia.com", "nvidia.com/gpu")], False),
        "a DeviceClass gives other GPUs": ([device_class("gpu.amd.com", "amd.com/gpu")], True),
        "a DeviceClass for claims only": ([device_class("gpu.nvidia.com")], True),
        "no DeviceClass": ([], True),
        "nobody knows the DeviceClasses": (None, False),
    },
)
@pytest.mark.parametrize("raw", [asking(8), asking(8, nodeSelector={"zone": "b"})], ids=["GPUs", "GPUs and a label"])
def test_pods_whose_gpus_a_device_class_may_give_are_left_alone(classes, is_told, raw):
    """The scheduler makes a claim for them on nodes that list no GPU (KEP-5004)."""
    assert bool(told(raw, ClusterFacts(DRA.cluster.with_classes("device_classes", classes)))) == is_told
    assert bool(told(raw, ClusterFacts(DRA.cluster.with_classes("device_classes", classes)).with_pools(()))) == is_told


@pytest.mark.parametrize("operator", ["In", "NotIn"])
def test_pods_for_a_node_by_its_name_are_told_as_others_are(operator):
    named = {"matchFields": [{"key": "metadata.name", "operator": operator, "values": ["big"]}]}
    assert told(asking(16, affinity=terms(named)))


def test_pods_of_daemon_sets_are_left_alone():
    """One of them is made for every node, also for those that cannot run it."""
    raw = asking(16)
    raw["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "a", "controller": True}]
    assert told(raw) == []
    raw["metadata"]["ownerReferences"][0]["kind"] = "ReplicaSet"
    assert len(told(raw)) == 1


def test_every_reason_that_holds_alone_is_told_at_its_place(says):
    raw = asking(16, nodeSelector={PRODUCT: "NVIDIA-A100-SXM-80GB"}, affinity=terms(term(("zone", "Exists", []))))
    raw["spec"]["containers"].append(container("other", gpus=1, resource="nvidia.com/mig-9g.90gb"))
    says([message.split("; ")[0] for message in told(raw)])


def test_what_fails_together_is_told_beside_what_fails_alone(says):
    raw = asking(4, nodeSelector={PRODUCT: T4, "zone": "b"})
    says([message.split("; ")[1].split(".")[0] for message in told(raw)])


POOLS = (
    NodePool("h100", ((PRODUCT, "NVIDIA-H100-80GB-HBM3"),), (), frozenset({"nvidia.com/gpu"}), 16),
    NodePool("unknown", ((PRODUCT, "NVIDIA-B200"),), (Taint("team", "vision", "NoSchedule"),), frozenset({MIG})),
)


@each(
    "raw, message",
    {
        "as many GPUs as a node of the pool will have": (asking(16), ""),
        "what nobody knows of the pool": (asking(16, resources={"memory": "9Ti", "rdma/hca": 9}), ""),
        "a label of the pool": (asking(9, nodeSelector={PRODUCT: "NVIDIA-H100-80GB-HBM3"}), ""),
        "more than even that": (asking(17), "requests 17 nvidia.com/gpu; the largest node has 16"),
        "a label that is like that of the pool": (
            asking(1, nodeSelector={PRODUCT: "NVIDIA-H100-80GB"}),
            "no node has the value NVIDIA-H100-80GB; nodes have NVIDIA-A100-SXM4-80GB, "
            "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb, NVIDIA-B200 and 2 more. Did you mean NVIDIA-H100-80GB-HBM3? "
            "Correct the value.",
        ),
        "its taint": (asking(99, MIG), "does not tolerate team=vision:NoSchedule; every node that fits has"),
    },
)
def test_pools_that_scale_from_zero_count(raw, message):
    found = told(raw, CLUSTER.with_pools(POOLS))
    assert len(found) == bool(message)
    assert message in "".join(found)


def test_a_cluster_whose_gpu_nodes_are_all_scaled_to_zero_is_told_what_to_declare(says):
    says(told(asking(1), ClusterFacts.of([PLAIN])))
    declared = NodePool("gpus", (), (), frozenset({"nvidia.com/gpu"}))
    assert told(asking(64), ClusterFacts.of([PLAIN]).with_pools((declared,))) == []
    assert told(asking(64), ClusterFacts.of([]).with_pools((declared,))) == []


LONG = "x" * 3000


@each(
    "raw",
    {
        "terms": asking(1, affinity=terms(*[term((PRODUCT, "In", ["?"]))] * 5000)),
        "expressions": asking(1, affinity=terms(term(*[(f"k{i}", "Exists", []) for i in range(5000)]))),
        "values": asking(1, affinity=terms(term((PRODUCT, "In", [str(i) for i in range(5000)])))),
        "labels": asking(1, nodeSelector={f"k{i}": "v" for i in range(5000)}),
        "resources": asking(1, resources={f"a/{i}": 1 for i in range(5000)}),
        "tolerations": pod(container(gpus=1), tolerations=[{"key": f"k{i}"} for i in range(5000)]),
        "many things that no node has": asking(1, nodeSelector={f"k{i}": "v" for i in range(50)}),
        "long labels": asking(1, nodeSelector={LONG: LONG, PRODUCT: LONG}),
        "long expressions": asking(1, affinity=terms(term((LONG, LONG, [LONG] * 9)))),
        "a long name of a resource": asking(1, resources={f"a/{LONG}": 2**60}),
    },
)
def test_pods_that_want_thousands_of_things_are_answered_in_few_words(raw):
    found = violations(RULE, raw, {}, CLUSTER)
    assert 1 <= len(found) <= 8
    assert all(len(one.found) + len(one.allowed) + len(one.remedy) < 700 for one in found)


def naming(*templates, key="resourceClaimTemplateName"):
    raw = pod(container(), resourceClaims=[{"name": f"c{i}", key: name} for i, name in enumerate(templates)])
    return {**raw, "metadata": {"name": "p", "namespace": "team"}}


def knowing(*templates):
    return Cluster(claims={(TEMPLATE, name): ((Devices("gpu.nvidia.com"),),) for name in templates})


def advised(raw, facts):
    found = list(RULE.validate(pod_from_raw(raw), settings_of(RULE, {}), facts))
    assert all(isinstance(one, Advice) for one in found)
    return [str(one) for one in found]


def test_a_template_that_does_not_exist_is_named_with_the_one_that_may_be_meant(says):
    says(advised(naming("singel-gpu"), knowing("single-gpu", "eight-gpus")))
    (found,) = advised(naming("other"), knowing("single-gpu"))
    assert found.endswith(". Create it, or correct the name.")
    (found,) = advised(naming("single-gpu", key="resourceClaimName"), knowing("single-gpu"))
    assert "names ResourceClaim single-gpu, which namespace team does not have" in found


@each(
    "raw, facts",
    {
        "it exists": (naming("single-gpu"), knowing("single-gpu")),
        "nobody knows any": (naming("single-gpu"), Cluster()),
        "the pod names nothing": (naming("single-gpu", key="else"), knowing("other")),
    },
)
def test_nothing_is_said_of_claims_that_exist_or_may_exist(raw, facts):
    assert advised(raw, facts) == []


def test_names_that_are_slow_to_compare_are_compared_in_one_pass_each(monkeypatch):
    monkeypatch.setattr(wording, "get_close_matches", lambda *_, **__: pytest.fail("takes seconds for such names"))
    compared = []
    monkeypatch.setattr(wording, "_is_slip", lambda _, value: compared.append(value))
    facts = knowing(*(f"{'aabb' * 50}{number:04d}" for number in range(1000)))
    assert len(advised(naming("aabb" * 50 + "xxxx"), facts)) == 1
    assert 1 <= len(compared) <= 64


def test_of_many_claims_that_do_not_exist_some_are_told():
    found = advised(naming(*(f"{LONG}{number}" for number in range(32))), knowing("single-gpu"))
    assert len(found) == 3
    assert max(map(len, found)) < 400


@checked
@given(NODES, st.lists(RUNTIME_CLASSES, max_size=1), PODS)
def test_a_gpu_pod_is_told_something_exactly_where_it_has_no_home(nodes, classes, asked):
    facts = ClusterFacts.of(nodes, classes)
    found = [one for one in RULE.validate(asked, settings_of(RULE, {}), facts) if isinstance(one, Violation)]
    is_concerned = asked.gpus and facts.knows_nodes() and not asked.node_name
    assert bool(found) == bool(is_concerned and not facts.feasible_nodes(asked))
    for violation in found:
        is_about_taints = violation.where == "spec.tolerations"
        assert is_about_taints == bool(facts.feasible_nodes(replace(asked, tolerations=EVERYTHING)))


CASE = RuleCase(
    pods=lambda raw: RulePods(
        breaks=requesting(tolerating_gpu_nodes(raw), "nvidia.com/gpu", "16"), keeps=tolerating_gpu_nodes(raw)
    ),
    values=st.just({}),
    enforced={},
    fuzzed={},
)
