"""GPU pods get the PriorityClass of their namespace, and only one that the namespace may use."""

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.golden import each
from tests.rules.rule_case import RuleCase, RulePods, spec_with
from tests.rules.samples import Cluster, advice, container, is_left_alone, mutated, pod, settings_of, violations
from webhook.model.node import PriorityClass
from webhook.rules.priority_class import RULE

NORMAL = PriorityClass("normal", 100, is_default=True)
OTHERS = tuple(PriorityClass(name, 1000, preempts=False) for name in ("training", "production", "batch-low"))
CLUSTER = Cluster(priorities=(NORMAL, *OTHERS))
WITHOUT_DEFAULT = Cluster(priorities=OTHERS)
TRAINING = {"name": "training"}
COMPUTED = {"priority": 100, "preemptionPolicy": "PreemptLowerPriority"}
"""What Kubernetes writes into every pod before a webhook sees it."""


def gpu_pod(**spec):
    return pod(container(gpus=1), **spec)


def refused(raw, values, facts=CLUSTER):
    return [str(violation) for violation in violations(RULE, raw, values, facts)]


@each(
    "raw, facts",
    {
        "none, as in a template": (gpu_pod(), CLUSTER),
        "null": (gpu_pod(priorityClassName=None), CLUSTER),
        "an empty name": (gpu_pod(priorityClassName=""), CLUSTER),
        "none, as in a pod of a cluster without a default": (gpu_pod(**COMPUTED), WITHOUT_DEFAULT),
        "the cluster's default": (gpu_pod(priorityClassName="normal", **COMPUTED), CLUSTER),
        "a GPU of another vendor": (pod(container(gpus=1, resource="amd.com/gpu")), CLUSTER),
        "a GPU for an init container": (pod(container(), initContainers=[container(gpus=1)]), CLUSTER),
    },
)
def test_a_pod_without_a_class_of_its_own_gets_it_with_the_numbers_of_that_class(raw, facts):
    """With other numbers than those of its class Kubernetes refuses the pod."""
    spec = mutated(RULE, raw, TRAINING, facts)["spec"]
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == ("training", 1000, "Never")


@each(
    "raw",
    {
        "a class that somebody chose": gpu_pod(priorityClassName="production", priority=1000),
        "the same class": gpu_pod(priorityClassName="training", priority=1000),
        "a class that the cluster does not have": gpu_pod(priorityClassName="unheard-of"),
        "no GPU": pod(container()),
        "zero GPUs": pod(container(gpus=0)),
        "a claim": pod(container(resources={"claims": [{"name": "gpu"}]})),
    },
)
def test_other_pods_are_left_alone(raw):
    assert is_left_alone(RULE, raw, TRAINING, CLUSTER)


def test_only_the_default_of_the_cluster_counts_as_none():
    """A class of the same name that is not the default was chosen by somebody."""
    raw = gpu_pod(priorityClassName="normal")
    chosen = Cluster(priorities=(PriorityClass("normal", 100), *OTHERS))
    assert is_left_alone(RULE, raw, TRAINING, chosen)
    assert not is_left_alone(RULE, raw, TRAINING, CLUSTER)


def test_nothing_is_set_where_no_class_is_named():
    assert is_left_alone(RULE, gpu_pod(), {"allowed": ["training"]}, CLUSTER)
    assert is_left_alone(RULE, gpu_pod(), {}, CLUSTER)


@each(
    "facts, found",
    {
        "missing": (Cluster(priorities=(NORMAL,)), "the cluster has no PriorityClass training"),
        "not known": (Cluster(), "no PriorityClass is known"),
    },
)
def test_a_class_that_does_not_exist_is_not_set_because_kubernetes_would_refuse_the_pod(facts, found):
    assert is_left_alone(RULE, gpu_pod(), TRAINING, facts)
    assert advice(RULE, gpu_pod(), TRAINING, facts) == []
    assert advice(RULE, gpu_pod(), {**TRAINING, "whenMissing": "warn"}, facts) == [
        f"spec.priorityClassName: not set, because {found}. Tell the platform team."
    ]


def test_a_missing_class_is_told_once_by_the_refusal_where_the_pod_is_refused_for_it():
    values = {"name": "gone", "whenMissing": "warn"}
    assert advice(RULE, gpu_pod(), {**values, "allowed": ["training"]}, CLUSTER) == []
    assert len(advice(RULE, gpu_pod(priorityClassName="normal"), {**values, "allowed": ["normal"]}, CLUSTER)) == 1


def test_nothing_is_said_of_a_missing_class_where_somebody_chose_another_one():
    raw = gpu_pod(priorityClassName="production")
    assert advice(RULE, raw, {"name": "gone", "whenMissing": "warn"}, CLUSTER) == []


@each(
    "raw, values, expected",
    {
        "another class": (
            gpu_pod(priorityClassName="production"),
            {**TRAINING, "allowed": ["batch-*"]},
            "is production; GPU pods of this namespace may have training or batch-*. Set it to one of them",
        ),
        "none, and none is set": (
            gpu_pod(),
            {"allowed": ["training"]},
            "is not set; GPU pods of this namespace may have training. Set it to training",
        ),
        "the default, which nobody wrote": (
            gpu_pod(priorityClassName="normal"),
            {"allowed": ["batch-*"]},
            "is normal, the cluster's default; GPU pods of this namespace may have batch-*. Set it to one of them",
        ),
        "none, and the one to be set does not exist": (
            gpu_pod(),
            {"name": "gone", "allowed": ["training"]},
            "is not set, because the cluster has no PriorityClass gone; GPU pods of this namespace may have training. "
            "Set it to training",
        ),
        "none, and the only one does not exist": (
            gpu_pod(),
            {"name": "gone", "allowed": ["gone"]},
            "is not set, because the cluster has no PriorityClass gone; GPU pods of this namespace may have gone. Tell "
            "the platform team",
        ),
        "the default, and the one to be set does not exist": (
            gpu_pod(priorityClassName="normal"),
            {"name": "gone", "allowed": ["training"], "whenMissing": "warn"},
            "is normal, the cluster's default, because the cluster has no PriorityClass gone; GPU pods of this "
            "namespace may have training. Set it to training",
        ),
        "many to choose from": (
            gpu_pod(priorityClassName="x"),
            {"allowed": list("abcdefgh")},
            "is x; GPU pods of this namespace may have a, b, c, d, e, f or 2 more. Set it to one of them",
        ),
        "one named twice": (
            gpu_pod(priorityClassName="x"),
            {**TRAINING, "allowed": ["training"]},
            "is x; GPU pods of this namespace may have training. Set it to training",
        ),
        "the default of the cluster, which would become the one that is set": (
            gpu_pod(priorityClassName="x"),
            {**TRAINING, "allowed": ["normal", "batch"]},
            "is x; GPU pods of this namespace may have training or batch. Set it to one of them",
        ),
    },
)
def test_a_class_that_the_namespace_may_not_use_is_refused(raw, values, expected):
    assert [f"spec.priorityClassName: {expected}."] == refused(raw, values)


@each(
    "raw, values",
    {
        "the one that is set": (gpu_pod(priorityClassName="training"), {**TRAINING, "allowed": ["x"]}),
        "one that matches": (gpu_pod(priorityClassName="batch-low"), {"allowed": ["x", "batch-*"]}),
        "none, before it is set": (gpu_pod(), {**TRAINING, "allowed": ["x"]}),
        "the default, before": (gpu_pod(priorityClassName="normal"), {**TRAINING, "allowed": ["x"]}),
        "none, in a cluster whose default may be had": (gpu_pod(), {"allowed": ["x", "nor*"]}),
        "none, for the lack of one, likewise": (gpu_pod(), {"name": "gone", "allowed": ["normal"]}),
        "any, where no list is given": (gpu_pod(priorityClassName="anything"), TRAINING),
        "any, where nothing is given": (gpu_pod(priorityClassName="anything"), {}),
        "no GPU": (pod(container(), priorityClassName="production"), {"allowed": ["x"]}),
    },
)
def test_other_classes_are_nobodys_business(raw, values):
    assert refused(raw, values) == []


def test_a_pod_without_a_class_is_refused_where_kubernetes_gives_it_none_that_is_allowed():
    (said,) = refused(gpu_pod(), {"allowed": ["normal"]}, WITHOUT_DEFAULT)
    assert said.startswith("spec.priorityClassName: is not set; ")


def test_a_class_of_which_nothing_is_known_stays_among_the_choices():
    (said,) = refused(gpu_pod(), {"name": "gone", "allowed": ["training"]}, Cluster())
    assert "is not set, because no PriorityClass is known; GPU pods of this namespace may have gone or" in said


def test_a_completed_pod_is_allowed():
    values = {**TRAINING, "allowed": ["batch-*"]}
    assert refused(mutated(RULE, gpu_pod(priorityClassName="normal"), values, CLUSTER), values) == []


@pytest.mark.parametrize("name", ["system-node-critical", "system-cluster-critical", "system-mine"])
def test_the_classes_of_kubernetes_itself_are_not_given_to_teams(name):
    with pytest.raises(ValidationError, match=f"{name} is for components of Kubernetes itself; name a class of your"):
        settings_of(RULE, {"name": name})


@each(
    "values, remedy",
    {
        "no class": ({}, "write name, allowed or both, or disable the rule"),
        "still none": ({"whenMissing": "warn"}, "write name, allowed or both, or disable the rule"),
        "a class to set": (TRAINING, ""),
        "classes that are allowed": ({"allowed": ["*"]}, ""),
    },
)
def test_settings_that_do_nothing_say_what_is_to_be_written(values, remedy):
    assert remedy == RULE.why_no_effect(settings_of(RULE, values))


@pytest.mark.parametrize("values", [{"name": ""}, {"name": "Training"}, {"allowed": [""]}, {"allowed": ["Training-*"]}])
def test_settings_without_sense_are_refused(values):
    with pytest.raises(ValidationError):
        settings_of(RULE, values)


CASE = RuleCase(
    pods=lambda raw: RulePods(lacks=raw, breaks=spec_with(raw, "priorityClassName", "production")),
    values=st.fixed_dictionaries(
        {"name": st.sampled_from(("training", "training", "ordinary", "missing"))},
        optional={
            "allowed": st.lists(st.sampled_from(("training", "ord*", "other")), max_size=2),
            "whenMissing": st.sampled_from(("silent", "warn")),
        },
    ),
    enforced={"name": "training", "allowed": ["training"]},
    injecting={"name": "training"},
    fuzzed={"name": "training", "allowed": ["urgent"], "whenMissing": "silent"},
    completes_every_gpu_pod=True,
)
