"""The GPUs that the scheduler reserves for a pod, against its own code read line by line."""

import pytest

from tests.golden import golden
from tests.strategies import GPU_NAMES, LOOK_ALIKES
from webhook.model.accelerators import Vendor
from webhook.model.pod_reader import pod_from_raw


def container(count, *, resource="nvidia.com/gpu", sidecar=False):
    amount = {resource: count}
    raw = {"name": "c", "resources": {"limits": amount, "requests": amount}}
    return {**raw, "restartPolicy": "Always"} if sidecar else raw


def pod(init, apps):
    return pod_from_raw({"spec": {"initContainers": init, "containers": apps}})


@pytest.mark.parametrize(
    ("init", "apps", "expected"),
    [
        pytest.param([], [container(1)], 1, id="one container"),
        pytest.param([], [container(1), container(2)], 3, id="containers add up"),
        pytest.param([container(2)], [container(1)], 2, id="an init container runs before and alone"),
        pytest.param([container(2), container(3)], [container(1)], 3, id="init containers run one after the other"),
        pytest.param([container(2), container(1, sidecar=True)], [container(1)], 2, id="init 2, sidecar 1, app 1"),
        pytest.param([container(1, sidecar=True), container(2)], [container(1)], 3, id="sidecar 1, init 2, app 1"),
        pytest.param([container(1, sidecar=True)], [container(0)], 1, id="a sidecar alone"),
        pytest.param([container(1, sidecar=True)] * 2, [container(1)], 3, id="sidecars add up"),
        pytest.param([], [container(0)], 0, id="zero is none"),
        pytest.param([], [container(None)], 0, id="null is none"),
        pytest.param([], [container("0")], 0, id="zero in quotes is none"),
        pytest.param([], [container("$GPUS")], 0, id="nonsense is none"),
        pytest.param([], [container(-1), container(1)], 1, id="a negative number takes nothing away"),
        pytest.param([], [container("1000m")], 1, id="a thousand milli is one"),
        pytest.param([], [container("0.5")], 1, id="a part of a GPU is one"),
    ],
)
def test_the_scheduler_reserves_the_peak_of_what_runs_together(init, apps, expected):
    found = pod(init, apps)
    assert found.gpu_count == expected
    assert dict(found.gpus) == ({"nvidia.com/gpu": expected} if expected else {})


def test_each_resource_has_its_own_peak():
    init = [container(3, resource="nvidia.com/mig-1g.10gb")]
    apps = [container(2), container(1, resource="nvidia.com/mig-1g.10gb")]
    assert dict(pod(init, apps).gpus) == {"nvidia.com/mig-1g.10gb": 3, "nvidia.com/gpu": 2}
    assert pod(init, apps).gpu_count == 5


def test_only_init_containers_can_be_sidecars():
    assert pod([], [container(1, sidecar=True), container(2)]).gpu_count == 3


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({"limits": {"nvidia.com/gpu": 2}}, 2, id="limits only"),
        pytest.param({"requests": {"nvidia.com/gpu": 2}}, 2, id="requests only"),
        pytest.param({"requests": None, "limits": {"nvidia.com/gpu": "2"}}, 2, id="requests null"),
        pytest.param({"requests": {"nvidia.com/gpu": 2}, "limits": {"nvidia.com/gpu": 0}}, 0, id="limits win"),
        pytest.param({"limits": dict.fromkeys(LOOK_ALIKES, 5)}, 0, id="look-alikes"),
        pytest.param({"limits": dict.fromkeys(GPU_NAMES, 1)}, len(GPU_NAMES), id="all names together"),
        pytest.param({"claims": [{"name": "gpu"}]}, 0, id="a claim carries no number"),
        pytest.param(None, 0, id="null"),
    ],
)
def test_gpus_are_read_from_limits_then_requests(resources, expected):
    assert pod([], [{"name": "c", "resources": resources}]).gpu_count == expected


@golden
def test_a_gpu_that_goes_to_a_virtual_machine_is_not_used_by_containers(resource, nvidia, passthrough):
    found = pod([], [container(1, resource=resource)])
    assert found.requests_gpus_of(Vendor.NVIDIA) is nvidia
    assert found.has_passthrough is passthrough
