"""GPU pods tolerate the taints of GPU nodes."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.lab.fuzz.oracles import places
from tests.rules.rule_case import RuleCase, RulePods, any_of
from tests.rules.samples import Cluster, container, is_left_alone, mutated, pod, settings_of
from tests.strategies import tolerations
from webhook.model.accelerators import DEVICE_CLASSES
from webhook.model.claims import CLAIM, TEMPLATE, Devices
from webhook.rules.tolerations import RULE

DEFAULT = {"operator": "Exists", "key": "nvidia.com/gpu", "effect": "NoSchedule"}
SPOT = {"key": "kubernetes.azure.com/scalesetpriority", "operator": "Equal", "value": "spot", "effect": "NoSchedule"}
SKU = {"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("resource", "taint"),
    [
        pytest.param("nvidia.com/gpu", "nvidia.com/gpu", id="a GPU of NVIDIA"),
        pytest.param("nvidia.com/gpu.shared", "nvidia.com/gpu", id="a share"),
        pytest.param("nvidia.com/mig-1g.10gb", "nvidia.com/gpu", id="a MIG slice"),
        pytest.param("nvidia.com/pgpu", "nvidia.com/gpu", id="a GPU for a virtual machine"),
        pytest.param(f"{DEVICE_CLASSES}gpu.nvidia.com", "nvidia.com/gpu", id="a device class of NVIDIA"),
        pytest.param("amd.com/gpu", "amd.com/gpu", id="a GPU of AMD"),
        pytest.param("amd.com/cpx_nps4", "amd.com/gpu", id="a partition of AMD"),
        pytest.param(f"{DEVICE_CLASSES}gpu.amd.com", "amd.com/gpu", id="a device class of AMD"),
        pytest.param("gpu.intel.com/i915", "gpu.intel.com/i915", id="a GPU of Intel"),
        pytest.param("gpu.intel.com/xe", "gpu.intel.com/xe", id="a GPU of Intel with the new driver"),
        pytest.param("gpu.intel.com/xe_monitoring", "gpu.intel.com/xe", id="all GPUs of Intel in a node"),
    ],
)
def test_by_default_a_pod_tolerates_the_taint_of_its_own_gpus_and_no_other(resource, taint):
    raw = pod(container(gpus=1, resource=resource))
    assert mutated(RULE, raw)["spec"]["tolerations"] == [{**DEFAULT, "key": taint}]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(pod(container()), id="no GPU"),
        pytest.param(pod(container(gpus=0)), id="zero GPUs"),
        pytest.param(pod(container(gpus=None, resources={"limits": {"nvidia.com/gpu": None}})), id="null GPUs"),
        pytest.param(pod(container(gpus=1, resource="nvidia.com/rdma-vf")), id="an NVIDIA network card"),
        pytest.param(pod(container(gpus=1000, resource="nvidia.com/gpumem")), id="an attribute of a share"),
    ],
)
def test_a_pod_without_gpus_gets_none_by_default(raw):
    assert is_left_alone(RULE, raw)


def test_a_gpu_in_an_init_container_or_a_sidecar_counts():
    init = container("warm", gpus=1)
    assert mutated(RULE, pod(container(), initContainers=[init]))["spec"]["tolerations"] == [DEFAULT]
    sidecar = {**init, "restartPolicy": "Always"}
    assert mutated(RULE, pod(container(), initContainers=[sidecar]))["spec"]["tolerations"] == [DEFAULT]


@pytest.mark.parametrize(
    "existing",
    [
        pytest.param({"operator": "Exists"}, id="everything"),
        pytest.param({"operator": "Exists", "key": "nvidia.com/gpu"}, id="every effect"),
        pytest.param({"operator": "Exists", "effect": "NoSchedule"}, id="every key"),
        pytest.param(DEFAULT, id="the same"),
    ],
)
def test_a_toleration_that_covers_it_is_enough(existing):
    assert is_left_alone(RULE, pod(container(gpus=1), tolerations=[existing]))


@pytest.mark.parametrize(
    "existing",
    [
        pytest.param({"key": "nvidia.com/gpu", "operator": "Equal", "value": "present"}, id="one value"),
        pytest.param({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, id="another effect"),
        pytest.param({"key": "sku", "operator": "Exists"}, id="another key"),
    ],
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


@pytest.mark.parametrize(
    ("glob", "resource", "concerned"),
    [
        ("nvidia.com/*", "nvidia.com/mig-1g.10gb", True),
        ("nvidia.com/mig-*", "nvidia.com/gpu", False),
        ("nvidia.com/gpu", "nvidia.com/gpu.shared", False),
        ("*", "amd.com/gpu", True),
        ("nvidia.com/*", "amd.com/gpu", False),
    ],
)
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


@pytest.mark.parametrize(
    ("requests", "keys"),
    [
        pytest.param([[NVIDIA]], ["nvidia.com/gpu"], id="a GPU of NVIDIA"),
        pytest.param([[MIG]], ["nvidia.com/gpu"], id="a MIG slice"),
        pytest.param([[Devices("vfio.gpu.nvidia.com")]], ["nvidia.com/gpu"], id="for a virtual machine"),
        pytest.param([[AMD]], ["amd.com/gpu"], id="a GPU of AMD"),
        pytest.param([[Devices("gpu.intel.com")]], INTEL, id="a GPU of Intel, of whatever driver"),
        pytest.param([[Devices("h100")]], ["nvidia.com/gpu"], id="a class with an extendedResourceName"),
        pytest.param([[Devices("gpu.nvidia.com", None)]], ["nvidia.com/gpu"], id="all of a node"),
        pytest.param([[NVIDIA], [AMD]], ["nvidia.com/gpu", "amd.com/gpu"], id="two requests"),
        pytest.param([[NVIDIA, MIG]], ["nvidia.com/gpu"], id="alternatives of one vendor"),
        pytest.param([[NVIDIA, Devices("h100")]], ["nvidia.com/gpu"], id="alternatives of which one is known by name"),
        pytest.param([[NVIDIA, AMD]], [], id="alternatives of two vendors"),
        pytest.param([[NVIDIA, Devices("nic")]], [], id="an alternative that is no GPU"),
        pytest.param([[NVIDIA, Devices("secret")]], [], id="an alternative that nobody knows"),
        pytest.param([[NVIDIA, AMD], [AMD]], ["amd.com/gpu"], id="what is certain of two requests"),
        pytest.param([[Devices("gpu.nvidia.com", 1, is_administrative=True)]], [], id="administrative access"),
        pytest.param([[Devices("gpu.nvidia.com", 1, is_administrative=True)], [AMD]], ["amd.com/gpu"], id="and a GPU"),
        pytest.param([[Devices("nic")]], [], id="a network card"),
        pytest.param([[Devices("mrdma.google.com")]], [], id="another device that is known"),
        pytest.param([[Devices("compute-domain-default-channel.nvidia.com")]], [], id="a channel of NVIDIA"),
        pytest.param([()], [], id="what cannot be read"),
    ],
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


@pytest.mark.parametrize(
    ("resources", "requests", "is_added"),
    [
        pytest.param([], [[NVIDIA]], True, id="for every GPU"),
        pytest.param([], [[NVIDIA, AMD]], True, id="for every GPU, whichever it is"),
        pytest.param([], [[NVIDIA, Devices("nic")]], False, id="for every GPU, and perhaps it is none"),
        pytest.param(["nvidia.com/gpu"], [[MIG]], True, id="by the name of the vendor's GPUs"),
        pytest.param(["nvidia.com/*"], [[Devices("h100")]], True, id="by a glob of them"),
        pytest.param([f"{DEVICE_CLASSES}mig.*"], [[MIG]], True, id="by the class"),
        pytest.param([f"{DEVICE_CLASSES}mig.*"], [[NVIDIA]], False, id="by another class"),
        pytest.param(["nvidia.com/mig-*"], [[MIG]], False, id="by a profile that no claim says"),
        pytest.param(["nvidia.com/*", "amd.com/*"], [[NVIDIA, AMD]], True, id="of both alternatives"),
    ],
)
def test_an_entry_is_for_the_resources_that_it_names(resources, requests, is_added):
    entry = {"key": "pool", "operator": "Exists", "resources": resources}
    assert added(claiming("t"), knowing(t=requests), add=[entry]) == (["pool"] if is_added else [])


def test_what_a_pod_gets_by_number_and_by_claim_is_added_up():
    assert added(claiming("t", gpus=1), knowing(t=[[AMD]])) == ["nvidia.com/gpu", "amd.com/gpu"]
    assert added(claiming("t", gpus=1), knowing(t=[[NVIDIA]])) == ["nvidia.com/gpu"]
    covered = claiming("t", tolerations=[{"operator": "Exists"}])
    assert is_left_alone(RULE, covered, facts=knowing(t=[[NVIDIA]]))


@pytest.mark.parametrize("claims", [None, [], {}, "gpu", [None], [{"name": 7}], [{"resourceClaimName": []}]])
def test_claims_that_make_no_sense_bring_nothing(claims):
    assert added(pod(container(), resourceClaims=claims), knowing(t=[[NVIDIA]])) == []


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
    oracle=places.tolerations,
    completes_every_gpu_pod=True,
)
