"""A pod is taken apart into what it wants of its node, and put together from some of that."""

from hypothesis import given
from hypothesis import strategies as st

from tests.facts.samples import expressions, fields, pod
from tests.facts.test_matching_nodes_properties import NODES, PODS, RUNTIME_CLASSES
from tests.strategies import checked, checked_on_pods
from webhook.facts.facts import ClusterFacts
from webhook.rules.pending.wants import (
    Affinity,
    Amount,
    ClassNodes,
    Labels,
    fewest,
    only,
    wants_of,
    weight_of,
)


def test_the_least_telling_comes_first():
    wanting = pod(
        gpus={"nvidia.com/gpu": 2, "memory": "1Gi"},
        terms=[expressions(("zone", "In", ["a", "b"]), ("rack", "Exists", []))],
        nodeSelector={"pool": "x"},
        runtimeClassName="kata",
    )
    found = wants_of(wanting)
    assert [type(want) for want in found] == [Amount, ClassNodes, Labels, Labels, Labels, Amount]
    assert [f"{want.where}: {want}" for want in found] == [
        "spec.containers[main].resources: 1Gi of memory",
        "spec.runtimeClassName: the labels of RuntimeClass kata",
        "spec.affinity.nodeAffinity: zone In [a, b]",
        "spec.affinity.nodeAffinity: rack Exists",
        "spec.nodeSelector[pool]: pool=x",
        "spec.containers[main].resources: 2 nvidia.com/gpu",
    ]


def test_alternatives_are_wanted_as_a_whole():
    for terms in ([expressions(("a", "Exists", []))] * 2, [fields(("metadata.name", "NotIn", ["n"]))], [{}]):
        (want,) = wants_of(pod(terms=terms))
        assert isinstance(want, Affinity)


@checked
@given(NODES, st.lists(RUNTIME_CLASSES, max_size=1), PODS)
def test_all_that_a_pod_wants_together_is_the_pod_itself_where_taints_do_not_matter(nodes, classes, asked):
    facts = ClusterFacts.of([{**node, "spec": {}} for node in nodes], classes)
    if not asked.node_name:
        assert list(facts.feasible_nodes(only(asked, wants_of(asked)))) == list(facts.feasible_nodes(asked))


@checked_on_pods
@given(NODES, PODS)
def test_who_wants_nothing_can_be_anywhere(nodes, asked):
    facts = ClusterFacts.of(nodes)
    if not asked.node_name:
        assert sum(kind.count for kind in facts.feasible_nodes(only(asked, []))) == len(facts.cluster.nodes)


@checked_on_pods
@given(st.lists(st.sets(st.integers(0, 6), min_size=1, max_size=3), min_size=1, max_size=3))
def test_the_fewest_are_too_much_and_less_is_not(conflicts):
    def is_too_much(some):
        return any(conflict <= set(some) for conflict in conflicts)

    kept = fewest(range(7), is_too_much)
    assert is_too_much(kept)
    assert not any(is_too_much([other for other in kept if other != one]) for one in kept)


def test_the_weight_is_how_much_there_is_to_compare():
    assert weight_of(wants_of(pod())) == 0
    assert weight_of(wants_of(pod(nodeSelector={"a": "b"}))) == 3
    values = [str(number) for number in range(100)]
    assert weight_of(wants_of(pod(terms=[expressions(("a", "In", values))] * 3))) == 1 + 3 + 3 * 101
