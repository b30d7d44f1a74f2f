"""GPU pods tolerate the taints of GPU nodes."""

import pytest
from pydantic import ValidationError

from tests.rules.samples import container, is_left_alone, mutated, pod, settings_of
from webhook.model.accelerators import DEVICE_CLASSES
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
