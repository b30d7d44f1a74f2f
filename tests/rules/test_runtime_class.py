"""NVIDIA pods run under the RuntimeClass of the container toolkit, but only where that cannot break them."""

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.golden import each
from tests.rules.rule_case import RuleCase, RulePods, any_of, tolerating_gpu_nodes
from tests.rules.samples import (
    NVIDIA,
    Cluster,
    advice,
    container,
    is_left_alone,
    mutated,
    pod,
    settings_of,
    term,
    terms,
)
from webhook.model.node import NodeClass, RuntimeClass, Toleration
from webhook.model.selectors import Expression
from webhook.rules.runtime_class import RULE

GPU_POD = pod(container(gpus=1))
HAS_CLASS = Cluster({"nvidia": NVIDIA})


def nodes(handlers, count=1):
    return NodeClass({}, runtime_handlers=None if handlers is None else frozenset(handlers), count=count)


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"])
def test_it_is_set_where_the_cluster_has_it(resource):
    raw = pod(container(gpus=1, resource=resource))
    assert mutated(RULE, raw, facts=HAS_CLASS)["spec"]["runtimeClassName"] == "nvidia"


@each(
    "raw",
    {
        "another class": pod(container(gpus=1), runtimeClassName="kata"),
        "an empty name, which is the user's": pod(container(gpus=1), runtimeClassName=""),
        "a passthrough GPU": pod(container(gpus=1, resource="nvidia.com/pgpu")),
        "a GPU named for KubeVirt": pod(container(gpus=1, resource="nvidia.com/GA102GL_A10")),
        "passthrough beside another": pod(container(gpus=1), container("vm", gpus=1, resource="nvidia.com/pgpu")),
        "AMD": pod(container(gpus=1, resource="amd.com/gpu")),
        "Intel": pod(container(gpus=1, resource="gpu.intel.com/xe")),
        "no GPU": pod(container()),
        "zero GPUs": pod(container(gpus=0)),
        "a claim": pod(container(resources={"claims": [{"name": "gpu"}]})),
        "an attribute of a share": pod(container(gpus=1, resource="nvidia.com/gpumem")),
    },
)
def test_other_pods_are_left_alone(raw):
    assert is_left_alone(RULE, raw, facts=HAS_CLASS)
    assert advice(RULE, raw, {"whenMissing": "warn"}) == []


def test_a_missing_object_is_passed_over_in_silence_by_default():
    assert is_left_alone(RULE, GPU_POD)
    assert advice(RULE, GPU_POD) == []


def test_a_missing_object_is_told_where_the_policy_says_so(says):
    says(advice(RULE, GPU_POD, {"whenMissing": "warn"}))


def test_another_name_can_be_set():
    cluster = Cluster({"nvidia-cdi": RuntimeClass("nvidia-cdi", "nvidia-cdi")})
    assert mutated(RULE, GPU_POD, {"name": "nvidia-cdi"}, cluster)["spec"]["runtimeClassName"] == "nvidia-cdi"
    assert is_left_alone(RULE, GPU_POD, {"name": "nvidia"}, cluster)


@each(
    "candidates, set_",
    {
        "no candidate is known, as with pools scaled to zero": ([], True),
        "nodes that publish no handlers": ([nodes(None)], True),
        "nodes that have it": ([nodes({"", "nvidia"})], True),
        "one has it, one says nothing": ([nodes({"nvidia"}), nodes(None)], True),
        "nodes that lack it": ([nodes({"", "runc"})], False),
        "one of two lacks it": ([nodes({"nvidia"}), nodes({""})], False),
    },
)
def test_every_candidate_node_that_publishes_its_handlers_must_have_it(candidates, set_):
    cluster = Cluster({"nvidia": NVIDIA}, candidates)
    assert is_left_alone(RULE, GPU_POD, facts=cluster) is not set_


@pytest.mark.parametrize(
    ("candidates", "words"),
    [
        ([nodes({""}, 1), nodes({"nvidia"}, 5)], "1 of 6 nodes that it could use lacks"),
        ([nodes({""}, 2), nodes({"x"}, 3)], "5 of 5 nodes that it could use lack"),
    ],
    ids=["one", "several"],
)
def test_a_missing_handler_is_told_in_numbers(candidates, words):
    cluster = Cluster({"nvidia": NVIDIA}, candidates)
    assert advice(RULE, GPU_POD, {"whenMissing": "warn"}, cluster) == [
        f"spec.runtimeClassName: not set, because {words} the runtime handler nvidia. "
        "Install the NVIDIA container toolkit, or tell the platform team."
    ]


PICKY = RuntimeClass("nvidia", "nvidia", (Expression("pool", "In", ("gpu",)),), (Toleration("pool", "Exists"),))


@pytest.mark.parametrize(("pool", "set_"), [("gpu", True), ("cpu", False), (None, True)])
def test_a_class_whose_node_selector_contradicts_the_pods_is_not_set_because_kubernetes_would_refuse_the_pod(
    pool, set_
):
    raw = pod(container(gpus=1), nodeSelector={"pool": pool} if pool else None)
    cluster = Cluster({"nvidia": PICKY})
    assert is_left_alone(RULE, raw, facts=cluster) is not set_
    assert advice(RULE, raw, {"whenMissing": "warn"}, cluster) == (
        []
        if set_
        else [
            "spec.runtimeClassName: not set, because it selects nodes by pool In [gpu], and nodeSelector requires "
            "cpu. Change nodeSelector or affinity, or set runtimeClassName."
        ]
    )


@each(
    "pools, set_",
    {
        "excluded": ([["cpu"]], False),
        "one alternative left": ([["cpu"], ["gpu"]], True),
        "every alternative excluded": ([["cpu"], ["other"]], False),
    },
)
def test_a_class_that_the_pods_required_affinity_excludes_is_not_set_although_no_node_is_known(pools, set_):
    """The pod would never start, or the policy's own affinity would be called the user's contradiction."""
    raw = pod(container(gpus=1), affinity=terms(*[term(("pool", "In", pool)) for pool in pools]))
    cluster = Cluster({"nvidia": PICKY})
    assert is_left_alone(RULE, raw, facts=cluster) is not set_
    assert advice(RULE, raw, {"whenMissing": "warn"}, cluster) == (
        []
        if set_
        else [
            "spec.runtimeClassName: not set, because it selects nodes by pool In [gpu], which the pod's required node "
            "affinity excludes. Change nodeSelector or affinity, or set runtimeClassName."
        ]
    )


def test_a_class_that_leaves_the_pod_no_node_is_not_set(says):
    cluster = Cluster({"nvidia": PICKY}, [nodes({"nvidia"})], selects=lambda pod: pod.runtime_class is None)
    assert is_left_alone(RULE, GPU_POD, facts=cluster)
    says(advice(RULE, GPU_POD, {"whenMissing": "warn"}, cluster))


def test_nodes_that_the_class_itself_excludes_need_no_handler():
    lacking, having = nodes({""}), nodes({"nvidia"})

    class Pools(Cluster):
        def matching_nodes(self, pod):
            return (having,) if pod.runtime_class else (lacking, having)

    assert not is_left_alone(RULE, GPU_POD, facts=Pools({"nvidia": PICKY}))
    assert is_left_alone(RULE, GPU_POD, facts=Pools({"nvidia": NVIDIA}))


@pytest.mark.parametrize("name", ["", "NVIDIA", "nvidia cdi", "a/b", "x" * 254])
def test_a_name_that_no_object_can_have_is_refused_in_the_policy(name):
    with pytest.raises(ValidationError, match="is not the name of an object"):
        settings_of(RULE, {"name": name})


CASE = RuleCase(
    pods=lambda raw: RulePods(lacks=tolerating_gpu_nodes(raw)),
    values=any_of(name=st.sampled_from(("nvidia", "other")), whenMissing=st.sampled_from(("silent", "warn"))),
    enforced={},
    injecting={},
    fuzzed={"name": "nvidia", "whenMissing": "silent"},
    completes_every_gpu_pod=True,
)
