"""gpuLimits: how many GPUs a container and a pod may have, and what may not stand together."""

import pytest

from tests.facts.samples import node
from tests.rules.samples import container, each, messages, pod, settings_of, violations
from webhook.facts.facts import ClusterFacts
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.gpu_limits import RULE
from webhook.rules.rule import Violation

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("gpus", "most", "message"),
    [
        (8, 8, None),
        (0, 0, None),
        (9, 8, "requests 9 GPUs; the policy allows at most 8 per container. Request 8 or fewer."),
        (2, 1, "requests 2 GPUs; the policy allows at most 1 per container. Request 1 or fewer."),
        (1, 0, "requests 1 GPU; the policy allows none for a container. Remove it."),
        (2, 0, "requests 2 GPUs; the policy allows none for a container. Remove them."),
        (
            "1e19",
            8,
            "requests 9223372036854775807 GPUs; the policy allows at most 8 per container. Request 8 or fewer.",
        ),
    ],
)
def test_a_container_may_ask_for_the_maximum_and_not_for_one_more(gpus, most, message):
    found = messages(RULE, pod(container(gpus=gpus)), {"maxPerContainer": most})
    assert found == ([f"spec.containers[trainer].resources: {message}"] if message else [])


@pytest.mark.parametrize(("namespace", "where"), [("web", "namespace web"), ("", "this namespace")])
def test_a_namespace_whose_pods_may_have_no_gpu_is_told_that_gpus_are_not_enabled(namespace, where):
    raw = {**pod(container(gpus=2)), "metadata": {"name": "p", "namespace": namespace}}
    assert messages(RULE, raw, {"maxPerPod": 0}) == [
        f"spec: requests 2 GPUs; GPUs are not enabled in {where}. Ask the platform team to enable them."
    ]


@pytest.mark.parametrize("parts", [{}, {"restartPolicy": "Always"}], ids=["an init container", "a sidecar"])
def test_the_maximum_of_a_container_holds_for_init_containers_and_sidecars(parts):
    raw = pod(container(gpus=1), initContainers=[container("warm", 3, **parts)])
    (message,) = messages(RULE, raw, {"maxPerContainer": 2})
    assert message.startswith("spec.initContainers[warm].resources: requests 3 GPUs")


def test_gpus_of_all_names_count_for_the_maximum_of_a_container():
    amounts = {"nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-2g.20gb": 1}
    (message,) = messages(RULE, pod(container(resources={"limits": amounts})), {"maxPerContainer": 2})
    assert "requests 3 GPUs" in message


@each(
    "init, apps, most, asked",
    {
        "exactly full": ([], [4, 4], 8, None),
        "one over": ([], [4, 5], 8, 9),
        "an init container runs before": ([(8, {})], [4], 8, None),
        "an init container alone is over": ([(9, {})], [4], 8, 9),
        "a sidecar runs beside": ([(4, {"restartPolicy": "Always"})], [5], 8, 9),
        "init beside an earlier sidecar": ([(2, {"restartPolicy": "Always"}), (7, {})], [1], 8, 9),
        "init before a later sidecar": ([(7, {}), (2, {"restartPolicy": "Always"})], [1], 8, None),
    },
)
def test_A32_the_maximum_of_a_pod_is_of_what_the_scheduler_reserves(init, apps, most, asked):
    raw = pod(
        *(container(f"a{index}", gpus) for index, gpus in enumerate(apps)),
        initContainers=[container(f"i{index}", gpus, **parts) for index, (gpus, parts) in enumerate(init)],
    )
    assert messages(RULE, raw, {"maxPerPod": most}) == (
        [f"spec: requests {asked} GPUs; the policy allows at most {most} per pod. Request {most} or fewer."]
        if asked
        else []
    )


def test_a_maximum_is_the_policys_and_not_the_api_servers():
    (violation,) = violations(RULE, pod(container(gpus=2)), {"maxPerPod": 1})
    assert not violation.fails_validation


def intel(*amounts):
    """Nodes with so many Intel GPUs each."""
    return ClusterFacts.of([node(f"n{at}", capacity={"gpu.intel.com/i915": str(n)}) for at, n in enumerate(amounts)])


@pytest.mark.parametrize("most", ["maxPerPod", "maxPerContainer"])
@each(
    "resource, facts, number, may_be",
    {
        "more than the maximum on the largest node": ("gpu.intel.com/i915_monitoring", intel(2, 6), 4, 6),
        "no node has more": ("gpu.intel.com/i915_monitoring", intel(2, 4), 4, 0),
        "no node lists any": ("gpu.intel.com/i915_monitoring", intel(), 7, 8),
        "no node lists any of this driver": ("gpu.intel.com/xe_monitoring", intel(2), 7, 8),
        "no node lists any, and the maximum is large": ("gpu.intel.com/xe_monitoring", intel(), 8, 0),
    },
)
def test_A42_a_maximum_counts_what_opens_all_gpus_of_a_node(resource, facts, number, may_be, most):
    found = list(
        RULE.validate(pod_from_raw(pod(container(gpus=1, resource=resource))), settings_of(RULE, {most: number}), facts)
    )
    opens = f"spec.containers[trainer].resources: requests {resource}, which gives access to all GPUs of a node; "
    refusal = (
        f"these may be {may_be}, and the policy allows at most {number}. Request single GPUs, or ask the platform team."
    )
    warning = f"the maximum of {number} counts it as 1. Request single GPUs, unless the container monitors the node."
    assert [str(one) for one in found] == [opens + (refusal if may_be else warning)]
    assert isinstance(found[0], Violation) is bool(may_be)


def test_A42_where_gpus_are_not_enabled_what_opens_a_node_is_no_more_than_that():
    raw = pod(container(gpus=1, resource="gpu.intel.com/i915_monitoring"))
    (message,) = messages(RULE, raw, {"maxPerPod": 0})
    assert "GPUs are not enabled" in message


@pytest.mark.parametrize("whole", [GPU, "nvidia.com/gpu.shared"])
def test_a_slice_and_a_whole_gpu_in_one_container_are_refused(whole):
    raw = pod(container(resources={"limits": {whole: 1, "nvidia.com/mig-1g.10gb": 1}}))
    assert messages(RULE, raw) == [
        f"spec.containers[trainer].resources: requests nvidia.com/mig-1g.10gb and {whole} together; "
        "a CUDA process uses either slices or whole GPUs, never both. "
        "Request one of them, or use two containers."
    ]


@each(
    "raw",
    {
        "in two containers of a pod": pod(container("a", 1), container("b", 1, "nvidia.com/mig-1g.10gb")),
        "zero whole GPUs": pod(container(resources={"limits": {GPU: 0, "nvidia.com/mig-1g.10gb": 1}})),
        "two kinds of slices": pod(
            container(resources={"limits": {"nvidia.com/mig-2g.20gb": 1, "nvidia.com/mig-1g.10gb": 1}})
        ),
        "AMD": pod(container(resources={"limits": {"amd.com/gpu": 1, "amd.com/cpx_nps4": 1}})),
    },
)
def test_other_mixtures_are_allowed(raw):
    assert messages(RULE, raw) == []
