"""GPU containers have a memory limit and a CPU request, as Kubernetes reads them."""

from hypothesis import strategies as st

from tests.golden import each
from tests.rules.rule_case import RuleCase, RulePods, any_of, requesting
from tests.rules.samples import Cluster, container, messages, pod, settings_of, violations
from webhook.model.node import NodeClass
from webhook.rules.memory_and_cpu import RULE

GPU = "nvidia.com/gpu"
EQUAL = {"memoryRequestEqualsLimit": True}


def gpu(limits=None, requests=None, name="trainer"):
    """A container with one GPU and these amounts beside it."""
    parts = {"limits": {GPU: 1, **(limits or {})}, "requests": {GPU: 1, **(requests or {})}}
    return {"name": name, "image": "registry.example.com/train:1", "resources": parts}


@each(
    "limits, requests",
    {
        "neither": ({}, {}),
        "no limit": ({}, {"cpu": 8}),
        "no request": ({"memory": "64Gi"}, {}),
        "both are 0": ({"memory": 0}, {"cpu": "0m", "memory": "1Gi"}),
        "a request of 0 that its limit does not replace": ({"memory": "64Gi", "cpu": 4}, {"cpu": 0}),
        "a memory request alone": ({}, {"cpu": 8, "memory": "8Gi"}),
    },
)
def test_one_violation_names_all_that_a_container_lacks(limits, requests, says):
    says(messages(RULE, pod(gpu(limits, requests))))


@each(
    "raw",
    {
        "both": pod(gpu({"memory": "64Gi"}, {"cpu": 8})),
        "a CPU limit is a request too": pod(gpu({"memory": "64Gi", "cpu": "500m"})),
        "hardly anything": pod(gpu({"memory": "0.5"}, {"cpu": "1n"})),
        "what the API server refuses on its own": pod(gpu({"memory": "much"}, {"cpu": []})),
        "a container without GPUs": pod(container()),
        "no GPU": pod(container(gpus=0)),
        "a proxy beside a GPU container": pod(gpu({"memory": "1Gi", "cpu": 1}), container("proxy")),
        "ephemeral": pod(container(), ephemeralContainers=[gpu()]),
    },
)
def test_a_container_that_has_both_or_no_gpu_is_allowed(raw):
    assert messages(RULE, raw) == []


def test_every_gpu_container_is_told_by_itself(says):
    sidecar = {**gpu(name="cache"), "restartPolicy": "Always"}
    raw = pod(gpu(name="a"), container("b"), gpu({"memory": "1Gi"}, name="c"), initContainers=[sidecar])
    says([message.partition(";")[0] for message in messages(RULE, raw)])


@each(
    "settings, found",
    {
        "no memory limit is needed": ({"memoryLimit": False}, ["has no CPU request"]),
        "no CPU request is needed": ({"cpuRequest": False}, ["has no memory limit"]),
        "neither is needed": ({"memoryLimit": False, "cpuRequest": False}, []),
        "equality of what is not there": ({"memoryLimit": False, "cpuRequest": False, **EQUAL}, []),
    },
)
def test_each_of_them_can_be_switched_off(settings, found):
    said = messages(RULE, pod(gpu()), settings)
    assert found == [message.partition(": ")[2].partition(";")[0] for message in said]


def test_the_share_of_a_gpu_leaves_a_pod_all_its_nodes():
    classes = [NodeClass({}, (), frozenset({GPU})) for _ in range(2)]
    amounts_of = [{GPU: 8, "cpu": 64_000, "memory": 512 * 2**30}, {GPU: 1, "cpu": 3_900, "memory": 15 * 2**30 + 1}]
    (found,) = violations(RULE, pod(gpu()), facts=Cluster(nodes=classes, amounts=amounts_of))
    assert str(found).endswith(
        "Write limits.memory such as 15Gi and requests.cpu such as 3, the share of 1 GPU on a node."
    )


def test_containers_of_one_pod_share_the_node():
    node = Cluster(nodes=[NodeClass({}, (), frozenset({GPU}))], amounts=[{GPU: 2, "cpu": 8_000, "memory": 64 * 2**30}])
    asking = gpu({"memory": "48Gi", "cpu": 2}, name="asking")
    assert [found.remedy for found in violations(RULE, pod(gpu(), asking), facts=node)] == [
        "Write limits.memory such as 16Gi and requests.cpu such as 4, the share of 1 GPU on a node"
    ]


@each(
    "whole, found",
    {
        "both": ({"limits": {"memory": "64Gi"}, "requests": {"cpu": 8}}, []),
        "a CPU limit is a request too": ({"limits": {"memory": "64Gi", "cpu": 8}}, []),
        "a memory limit": ({"limits": {"memory": "64Gi"}}, ["has no CPU request"]),
        "requests": ({"requests": {"cpu": 8, "memory": "1Gi"}}, ["has no memory limit"]),
        "0": ({"limits": {"memory": 0}, "requests": {"cpu": 0}}, ["has no memory limit and no CPU request"]),
        "null": ({"limits": None, "requests": None}, ["has no memory limit and no CPU request"]),
        "nothing": (None, ["has no memory limit and no CPU request"]),
    },
)
def test_what_the_pod_has_as_a_whole_covers_its_containers(whole, found):
    said = messages(RULE, pod(gpu(), resources=whole))
    assert found == [message.partition(": ")[2].partition(";")[0] for message in said]


def test_a_memory_request_below_the_limit_is_refused_where_the_policy_says_so(says):
    raw = pod(gpu({"memory": "64Gi", "cpu": 1}, {"memory": "16Gi"}))
    assert messages(RULE, raw) == []
    says(messages(RULE, raw, EQUAL))


@each(
    "limit, request_, allowed",
    {
        "another unit": ("1Gi", {"memory": "1024Mi"}, True),
        "a number": ("1Gi", {"memory": 2**30}, True),
        "no request, which is the limit": ("1Gi", {}, True),
        "a unit that only looks alike": ("1Gi", {"memory": "1G"}, False),
        "one byte less": ("1Gi", {"memory": str(2**30 - 1)}, False),
        "0": ("1Gi", {"memory": "0"}, False),
        "null, which is 0": ("1Gi", {"memory": None}, False),
        "what the API server refuses on its own": ("1Gi", {"memory": "some"}, True),
        "a limit that it refuses": ("some", {"memory": "1Gi"}, True),
    },
)
def test_amounts_are_compared_exactly(limit, request_, allowed):
    raw = pod(gpu({"memory": limit, "cpu": 1}, request_))
    assert allowed == (messages(RULE, raw, EQUAL) == [])


@each(
    "whole, places",
    {
        "no request, which is that of containers": ({"limits": {"memory": "64Gi"}}, ["spec.resources"]),
        "no request, and containers ask for as much": ({"limits": {"memory": "4Gi"}}, []),
        "equal": ({"limits": {"memory": "64Gi"}, "requests": {"memory": "65536Mi"}}, []),
        "less": ({"limits": {"memory": "64Gi"}, "requests": {"memory": "1Gi"}}, ["spec.resources"]),
        "no limit": ({"requests": {"memory": "1Gi"}}, ["spec.containers[trainer].resources"]),
    },
)
def test_of_a_pod_with_a_memory_limit_as_a_whole_that_one_is_compared(whole, places):
    raw = pod(gpu({"memory": "8Gi", "cpu": 1}, {"memory": "4Gi"}), resources=whole)
    assert places == [message.partition(":")[0] for message in messages(RULE, raw, EQUAL)]


def test_a_pod_without_gpus_may_be_as_unequal_as_it_likes():
    whole = {"limits": {"memory": "64Gi"}, "requests": {"memory": "1Gi"}}
    assert messages(RULE, pod(container(), resources=whole), EQUAL) == []


def test_settings_that_ask_for_nothing_say_what_is_to_be_written():
    nothing = {"memoryLimit": False, "cpuRequest": False}
    remedy = "set one of memoryLimit, cpuRequest and memoryRequestEqualsLimit, or disable the rule"
    assert remedy == RULE.why_no_effect(settings_of(RULE, nothing))
    assert (
        RULE.why_no_effect(settings_of(RULE, {})) == RULE.why_no_effect(settings_of(RULE, {**nothing, **EQUAL})) == ""
    )


def test_a_pod_is_judged_alike_before_and_after_kubernetes_completed_it():
    """What the whole of a pod requests is what its containers do; its limit, only where they say nothing."""
    limits = {"memory": "16Gi", "cpu": 4}
    raw = pod(gpu({"memory": "8Gi"}, {}), container("proxy", resources={"requests": {"memory": "1Gi"}}))
    written, stored = (
        {**raw, "spec": {**raw["spec"], "resources": whole}}
        for whole in ({"limits": limits}, {"limits": limits, "requests": {"memory": "9Gi", "cpu": 4}})
    )
    expected = [
        "spec.resources: requests 9Gi of memory and may use up to 16Gi; the policy wants both equal, so that the "
        "memory is there when it is needed. Write 16Gi in requests.memory."
    ]
    assert messages(RULE, written, EQUAL) == messages(RULE, stored, EQUAL) == expected
    silent = pod(gpu({}, {}), resources={"limits": limits}, overhead={"memory": "1Gi"})
    assert messages(RULE, silent, EQUAL) == []


CASE = RuleCase(
    pods=lambda raw: RulePods(breaks=requesting(raw, GPU, "2"), keeps=raw),
    values=any_of(memoryLimit=st.booleans(), cpuRequest=st.booleans(), memoryRequestEqualsLimit=st.booleans()),
    enforced=EQUAL,
    fuzzed={"memoryLimit": True, "cpuRequest": True, "memoryRequestEqualsLimit": False},
)
