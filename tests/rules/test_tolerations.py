"""GPU pods tolerate the taints of GPU nodes."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.golden import each, golden
from tests.rules.rule_case import RuleCase, RulePods, any_of
from tests.rules.samples import Cluster, container, is_left_alone, mutated, pod, settings_of
from tests.strategies import tolerations
from webhook.model.accelerators import DEVICE_CLASSES
from webhook.model.claims import CLAIM, TEMPLATE, Devices
from webhook.rules.tolerations import RULE

DEFAULT = {"operator": "Exists", "key": "nvidia.com/gpu", "effect": "NoSchedule"}
SPOT = {"key": "kubernetes.azure.com/scalesetpriority", "operator": "Equal", "value": "spot", "effect": "NoSchedule"}
SKU = {"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}


@each(
    "resource, taint",
    {
        "a GPU of NVIDIA": ("nvidia.com/gpu", "nvidia.com/gpu"),
        "a share": ("nvidia.com/gpu.shared", "nvidia.com/gpu"),
        "a MIG slice": ("nvidia.com/mig-1g.10gb", "nvidia.com/gpu"),
        "a GPU for a virtual machine": ("nvidia.com/pgpu", "nvidia.com/gpu"),
        "a device class of NVIDIA": (f"{DEVICE_CLASSES}gpu.nvidia.com", "nvidia.com/gpu"),
        "a GPU of AMD": ("amd.com/gpu", "amd.com/gpu"),
        "a partition of AMD": ("amd.com/cpx_nps4", "amd.com/gpu"),
        "a device class of AMD": (f"{DEVICE_CLASSES}gpu.amd.com", "amd.com/gpu"),
        "a GPU of Intel": ("gpu.intel.com/i915", "gpu.intel.com/i915"),
        "a GPU of Intel with the new driver": ("gpu.intel.com/xe", "gpu.intel.com/xe"),
        "all GPUs of Intel in a node": ("gpu.intel.com/xe_monitoring", "gpu.intel.com/xe"),
    },
)
def test_by_default_a_pod_tolerates_the_taint_of_its_own_gpus_and_no_other(resource, taint):
    raw = pod(container(gpus=1, resource=resource))
    assert mutated(RULE, raw)["spec"]["tolerations"] == [{**DEFAULT, "key": taint}]


@each(
    "raw",
    {
        "no GPU": pod(container()),
        "zero GPUs": pod(container(gpus=0)),
        "null GPUs": pod(container(gpus=None, resources={"limits": {"nvidia.com/gpu": None}})),
        "an NVIDIA network card": pod(container(gpus=1, resource="nvidia.com/rdma-vf")),
        "an attribute of a share": pod(container(gpus=1000, resource="nvidia.com/gpumem")),
    },
)
def test_a_pod_without_gpus_gets_none_by_default(raw):
    assert is_left_alone(RULE, raw)


def test_a_gpu_in_an_init_container_or_a_sidecar_counts():
    init = container("warm", gpus=1)
    assert mutated(RULE, pod(container(), initContainers=[init]))["spec"]["tolerations"] == [DEFAULT]
    sidecar = {**init, "restartPolicy": "Always"}
    assert mutated(RULE, pod(container(), initContainers=[sidecar]))["spec"]["tolerations"] == [DEFAULT]


@each(
    "existing",
    {
        "everything": {"operator": "Exists"},
        "every effect": {"operator": "Exists", "key": "nvidia.com/gpu"},
        "every key": {"operator": "Exists", "effect": "NoSchedule"},
        "the same": DEFAULT,
    },
)
def test_a_toleration_that_covers_it_is_enough(existing):
    assert is_left_alone(RULE, pod(container(gpus=1), tolerations=[existing]))


@each(
    "existing",
    {
        "one value": {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present"},
        "another effect": {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"},
        "another key": {"key": "sku", "operator": "Exists"},
    },
)
def test_a_toleration_that_covers_less_is_kept_and_ours_added_after_it(existing):
    raw = pod(container(gpus=1), tolerations=[existing])
    assert mutated(RULE, raw)["spec"]["tolerations"] == [existing, DEFAULT]


def test_other_pools_are_one_entry_away():
    added = mutated(RULE, pod(container(gpus=1)), {"add": [DEFAULT, SPOT, SKU]})["spec"]["tolerations"]
    assert added == [DEFAULT, SPOT, SKU]


def test_an_entry_without_resources_is_for_every_gpu():
    assert mutated(RULE, pod(container(gpus=1, resource="amd.com/gpu")), {"add": [SKU]})["spec"]["tolerations"] == [SKU]
    assert is_left_alone(RULE, pod(container()), {"add": [SKU]})


@golden
def test_resources_limit_an_entry_to_pods_that_ask_for_them(glob, resource, concerned):
    raw = pod(container(gpus=1, resource=resource))
    assert is_left_alone(RULE, raw, {"add": [{**SKU, "resources": [glob]}]}) is not concerned


def test_entries_that_cover_each_other_are_added_once():
    wide = {"operator": "Exists"}
    assert mutated(RULE, pod(container(gpus=1)), {"add": [wide, DEFAULT, wide]})["spec"]["tolerations"] == [wide]


def test_seconds_are_written_for_an_effect_that_has_them():
    entry = {"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
    assert mutated(RULE, pod(container(gpus=1)), {"add": [entry]})["spec"]["tolerations"] == [entry]


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ({"operator": "Exists", "value": "x"}, "operator Exists takes no value; remove the value"),
        ({"value": "x"}, "a toleration without key needs operator: Exists"),
        ({"key": "a", "tolerationSeconds": 5}, "tolerationSeconds needs effect: NoExecute"),
        ({"key": "a b"}, '"a b" is not a taint key; write one such as nvidia.com/gpu'),
        ({"key": "/a"}, '"/a" is not a taint key'),
        ({"key": "a/b/c"}, '"a/b/c" is not a taint key'),
        ({"key": "x" * 64}, f'"{"x" * 57}..." is not a taint key'),
        ({"key": "a", "value": "b c"}, '"b c" is not a label value'),
        ({"key": "a", "operator": "Gt", "value": "5"}, "Input should be 'Exists' or 'Equal'"),
        ({"key": "a", "effect": "noschedule"}, "Input should be"),
        ({"key": "a", "resources": [""]}, "at least 1 character"),
        ({"key": "a", "taint": "b"}, "Extra inputs are not permitted"),
    ],
    ids=str,
)
def test_an_entry_that_the_api_server_would_refuse_is_refused_in_the_policy(entry, fault):
    with pytest.raises(ValidationError, match=None) as refused:
        settings_of(RULE, {"add": [entry]})
    assert fault in str(refused.value)


@pytest.mark.parametrize("seconds", [-1, 10**9 + 1, 2**63, 99999999999999999999])
def test_seconds_that_no_pod_can_carry_are_a_policy_error(seconds):
    """What does not fit into 64 bits would pass until the first GPU pod comes."""
    with pytest.raises(ValidationError, match="tolerationSeconds"):
        settings_of(RULE, {"add": [{"key": "a", "effect": "NoExecute", "tolerationSeconds": seconds}]})


# GPUs by claim


def claiming(*templates: str, gpus: int | None = None, **spec: Any) -> dict[str, Any]:
    """A pod whose claims are made from these templates."""
    claims = [{"name": f"c{index}", "resourceClaimTemplateName": name} for index, name in enumerate(templates)]
    return pod(container(gpus=gpus), resourceClaims=claims, **spec)


def knowing(**templates: Sequence[Sequence[Devices]]) -> Cluster:
    """A cluster with templates of these requests, each with its alternatives."""
    claims = {(TEMPLATE, name): tuple(map(tuple, requests)) for name, requests in templates.items()}
    return Cluster(claims=claims, classes={"h100": "nvidia.com/gpu", "nic": "rdma/hca", "odd": "amd.com/gpu"})


def added(raw: dict[str, Any], facts: Cluster, **settings: Any) -> list[str]:
    found = mutated(RULE, raw, settings, facts)["spec"].get("tolerations", [])
    return [one["key"] for one in found]


NVIDIA, MIG, AMD = Devices("gpu.nvidia.com"), Devices("mig.nvidia.com"), Devices("gpu.amd.com")
INTEL = ["gpu.intel.com/i915", "gpu.intel.com/xe"]


@each(
    "requests, keys",
    {
        "a GPU of NVIDIA": ([[NVIDIA]], ["nvidia.com/gpu"]),
        "a MIG slice": ([[MIG]], ["nvidia.com/gpu"]),
        "for a virtual machine": ([[Devices("vfio.gpu.nvidia.com")]], ["nvidia.com/gpu"]),
        "a GPU of AMD": ([[AMD]], ["amd.com/gpu"]),
        "a GPU of Intel, of whatever driver": ([[Devices("gpu.intel.com")]], INTEL),
        "a class with an extendedResourceName": ([[Devices("h100")]], ["nvidia.com/gpu"]),
        "all of a node": ([[Devices("gpu.nvidia.com", None)]], ["nvidia.com/gpu"]),
        "two requests": ([[NVIDIA], [AMD]], ["nvidia.com/gpu", "amd.com/gpu"]),
        "alternatives of one vendor": ([[NVIDIA, MIG]], ["nvidia.com/gpu"]),
        "alternatives of which one is known by name": ([[NVIDIA, Devices("h100")]], ["nvidia.com/gpu"]),
        "alternatives of two vendors": ([[NVIDIA, AMD]], []),
        "an alternative that is no GPU": ([[NVIDIA, Devices("nic")]], []),
        "an alternative that nobody knows": ([[NVIDIA, Devices("secret")]], []),
        "what is certain of two requests": ([[NVIDIA, AMD], [AMD]], ["amd.com/gpu"]),
        "administrative access": ([[Devices("gpu.nvidia.com", 1, is_administrative=True)]], []),
        "and a GPU": ([[Devices("gpu.nvidia.com", 1, is_administrative=True)], [AMD]], ["amd.com/gpu"]),
        "a network card": ([[Devices("nic")]], []),
        "another device that is known": ([[Devices("mrdma.google.com")]], []),
        "a channel of NVIDIA": ([[Devices("compute-domain-default-channel.nvidia.com")]], []),
        "what cannot be read": ([()], []),
    },
)
def test_gpus_by_claim_bring_the_tolerations_that_are_certain(requests, keys):
    facts = knowing(t=requests)
    assert added(claiming("t"), facts) == keys
    assert added(claiming("t", "t", "unknown"), facts) == keys


def test_a_claim_by_name_counts_as_one_by_template():
    facts = Cluster(claims={(CLAIM, "shared"): ((NVIDIA,),), (TEMPLATE, "t"): ((AMD,),)})
    by_name = pod(container(), resourceClaims=[{"name": "c", "resourceClaimName": "shared"}])
    assert added(by_name, facts) == ["nvidia.com/gpu"]
    assert added(pod(container(), resourceClaims=[{"name": "c", "resourceClaimName": "t"}]), facts) == []


@each(
    "resources, requests, is_added",
    {
        "for every GPU": ([], [[NVIDIA]], True),
        "for every GPU, whichever it is": ([], [[NVIDIA, AMD]], True),
        "for every GPU, and perhaps it is none": ([], [[NVIDIA, Devices("nic")]], False),
        "by the name of the vendor's GPUs": (["nvidia.com/gpu"], [[MIG]], True),
        "by a glob of them": (["nvidia.com/*"], [[Devices("h100")]], True),
        "by the class": ([f"{DEVICE_CLASSES}mig.*"], [[MIG]], True),
        "by another class": ([f"{DEVICE_CLASSES}mig.*"], [[NVIDIA]], False),
        "by a profile that no claim says": (["nvidia.com/mig-*"], [[MIG]], False),
        "of both alternatives": (["nvidia.com/*", "amd.com/*"], [[NVIDIA, AMD]], True),
    },
)
def test_an_entry_is_for_the_resources_that_it_names(resources, requests, is_added):
    entry = {"key": "pool", "operator": "Exists", "resources": resources}
    assert added(claiming("t"), knowing(t=requests), add=[entry]) == (["pool"] if is_added else [])


def test_what_a_pod_gets_by_number_and_by_claim_is_added_up():
    assert added(claiming("t", gpus=1), knowing(t=[[AMD]])) == ["nvidia.com/gpu", "amd.com/gpu"]
    assert added(claiming("t", gpus=1), knowing(t=[[NVIDIA]])) == ["nvidia.com/gpu"]
    covered = claiming("t", tolerations=[{"operator": "Exists"}])
    assert is_left_alone(RULE, covered, facts=knowing(t=[[NVIDIA]]))


_GLOBS = st.lists(st.sampled_from(("nvidia.com/*", "amd.com/gpu", "*")), max_size=2)

CASE = RuleCase(
    pods=RulePods,
    values=any_of(
        add=st.lists(
            st.builds(lambda one, resources: {**one, "resources": resources}, tolerations(), _GLOBS), max_size=3
        )
    ),
    enforced={},
    injecting={},
    fuzzed={
        "add": [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule", "resources": ["nvidia.com/*"]},
            {"key": "team", "operator": "Equal", "value": "ml", "resources": []},
        ]
    },
    completes_every_gpu_pod=True,
)
