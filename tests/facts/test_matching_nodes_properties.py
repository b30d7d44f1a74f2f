"""The indexes find the matching nodes that asking every node finds, for any nodes, pods and order of changes."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from tests.facts.samples import expressions, facts_of, fields, node, pod, runtime_class
from webhook.facts.nodes import Node
from webhook.facts.snapshot import Snapshot
from webhook.model.pod import Pod
from webhook.model.selectors import Term

KEYS = st.sampled_from(["zone", "rack", "memory", "kubernetes.io/hostname", "nowhere"])
VALUES = st.sampled_from(["a", "b", "", "7", "-7", "007", "80", "n1", "n2", "9223372036854775808"])
NAMES = st.sampled_from(["n0", "n1", "n2", "n3", "n4", "n5"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
TAINT_KEYS = st.sampled_from(["gpu", "team", "node.kubernetes.io/not-ready"])
GPUS = st.sampled_from(["nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.5gb"])

TAINTS = st.lists(
    st.fixed_dictionaries({"key": TAINT_KEYS, "value": VALUES, "effect": EFFECTS}),
    max_size=3,
    unique_by=lambda taint: (taint["key"], taint["effect"]),
)
NODES = st.lists(
    st.builds(
        node,
        NAMES,
        labels=st.dictionaries(KEYS.filter(lambda key: key != "nowhere"), VALUES, max_size=3),
        taints=TAINTS,
        capacity=st.dictionaries(GPUS, st.just("1"), max_size=2),
        handlers=st.lists(st.sampled_from(["", "nvidia"]), max_size=2, unique=True),
    ),
    max_size=8,
)
OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"])
TERMS = st.builds(
    lambda labels, names: expressions(*labels) | fields(*names),
    st.lists(st.tuples(KEYS, OPERATORS, st.lists(VALUES, max_size=3)), max_size=3),
    st.lists(
        st.tuples(st.just("metadata.name"), st.sampled_from(["In", "NotIn"]), st.lists(NAMES, max_size=2)), max_size=1
    ),
)
TOLERATIONS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "key": TAINT_KEYS,
            "operator": st.sampled_from(["Exists", "Equal", "Gt", "Lt", "Near"]),
            "value": VALUES,
            "effect": EFFECTS,
        },
    ),
    max_size=3,
)
PODS = st.builds(
    pod,
    gpus=st.dictionaries(GPUS, st.integers(0, 2), max_size=2),
    terms=st.none() | st.lists(TERMS, max_size=3),
    nodeSelector=st.dictionaries(KEYS, VALUES, max_size=2),
    tolerations=TOLERATIONS,
    nodeName=st.just("") | NAMES,
    runtimeClassName=st.sampled_from([None, "nvidia", "unheard-of"]),
)
RUNTIME_CLASSES = st.builds(
    lambda scheduling: runtime_class("nvidia", scheduling=scheduling),
    st.fixed_dictionaries({"nodeSelector": st.dictionaries(KEYS, VALUES, max_size=1), "tolerations": TOLERATIONS}),
)


def fits(found: Node, asking: Pod, snapshot: Snapshot) -> bool:
    """What the scheduler would say of one node, written down as plainly as possible."""
    labels: Mapping[str, str] = {key: found.values[place] for key, place in found.keys.items()}
    added = snapshot.runtime_classes.get(asking.runtime_class or "")
    tolerations = asking.tolerations + (added.tolerations if added else ())
    return (
        set(asking.gpus) <= found.kind.gpu_resources
        and all(labels.get(key) == value for key, value in asking.node_selector.items())
        and (asking.required is None or any(term_matches(term, labels, found.name) for term in asking.required))
        and (added is None or all(expression.matches(labels) for expression in added.node_selector))
        and (
            asking.node_name == found.name
            if asking.node_name
            else all(any(t.tolerates(taint) for t in tolerations) for taint in found.kind.taints)
        )
    )


def term_matches(term: Term, labels: Mapping[str, str], name: str) -> bool:
    return (
        not term.matches_nothing
        and all(expression.matches(labels) for expression in term.expressions)
        and all(field.matches({"metadata.name": name}) for field in term.fields)
    )


@given(nodes=NODES, runtime_classes=st.lists(RUNTIME_CLASSES, max_size=1), pods=st.lists(PODS, min_size=1, max_size=4))
def test_the_candidates_are_those_nodes_that_fit_one_by_one(nodes, runtime_classes, pods):
    snapshot = Snapshot.of(nodes, runtime_classes)
    for asking in pods:
        expected: dict[int, int] = {}
        for found in snapshot.nodes.values():
            if fits(found, asking, snapshot):
                expected[id(found.kind)] = expected.get(id(found.kind), 0) + 1
        assert sorted(expected.values()) == sorted(nodes.count for nodes in facts_of(snapshot).matching_nodes(asking))
