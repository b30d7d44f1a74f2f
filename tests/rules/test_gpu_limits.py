"""GPUs are asked for in whole numbers, in limits, and not more of them than the namespace allows."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.facts.samples import node
from tests.golden import each, golden
from tests.gpus import discovered_labels as labels
from tests.rules.rule_case import RuleCase, RulePods, any_of, container_with
from tests.rules.samples import container, is_left_alone, messages, mutated, pod, settings_of, violations
from webhook.facts.facts import ClusterFacts
from webhook.gpus.gpu_catalogue import CATALOGUE
from webhook.gpus.gpu_shares import share_of
from webhook.model.node import NodePool
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.gpu_limits import RULE
from webhook.rules.gpu_parts import gpus_of_pod, parts_of
from webhook.rules.rule import Advice, Violation

GPU = "nvidia.com/gpu"
MISSING = object()


def asking(requests=MISSING, limits=MISSING, resource=GPU, **parts):
    """A pod whose container says exactly this in requests and limits."""
    written = {"requests": requests, "limits": limits}
    resources = {part: {resource: amount} for part, amount in written.items() if amount is not MISSING}
    return pod(container(resources=resources, **parts))


REPAIR = {"requestsOnly": "repair"}


@each(
    "raw",
    {
        "no GPU": pod(container()),
        "one": asking(1, 1),
        "in quotes": asking("2", "2"),
        "limits only": asking(limits=2),
        "a thousand milli is one": asking("1000m", 1),
        "an exponent": asking("1e0", "1"),
        "a fraction of zero": asking(1.0, "1."),
        "zero": asking(0, 0),
        "null": asking(limits=None),
        "null and zero": asking(None, "0"),
        "a fraction of what is no GPU": asking("0.5", "0.5", "nvidia.com/gpumem"),
        "a network card in requests only": asking(1, resource="nvidia.com/rdma-vf"),
    },
)
def test_whole_numbers_in_limits_are_fine(raw):
    assert messages(RULE, raw, {"requestsOnly": "deny"}) == []
    assert messages(RULE, raw, REPAIR) == []
    assert is_left_alone(RULE, raw, REPAIR)


WHOLE = "Write a whole number such as 1"
WHY = {
    "limits": "GPUs are allocated from limits. Move the {} to resources.limits.",
    "zero": "Kubernetes refuses that, even for 0. Remove {} from requests.",
    "equal": "GPUs cannot be overcommitted, so both must be equal. "
    "Write the same number in both, or in resources.limits only.",
    "fraction": f"GPUs are allocated whole. {WHOLE}, or request a shared GPU or a MIG slice instead of {GPU}.",
    "negative": f"GPUs are counted in whole numbers from 0. {WHOLE}.",
    "no number": f"GPUs are counted in whole numbers. {WHOLE}.",
    "template": "it is a placeholder of a template. Fill in the template first.",
}
MIG = "nvidia.com/mig-1g.10gb"


@each(
    "raw, found, why",
    {
        "requests only": (asking(4), f"{GPU} is 4 in requests but missing in limits", WHY["limits"].format(4)),
        "slices": (asking("2", resource=MIG), f"{MIG} is 2 in requests but missing in limits", WHY["limits"].format(2)),
        "zero": (asking(0), f"{GPU} is 0 in requests but missing in limits", WHY["zero"].format(GPU)),
        "null": (asking(None), f"{GPU} is null in requests but missing in limits", WHY["zero"].format(GPU)),
        "unequal": (asking(4, "2"), f"{GPU} is 4 in requests and 2 in limits", WHY["equal"]),
        "limits zero": (asking(2, 0), f"{GPU} is 2 in requests and 0 in limits", WHY["equal"]),
        "limits null": (asking(2, None), f"{GPU} is 2 in requests and null in limits", WHY["equal"]),
        "requests zero": (asking(0, 2), f"{GPU} is 0 in requests and 2 in limits", WHY["equal"]),
        "half in milli": (asking("500m", "500m"), f"{GPU} is 500m in requests, a fraction of a GPU", WHY["fraction"]),
        "half in limits": (asking(limits=0.5), f"{GPU} is 0.5 in limits, a fraction of a GPU", WHY["fraction"]),
        "beside a whole request": (asking(1, "1n"), f"{GPU} is 1n in limits, a fraction of a GPU", WHY["fraction"]),
        "negative": (asking(-1, -1), f"{GPU} is -1 in requests, a negative number", WHY["negative"]),
        "a negative fraction": (
            asking(limits="-500m"),
            f"{GPU} is -500m in limits, a negative number",
            WHY["negative"],
        ),
        "a placeholder": (asking(limits="$GPUS"), f'{GPU} in limits: "$GPUS" is not a quantity', WHY["template"]),
        "in requests": (asking("{{ n }}", 1), f'{GPU} in requests: "{{{{ n }}}}" is not a quantity', WHY["template"]),
        "a slip": (asking(limits="8$"), f'{GPU} in limits: "8$" is not a quantity', WHY["no number"]),
        "a boolean": (asking(True, True), f"{GPU} in requests: true is not a quantity", WHY["no number"]),
        "a map": (asking(limits={"count": 1}), f"{GPU} in limits: a map is not a quantity", WHY["no number"]),
    },
)
def test_what_the_api_server_refuses_is_explained_with_place_finding_and_remedy(raw, found, why):
    (violation,) = violations(RULE, raw)
    assert str(violation) == f"spec.containers[trainer].resources: {found}; {why}"
    assert violation.fails_validation


@pytest.mark.parametrize("list_name", ["containers", "initContainers", "ephemeralContainers"])
def test_every_list_of_containers_is_read(list_name):
    raw = pod(container())
    raw["spec"][list_name] = [asking(4)["spec"]["containers"][0]]
    (violation,) = violations(RULE, raw)
    assert violation.where == f"spec.{list_name}[trainer].resources"


def test_every_fault_is_told_at_once():
    raw = pod(
        container("a", resources={"requests": {GPU: 1, "nvidia.com/mig-1g.10gb": 1}}),
        container("b", resources={"limits": {GPU: "x"}}),
    )
    assert [(v.where, v.found.split()[0]) for v in violations(RULE, raw)] == [
        ("spec.containers[a].resources", GPU),
        ("spec.containers[a].resources", "nvidia.com/mig-1g.10gb"),
        ("spec.containers[a].resources", "requests"),
        ("spec.containers[b].resources", GPU),
    ]


@pytest.mark.parametrize(
    ("amount", "limit"),
    [(4, "4"), ("4", "4"), ("4000m", "4000m"), ("1e0", "1e0"), (2.0, "2.0"), (" 2 ", "2")],
    ids=repr,
)
def test_repair_adds_the_same_number_to_limits_and_touches_nothing_else(amount, limit):
    raw = asking(amount)
    raw["spec"]["containers"][0]["resources"]["limits"] = {"memory": "1Gi"}
    after = mutated(RULE, raw, REPAIR)
    assert after["spec"]["containers"][0]["resources"] == {
        "requests": {GPU: amount},
        "limits": {"memory": "1Gi", GPU: limit},
    }
    assert {**after["spec"], "containers": None} == {**raw["spec"], "containers": None}
    assert messages(RULE, after, REPAIR) == []


@pytest.mark.parametrize("limits", [None, {}], ids=["null", "empty"])
def test_repair_makes_limits_where_there_are_none(limits):
    raw = asking(2)
    raw["spec"]["containers"][0]["resources"]["limits"] = limits
    assert mutated(RULE, raw, REPAIR)["spec"]["containers"][0]["resources"]["limits"] == {GPU: "2"}


@each(
    "raw",
    {
        "unequal": asking(4, 2),
        "limits null, which the user wrote": asking(4, None),
        "a fraction": asking("0.5"),
        "negative": asking(-1),
        "a placeholder": asking("$GPUS"),
        "zero, which asks for no GPU": asking(0),
    },
)
def test_what_cannot_be_repaired_is_refused_all_the_same(raw):
    assert is_left_alone(RULE, raw, REPAIR)
    assert len(violations(RULE, raw, REPAIR)) == 1


def test_deny_repairs_nothing_and_is_the_default():
    assert is_left_alone(RULE, asking(4))
    assert settings_of(RULE, {}).requests_only == "deny"


def test_repair_leaves_ephemeral_containers_alone():
    raw = pod(container(), ephemeralContainers=asking(2)["spec"]["containers"])
    assert is_left_alone(RULE, raw, REPAIR)


def test_requests_only_count_for_the_maximum_too():
    assert len(messages(RULE, asking(9), {"maxPerPod": 8, "maxPerContainer": 8})) == 3


@golden
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
def test_the_maximum_of_a_pod_is_of_what_the_scheduler_reserves(init, apps, most, asked):
    raw = pod(
        *(container(f"a{index}", gpus) for index, gpus in enumerate(apps)),
        initContainers=[container(f"i{index}", gpus, **parts) for index, (gpus, parts) in enumerate(init)],
    )
    assert messages(RULE, raw, {"maxPerPod": most}) == (
        [f"spec: requests {asked} GPUs; the policy allows at most {most} per pod. Request {most} or fewer."]
        if asked
        else []
    )


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
def test_a_maximum_counts_what_opens_all_gpus_of_a_node(resource, facts, number, may_be, most):
    found = list(
        RULE.validate(pod_from_raw(pod(container(gpus=1, resource=resource))), settings_of(RULE, {most: number}), facts)
    )
    opens = f"spec.containers[trainer].resources: requests {resource}, which gives access to all GPUs of a node; "
    ask = "Request single GPUs, or ask the platform team."
    refusal = f"they may be {may_be} GPUs, and the policy allows at most {number}. {ask}"
    warning = f"the maximum of {number} counts it as 1. Request single GPUs, unless the container monitors the node."
    assert [str(one) for one in found] == [opens + (refusal if may_be else warning)]
    assert isinstance(found[0], Violation) is bool(may_be)


def test_where_gpus_are_not_enabled_what_opens_a_node_is_no_more_than_that():
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


@pytest.mark.parametrize("values", [{"maxPerPod": -1}, {"maxPerContainer": -1}], ids=str)
def test_settings_without_sense_are_refused(values):
    with pytest.raises(ValidationError):
        settings_of(RULE, values)


def _in_requests(raw):
    return container_with(raw, "resources", {"requests": {GPU: "2"}})


SHARED, SLICE = "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"


def cluster(*nodes: Mapping[str, str], resource: str = GPU) -> ClusterFacts:
    """Nodes n0, n1 and so on with these labels; those with `tainted` have a taint."""
    return ClusterFacts.of(
        [
            {
                "metadata": {"name": f"n{at}", "labels": {"node": f"n{at}", **found}},
                "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}] if "tainted" in found else []},
                "status": {"capacity": {resource: "8"}},
            }
            for at, found in enumerate(nodes)
        ]
    )


def told(raw: Mapping[str, Any], facts: ClusterFacts, **values: Any) -> list[Violation | Advice]:
    settings = settings_of(RULE, {"countShares": True, **values})
    return list(RULE.validate(pod_from_raw(raw), settings, facts))


def counted(raw: Mapping[str, Any], facts: ClusterFacts) -> Fraction:
    read = pod_from_raw(raw)
    return gpus_of_pod(read, parts_of(read, facts, CATALOGUE))


@each(
    "nodes, resource, units, gpus",
    {
        "no node is known": ([], GPU, 2, "2"),
        "unlabelled": ([labels.UNLABELLED], GPU, 2, "2"),
        "whole GPUs": ([labels.WHOLE], GPU, 2, "2"),
        "time-slicing": ([labels.TIME_SLICED], GPU, 2, "1/2"),
        "time-slicing, renamed": ([labels.TIME_SLICED_RENAMED], SHARED, 2, "1/2"),
        "the plain name on renamed nodes": ([labels.TIME_SLICED_RENAMED], GPU, 2, "2"),
        "MPS": ([labels.MPS], GPU, 3, "3/2"),
        "MIG, single": ([labels.SINGLE], GPU, 15, "15/7"),
        "MIG, single, time-slicing": ([labels.SINGLE_TIME_SLICED], GPU, 7, "1/2"),
        "MIG, single, time-slicing, renamed": ([labels.SINGLE_RENAMED], SHARED, 7, "1/2"),
        "MIG, mixed": ([labels.MIXED], GPU, 2, "2"),
        "MIG, invalid": ([labels.INVALID], GPU, 2, "2"),
        "labels that contradict each other": ([labels.CONTRADICTING], GPU, 2, "2"),
        "GKE": ([labels.GKE_TIME_SHARING], GPU, 2, "1/4"),
        "the largest part of several": ([labels.TIME_SLICED, labels.MPS], GPU, 2, "1"),
        "shares beside whole GPUs": ([labels.TIME_SLICED, labels.WHOLE], GPU, 2, "2"),
        "tolerations may come later": ([labels.TIME_SLICED, {"tainted": ""}], GPU, 2, "2"),
        "MIG slices by name, of any model": ([], SLICE, 8, "2"),
        "shares of MIG slices by name": ([], f"{SLICE}.shared", 8, "2"),
        "partitions of AMD, of any model": ([], "amd.com/cpx_nps4", 6, "1"),
        "GPUs of AMD": ([], "amd.com/gpu", 8, "8"),
    },
)
def test_a_pod_counts_the_largest_part_that_its_units_may_be(
    nodes: list[Mapping[str, str]], resource: str, units: int, gpus: str
) -> None:
    raw = pod(container(gpus=units, resource=resource))
    assert counted(raw, cluster(*nodes, resource=resource)) == Fraction(gpus)


def test_a_model_that_the_pod_selects_makes_its_slices_smaller() -> None:
    selector = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert counted(pod(container(gpus=7, resource=SLICE), nodeSelector=selector), cluster()) == 1


def test_a_pod_that_is_bound_to_a_node_counts_by_that_node() -> None:
    facts = cluster(labels.TIME_SLICED, labels.WHOLE)
    assert counted(pod(container(gpus=4), nodeName="n0"), facts) == 1
    assert counted(pod(container(gpus=4), nodeName="n1"), facts) == 4


def test_a_node_pool_counts_by_its_labels() -> None:
    def pool(found: Mapping[str, str]) -> NodePool:
        return NodePool("p", tuple(sorted(found.items())), (), frozenset({GPU}), 4)

    raw = pod(container(gpus=4))
    assert counted(raw, ClusterFacts().with_pools((pool(labels.TIME_SLICED),))) == 1
    assert counted(raw, cluster(labels.TIME_SLICED).with_pools((pool({}),))) == 4


def test_maxima_compare_exact_fractions_and_say_them(says) -> None:
    facts = cluster(labels.SINGLE)
    assert told(pod(container(gpus=14)), facts, maxPerPod=2, maxPerContainer=2) == []
    of_container, of_pod = told(pod(container(gpus=15)), facts, maxPerPod=2, maxPerContainer=2)
    says([str(of_container)])
    assert str(of_pod) == (
        "spec: requests 2 1/7 GPUs (15 units); the policy allows at most 2 per pod. Request 14 units or fewer."
    )


def test_slices_count_as_one_each_without_the_setting_and_shares_as_their_part() -> None:
    raw = pod(container(gpus=9))
    (one,) = told(raw, cluster(labels.SINGLE), maxPerPod=2, countShares=False)
    assert "requests 9 GPUs; the policy allows at most 2 per pod. Request 2 or fewer." in str(one)
    (one,) = told(raw, cluster(labels.TIME_SLICED), maxPerPod=2, countShares=False)
    assert "requests 2 1/4 GPUs (9 shares); the policy allows at most 2 per pod. Request 8 shares or fewer." in str(one)
    assert told(pod(container(gpus=8)), cluster(labels.TIME_SLICED), maxPerPod=2, countShares=False) == []


def test_shares_whose_number_nobody_knows_are_called_shares() -> None:
    (one,) = told(pod(container(gpus=3, resource=SHARED)), cluster(), maxPerPod=2)
    assert "requests 3 shares of GPUs, each counted as a GPU; the policy allows at most 2 per pod" in str(one)


def test_a_namespace_without_gpus_has_no_part_of_one_either() -> None:
    facts = cluster(labels.TIME_SLICED)
    (of_pod,) = told(pod(container(gpus=1)), facts, maxPerPod=0)
    assert "requests 1/4 GPU (1 share); GPUs are not enabled" in str(of_pod)
    (of_container,) = told(pod(container(gpus=1)), facts, maxPerContainer=0)
    assert "requests 1/4 GPU (1 share); the policy allows none for a container. Remove it." in str(of_container)


@pytest.mark.parametrize(
    ("nodes", "follows"),
    [([labels.TIME_SLICED], True), ([labels.WHOLE], False), ([], False)],
    ids=["shares", "whole", "-"],
)
def test_what_nodes_decide_may_change_with_a_queue(nodes: list[Mapping[str, str]], follows: bool) -> None:
    raw, facts = pod(container(gpus=9)), cluster(*nodes)
    (one,) = told(raw, facts, maxPerPod=2)
    assert one.follows_nodes is follows


KINDS = st.sampled_from(
    [
        labels.UNLABELLED,
        labels.WHOLE,
        labels.TIME_SLICED,
        labels.TIME_SLICED_RENAMED,
        labels.MPS,
        labels.SINGLE,
        labels.SINGLE_TIME_SLICED,
        labels.MIXED,
        labels.INVALID,
        labels.CONTRADICTING,
        labels.GKE_TIME_SHARING,
        {"tainted": ""},
    ]
)


@given(nodes=st.lists(KINDS, min_size=1, max_size=5), units=st.integers(1, 16), resource=st.sampled_from([GPU, SHARED]))
def test_a_pod_never_counts_less_than_on_any_node_that_it_could_run_on(
    nodes: list[Mapping[str, str]], units: int, resource: str
) -> None:
    found = counted(pod(container(gpus=units, resource=resource)), cluster(*nodes, resource=resource))
    assert found >= max(units * share_of(one).part(resource) for one in nodes)


CASE = RuleCase(
    pods=lambda raw: RulePods(lacks=_in_requests(raw), breaks=_in_requests(raw), completing=REPAIR),
    values=any_of(
        requestsOnly=st.sampled_from(("deny", "repair", "repair")),
        maxPerContainer=st.integers(0, 8),
        maxPerPod=st.integers(0, 16),
        countShares=st.booleans(),
    ),
    enforced={"maxPerPod": 8},
    injecting=REPAIR,
    fuzzed={"requestsOnly": "deny", "maxPerContainer": 8, "maxPerPod": 12},
)
