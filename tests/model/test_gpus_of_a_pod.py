"""The GPUs that the scheduler reserves for a pod, against its own code read line by line."""

from tests.golden import each, golden
from tests.strategies import GPU_NAMES, LOOK_ALIKES
from webhook.model.accelerators import Vendor
from webhook.model.pod_reader import pod_from_raw


def container(count, *, resource="nvidia.com/gpu", sidecar=False):
    amount = {resource: count}
    raw = {"name": "c", "resources": {"limits": amount, "requests": amount}}
    return {**raw, "restartPolicy": "Always"} if sidecar else raw


def pod(init, apps):
    return pod_from_raw({"spec": {"initContainers": init, "containers": apps}})


@each(
    "init, apps, expected",
    {
        "one container": ([], [container(1)], 1),
        "containers add up": ([], [container(1), container(2)], 3),
        "an init container runs before and alone": ([container(2)], [container(1)], 2),
        "init containers run one after the other": ([container(2), container(3)], [container(1)], 3),
        "init 2, sidecar 1, app 1": ([container(2), container(1, sidecar=True)], [container(1)], 2),
        "sidecar 1, init 2, app 1": ([container(1, sidecar=True), container(2)], [container(1)], 3),
        "a sidecar alone": ([container(1, sidecar=True)], [container(0)], 1),
        "sidecars add up": ([container(1, sidecar=True)] * 2, [container(1)], 3),
        "zero is none": ([], [container(0)], 0),
        "null is none": ([], [container(None)], 0),
        "zero in quotes is none": ([], [container("0")], 0),
        "nonsense is none": ([], [container("$GPUS")], 0),
        "a negative number takes nothing away": ([], [container(-1), container(1)], 1),
        "a thousand milli is one": ([], [container("1000m")], 1),
        "a part of a GPU is one": ([], [container("0.5")], 1),
    },
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


@each(
    "resources, expected",
    {
        "limits only": ({"limits": {"nvidia.com/gpu": 2}}, 2),
        "requests only": ({"requests": {"nvidia.com/gpu": 2}}, 2),
        "requests null": ({"requests": None, "limits": {"nvidia.com/gpu": "2"}}, 2),
        "limits win": ({"requests": {"nvidia.com/gpu": 2}, "limits": {"nvidia.com/gpu": 0}}, 0),
        "look-alikes": ({"limits": dict.fromkeys(LOOK_ALIKES, 5)}, 0),
        "all names together": ({"limits": dict.fromkeys(GPU_NAMES, 1)}, len(GPU_NAMES)),
        "a claim carries no number": ({"claims": [{"name": "gpu"}]}, 0),
        "null": (None, 0),
    },
)
def test_gpus_are_read_from_limits_then_requests(resources, expected):
    assert pod([], [{"name": "c", "resources": resources}]).gpu_count == expected


@golden
def test_a_gpu_that_goes_to_a_virtual_machine_is_not_used_by_containers(resource, nvidia, passthrough):
    found = pod([], [container(1, resource=resource)])
    assert found.requests_gpus_of(Vendor.NVIDIA) is nvidia
    assert found.has_passthrough is passthrough
