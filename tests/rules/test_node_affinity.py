"""GPU pods run only on the nodes the platform names, and what the user wrote about placement keeps its meaning."""

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.golden import each
from tests.rules.rule_case import RuleCase, RulePods, any_of, spec_with
from tests.rules.samples import (
    container,
    expression,
    is_left_alone,
    messages,
    mutated,
    pod,
    settings_of,
    term,
    terms,
    violations,
)
from tests.strategies import expressions
from webhook.model.selectors import Expression, contradicts
from webhook.rules.node_affinity import RULE

PRESENT = expression("nvidia.com/gpu.present", "In", ["true"])
ZONE = expression("zone", "In", ["a", "b"])
ONE = {"required": [PRESENT]}
BOTH = {"required": [PRESENT, ZONE]}
FIELD = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}


def gpu_pod(**spec):
    return pod(container(gpus=1), **spec)


def terms_after(raw, values=ONE):
    affinity = mutated(RULE, raw, values)["spec"]["affinity"]
    return affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]


@each(
    "spec",
    {
        "absent": {},
        "affinity null": {"affinity": None},
        "affinity empty": {"affinity": {}},
        "nodeAffinity null": {"affinity": {"nodeAffinity": None}},
        "required null": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}}},
        "another node selector": {"nodeSelector": {"pool": "gpu"}},
    },
)
def test_several_expressions_for_a_pod_without_required_affinity_end_in_one_term(spec):
    assert terms_after(gpu_pod(**spec), BOTH) == [{"matchExpressions": [PRESENT, ZONE]}]


def test_required_expressions_are_anded_into_every_term_because_terms_are_ored():
    first, second = term(("pool", "In", ["x"])), term(("pool", "In", ["y"]))
    assert terms_after(gpu_pod(affinity=terms(first, second)), BOTH) == [
        {"matchExpressions": [*first["matchExpressions"], PRESENT, ZONE]},
        {"matchExpressions": [*second["matchExpressions"], PRESENT, ZONE]},
    ]


def test_a_term_of_fields_only_gets_them_too():
    assert terms_after(gpu_pod(affinity=terms(FIELD))) == [{**FIELD, "matchExpressions": [PRESENT]}]


@pytest.mark.parametrize("empty", [None, {}, {"matchExpressions": []}, {"matchExpressions": None, "matchFields": []}])
def test_a_term_that_matches_nothing_is_not_made_to_match(empty):
    other = term(("pool", "In", ["x"]))
    after = terms_after(gpu_pod(affinity=terms(empty, other)))
    assert after == [empty, {"matchExpressions": [*other["matchExpressions"], PRESENT]}]
    assert is_left_alone(RULE, gpu_pod(affinity=terms(empty)), ONE)
    assert violations(RULE, gpu_pod(affinity=terms(empty)), ONE) == []


def test_a_selector_without_terms_is_left_for_the_api_server_to_refuse():
    assert is_left_alone(RULE, gpu_pod(affinity=terms()), ONE)


@each(
    "spec",
    {
        "by the node selector": {"nodeSelector": {"zone": "a"}},
        "by the only term": {"affinity": terms(term(("zone", "In", ["b"])))},
        "by every term": {
            "affinity": terms(term(("zone", "In", ["b"])), term(("zone", "In", ["a"]), ("x", "Exists", [])))
        },
        "by the node selector beside another term": {
            "nodeSelector": {"zone": "a"},
            "affinity": terms(term(("pool", "Exists", []))),
        },
        "together": {"affinity": terms(term(("zone", "NotIn", ["c"]), ("zone", "In", ["c", "a"])))},
    },
)
def test_what_is_implied_already_is_not_written_again(spec):
    assert is_left_alone(RULE, gpu_pod(**spec), {"required": [ZONE]})


def test_only_the_term_that_does_not_imply_it_gets_it():
    states, silent = term(("zone", "In", ["a"])), term(("pool", "In", ["x"]))
    assert terms_after(gpu_pod(affinity=terms(states, silent)), {"required": [ZONE]}) == [
        states,
        {"matchExpressions": [*silent["matchExpressions"], ZONE]},
    ]


@each(
    "raw",
    {
        "no GPU": pod(container()),
        "zero GPUs": pod(container(gpus=0)),
        "no GPU and a contradiction": pod(container(), nodeSelector={"zone": "z"}),
    },
)
def test_pods_without_gpus_run_where_they_like(raw):
    values = {**BOTH, "preferred": [{**PRESENT, "weight": 5}]}
    assert is_left_alone(RULE, raw, values)
    assert violations(RULE, raw, values) == []


@each(
    "spec, message",
    {
        "in the node selector": (
            {"nodeSelector": {"zone": "z"}},
            "spec.nodeSelector: requires zone In [z]; the policy requires zone In [a, b]. "
            "Change or remove zone in nodeSelector.",
        ),
        "in two expressions of a term": (
            {"affinity": terms(term(("zone", "NotIn", ["a", "b"]), ("zone", "In", ["a", "z"])))},
            "spec.affinity.nodeAffinity: requires zone NotIn [a, b] and zone In [a, z]; "
            "the policy requires zone In [a, b]. Change or remove zone in nodeAffinity.",
        ),
        "in every term": (
            {"affinity": terms(term(("zone", "In", ["y"])), term(("zone", "DoesNotExist", [])), {})},
            "spec.affinity.nodeAffinity: requires zone In [y] and zone DoesNotExist; "
            "the policy requires zone In [a, b]. Change or remove zone in nodeAffinity.",
        ),
    },
)
def test_a_contradiction_prints_both_sides_and_nothing_is_injected(spec, message):
    assert messages(RULE, gpu_pod(**spec), {"required": [ZONE]}) == [message]
    assert is_left_alone(RULE, gpu_pod(**spec), {"required": [ZONE]})


def test_a_contradiction_of_one_expression_keeps_no_other_from_being_injected():
    raw = gpu_pod(nodeSelector={"zone": "z"})
    assert terms_after(raw, BOTH) == [{"matchExpressions": [PRESENT]}]
    assert len(messages(RULE, raw, BOTH)) == 1


def test_one_alternative_with_room_is_enough():
    raw = gpu_pod(affinity=terms(term(("zone", "In", ["z"])), term(("zone", "In", ["a"]))))
    assert violations(RULE, raw, {"required": [ZONE]}) == []
    assert terms_after(raw, {"required": [ZONE]}) == [
        term(("zone", "In", ["z"]), ("zone", "In", ["a", "b"])),
        term(("zone", "In", ["a"])),
    ]


def test_alternatives_that_each_exclude_another_requirement_leave_no_node(says):
    raw = gpu_pod(affinity=terms(term(("zone", "In", ["z"])), term(("nvidia.com/gpu.present", "DoesNotExist", []))))
    says(messages(RULE, raw, BOTH))
    assert is_left_alone(RULE, raw, BOTH)


def test_a_contradiction_is_seen_across_node_selector_and_terms(says):
    required = {"required": [expression("memory", "Lt", ["10"])]}
    raw = gpu_pod(affinity=terms(term(("memory", "Gt", ["9"]))))
    says(messages(RULE, raw, required))


PREFER = {"preferred": [{**PRESENT, "weight": 10}]}
WRITTEN = {"weight": 10, "preference": {"matchExpressions": [PRESENT]}}


def preferences_after(raw, values=PREFER):
    affinity = mutated(RULE, raw, values)["spec"]["affinity"]
    return affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]


@each(
    "globs, is_added",
    {
        "its own": (["nvidia.com/*"], True),
        "another vendor's": (["amd.com/*"], False),
        "one of several": (["amd.com/*", "nvidia.com/gpu"], True),
        "every GPU": ([], True),
    },
)
def test_a_preference_is_for_pods_that_ask_for_one_of_its_resources(globs, is_added):
    values = {"preferred": [{**PRESENT, "weight": 10, "resources": globs}]}
    assert is_left_alone(RULE, gpu_pod(), values) is not is_added


def test_a_preference_is_added_beside_the_users():
    own = {"weight": 1, "preference": term(("zone", "In", ["a"]))}
    preferred = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [own]}}
    assert preferences_after(gpu_pod()) == [WRITTEN]
    assert preferences_after(gpu_pod(affinity=preferred)) == [own, WRITTEN]


@each(
    "spec",
    {
        "the node selector demands it": {"nodeSelector": {"nvidia.com/gpu.present": "true"}},
        "every term demands it": {"affinity": terms({"matchExpressions": [PRESENT]})},
        "the user prefers it with another weight": {
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 99, "preference": {"matchExpressions": [PRESENT]}}
                    ]
                }
            }
        },
    },
)
def test_a_preference_that_the_pod_states_is_not_added(spec):
    assert is_left_alone(RULE, gpu_pod(**spec), PREFER)


def test_preferences_and_requirements_go_together():
    spec = mutated(RULE, gpu_pod(), {"required": [ZONE], **PREFER})["spec"]
    assert set(spec["affinity"]["nodeAffinity"]) == {
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    }


@pytest.mark.parametrize(
    "values",
    [
        {"required": [expression("zone", "In", [])]},
        {"required": [{**expression("zone", "Exists", []), "values": ["a"]}]},
        {"required": [expression("zone", "Gt", ["a"])]},
        {"required": [expression("zone", "Gt", ["--5"])]},
        {"required": [expression("zone", "Gt", ["\u0665"])]},
        {"required": [expression("zone", "Gt", ["1", "2"])]},
        {"required": [expression("zone", "in", ["a"])]},
        {"required": [expression("", "In", ["a"])]},
        {"required": [expression("a b", "In", ["a"])]},
        {"required": [expression("zone", "In", ["a b"])]},
        {"required": [expression("zone", "In", ["x" * 64])]},
        {"required": [expression("zone", "In", [True])]},
        {"required": [ZONE, expression("zone", "In", ["c"])]},
        {"required": [PRESENT, expression("nvidia.com/gpu.present", "DoesNotExist", [])]},
        {"required": [{**ZONE, "weight": 1}]},
        {"preferred": [{**ZONE, "weight": 0}]},
        {"preferred": [{**ZONE, "weight": 101}]},
    ],
    ids=str,
)
def test_expressions_that_no_pod_could_carry_are_refused_in_the_policy(values):
    with pytest.raises(ValidationError):
        settings_of(RULE, values)


def _required(entries):
    """The entries as far as they do not exclude each other."""
    kept = []
    for entry in entries:
        read = [Expression(e["key"], e["operator"], tuple(e.get("values", ()))) for e in (*kept, entry)]
        if not contradicts(read[:-1], read[-1]):
            kept.append(entry)
    return kept


_PREFERENCE = st.builds(lambda entry, weight: {**entry, "weight": weight}, expressions(), st.integers(1, 100))

CASE = RuleCase(
    pods=lambda raw: RulePods(lacks=raw, breaks=spec_with(raw, "nodeSelector", {"example.com/pool": "other"})),
    values=any_of(
        required=st.lists(expressions(), max_size=3).map(_required), preferred=st.lists(_PREFERENCE, max_size=2)
    ),
    enforced={
        "required": [{"key": "example.com/pool", "operator": "In", "values": ["gpu"]}],
        "preferred": [{"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"], "weight": 10}],
    },
    injecting={"required": [{"key": "pool", "operator": "In", "values": ["gpu"]}]},
    fuzzed={
        "required": [{"key": "pool", "operator": "In", "values": ["gpu"]}],
        "preferred": [{"key": "zone", "operator": "In", "values": ["a"], "weight": 10}],
    },
    completes_every_gpu_pod=True,
)
