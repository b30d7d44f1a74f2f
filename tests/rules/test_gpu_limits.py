"""GPUs are asked for in whole numbers, in limits, and not more of them than the namespace allows."""

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.rules.rule_case import RuleCase, RulePods, any_of, container_with
from tests.rules.samples import container, each, is_left_alone, messages, mutated, pod, settings_of, violations
from webhook.rules.gpu_limits import RULE

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


@each(
    "raw, message",
    {
        "requests only": (
            asking(4),
            "nvidia.com/gpu is 4 in requests but missing in limits; GPUs are allocated from limits. "
            "Move the 4 to resources.limits.",
        ),
        "slices in requests only": (
            asking("2", resource="nvidia.com/mig-1g.10gb"),
            "nvidia.com/mig-1g.10gb is 2 in requests but missing in limits; GPUs are allocated from limits. "
            "Move the 2 to resources.limits.",
        ),
        "zero in requests only": (
            asking(0),
            "nvidia.com/gpu is 0 in requests but missing in limits; Kubernetes refuses that, even for 0. "
            "Remove nvidia.com/gpu from requests.",
        ),
        "null in requests only": (
            asking(None),
            "nvidia.com/gpu is null in requests but missing in limits; Kubernetes refuses that, even for 0. "
            "Remove nvidia.com/gpu from requests.",
        ),
        "unequal": (
            asking(4, "2"),
            "nvidia.com/gpu is 4 in requests and 2 in limits; GPUs cannot be overcommitted, so both must be equal. "
            "Write the same number in both, or in resources.limits only.",
        ),
        "limits zero": (
            asking(2, 0),
            "nvidia.com/gpu is 2 in requests and 0 in limits; GPUs cannot be overcommitted, so both must be equal. "
            "Write the same number in both, or in resources.limits only.",
        ),
        "limits null": (
            asking(2, None),
            "nvidia.com/gpu is 2 in requests and null in limits; GPUs cannot be overcommitted, so both must be equal. "
            "Write the same number in both, or in resources.limits only.",
        ),
        "requests zero": (
            asking(0, 2),
            "nvidia.com/gpu is 0 in requests and 2 in limits; GPUs cannot be overcommitted, so both must be equal. "
            "Write the same number in both, or in resources.limits only.",
        ),
        "half a GPU in milli": (
            asking("500m", "500m"),
            "nvidia.com/gpu is 500m in requests, a fraction of a GPU; GPUs are allocated whole. "
            "Write a whole number such as 1, or request a shared GPU or a MIG slice instead of nvidia.com/gpu.",
        ),
        "half a GPU in limits": (
            asking(limits=0.5),
            "nvidia.com/gpu is 0.5 in limits, a fraction of a GPU; GPUs are allocated whole. "
            "Write a whole number such as 1, or request a shared GPU or a MIG slice instead of nvidia.com/gpu.",
        ),
        "a fraction in limits beside a whole request": (
            asking(1, "1n"),
            "nvidia.com/gpu is 1n in limits, a fraction of a GPU; GPUs are allocated whole. "
            "Write a whole number such as 1, or request a shared GPU or a MIG slice instead of nvidia.com/gpu.",
        ),
        "negative": (
            asking(-1, -1),
            "nvidia.com/gpu is -1 in requests, a negative number; GPUs are counted in whole numbers from 0. "
            "Write a whole number such as 1.",
        ),
        "a negative fraction": (
            asking(limits="-500m"),
            "nvidia.com/gpu is -500m in limits, a negative number; GPUs are counted in whole numbers from 0. "
            "Write a whole number such as 1.",
        ),
        "a placeholder": (
            asking(limits="$GPU_PER_NODE"),
            'nvidia.com/gpu in limits: "$GPU_PER_NODE" is not a quantity; it is a placeholder of a template. '
            "Fill in the template first.",
        ),
        "a placeholder in both": (
            asking("${GPUS}", "${GPUS}"),
            'nvidia.com/gpu in requests: "${GPUS}" is not a quantity; it is a placeholder of a template. '
            "Fill in the template first.",
        ),
        "a slip that is no placeholder": (
            asking(limits="8$"),
            'nvidia.com/gpu in limits: "8$" is not a quantity; GPUs are counted in whole numbers. '
            "Write a whole number such as 1.",
        ),
        "a template in requests": (
            asking("{{ gpus }}", 1),
            'nvidia.com/gpu in requests: "{{ gpus }}" is not a quantity; it is a placeholder of a template. '
            "Fill in the template first.",
        ),
        "a boolean": (
            asking(True, True),
            "nvidia.com/gpu in requests: true is not a quantity; GPUs are counted in whole numbers. "
            "Write a whole number such as 1.",
        ),
        "a map": (
            asking(limits={"count": 1}),
            "nvidia.com/gpu in limits: a map is not a quantity; GPUs are counted in whole numbers. "
            "Write a whole number such as 1.",
        ),
    },
)
def test_what_the_api_server_refuses_is_explained_with_place_finding_and_remedy(raw, message):
    (violation,) = violations(RULE, raw)
    assert str(violation) == f"spec.containers[trainer].resources: {message}"
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


def test_A32_requests_only_count_for_the_maximum_too():
    assert len(messages(RULE, asking(9), {"maxPerPod": 8, "maxPerContainer": 8})) == 3


@pytest.mark.parametrize("values", [{"maxPerPod": -1}, {"maxPerContainer": -1}], ids=str)
def test_settings_without_sense_are_refused(values):
    with pytest.raises(ValidationError):
        settings_of(RULE, values)


def _in_requests(raw):
    return container_with(raw, "resources", {"requests": {GPU: "2"}})


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
