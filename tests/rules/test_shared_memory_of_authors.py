"""sharedMemory tells what is wrong with volumes that authors mount at /dev/shm themselves."""

import time

import pytest

from tests.gpus import discovered_labels as labels
from tests.rules.memory_volumes import nodes, trainer
from tests.rules.samples import NOTHING_KNOWN, container, each, mutated, pod, settings_of
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.shared_memory import RULE


def own(*containers, size=None, **spec):
    """A pod whose containers mount a memory volume of their own at /dev/shm, of this size."""
    limited = {} if size is None else {"sizeLimit": size}
    mounting = [{**one, "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}]} for one in containers]
    return pod(*mounting, volumes=[{"name": "dshm", "emptyDir": {"medium": "Memory", **limited}}], **spec)


def told(raw, values=None, facts=NOTHING_KNOWN):
    found = list(RULE.validate(pod_from_raw(raw), settings_of(RULE, values or {}), facts))
    return [str(one) for one in found]


def test_a_volume_larger_than_the_memory_limit_is_told(says):
    says(told(own(trainer(memory="32Gi"), size="64Gi")))


def test_a_volume_that_nothing_limits_is_told(says):
    says(told(own(trainer())))


@each(
    "raw, limit",
    {
        "exactly the limit": (own(trainer(memory="64Gi"), size="64Gi"), None),
        "just above it": (own(trainer(memory="64Gi"), size="65Gi"), "64Gi"),
        "the limit of the pod is its size": (own(trainer(memory="64Gi")), None),
        "a size alone limits it": (own(trainer(), size="64Gi"), None),
        "a limit of the pod": (own(trainer(), resources={"limits": {"memory": "64Gi"}}), None),
        "above that of the pod": (own(trainer(), resources={"limits": {"memory": "32Gi"}}, size="64Gi"), "32Gi"),
        "the smaller of both": (
            own(trainer(memory="96Gi"), resources={"limits": {"memory": "32Gi"}}, size="64Gi"),
            "32Gi",
        ),
        "two fill it": (own(trainer("a", memory="40Gi"), trainer("b", memory="40Gi"), size="64Gi"), None),
        "not even two do": (own(trainer("a", memory="30Gi"), trainer("b", memory="30Gi"), size="64Gi"), "60Gi"),
        "one of them has no limit": (own(trainer("a", memory="8Gi"), trainer("b"), size="64Gi"), None),
        "no GPUs": (own(container("a", gpus=None), size="64Gi"), None),
        "a limit of 0 is none": (own(trainer(memory="0"), size="64Gi"), None),
    },
)
def test_a_volume_is_compared_with_what_all_who_mount_it_may_use(raw, limit):
    assert [f"memory limit of {limit};" in one for one in told(raw)] == ([] if limit is None else [True])


@pytest.mark.parametrize(("size", "is_told"), [("0", True), (None, True), ("{{size}}", False)], ids=str)
def test_a_size_of_nothing_is_no_size_and_one_that_is_filled_in_may_be_any(size, is_told):
    raw = own(trainer())
    raw["spec"]["volumes"][0]["emptyDir"]["sizeLimit"] = size
    assert bool(told(raw)) is is_told


@pytest.mark.parametrize("size", [None, "64Gi"])
@pytest.mark.parametrize("of_pod", [False, True], ids=["of the container", "of the pod"])
def test_nothing_is_told_where_the_memory_limit_is_filled_in(of_pod, size):
    filled_in = {"limits": {"memory": "{{memory}}"}}
    raw = own(trainer(), resources=filled_in, size=size) if of_pod else own(trainer(memory="{{memory}}"), size=size)
    assert told(raw) == []


@each(
    "volume, path, is_told",
    {
        "the node's disk": ({"emptyDir": {"sizeLimit": "64Gi"}}, "/dev/shm", True),
        "a claim": ({"persistentVolumeClaim": {"claimName": "a"}}, "/dev/shm", True),
        "an ephemeral claim": ({"ephemeral": {}}, "/dev/shm", True),
        "a folder of the node": ({"hostPath": {"path": "/data"}}, "/dev/shm/", True),
        "a folder with a similar name": ({"hostPath": {"path": "/devices"}}, "/dev/shm", True),
        "memory of the node": ({"hostPath": {"path": "/dev/shm"}}, "/dev/shm", False),
        "memory of the node in another place": ({"hostPath": {"path": "/run/shm"}}, "/dev/shm", False),
        "huge pages": ({"emptyDir": {"medium": "HugePages"}}, "/dev/shm", False),
        "huge pages of a size": ({"emptyDir": {"medium": "HugePages-2Mi"}}, "/dev/shm", False),
        "mounted elsewhere": ({"emptyDir": {}}, "/cache", False),
        "memory elsewhere": ({"emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}}, "/cache", False),
    },
)
def test_a_volume_on_disk_is_told(volume, path, is_told):
    raw = own(trainer(memory="1Gi"))
    raw["spec"]["volumes"] = [{"name": "dshm", **volume}]
    raw["spec"]["containers"][0]["volumeMounts"][0]["mountPath"] = path
    message = (
        "spec.volumes[dshm]: is mounted at /dev/shm and is on disk, which slows down all that processes share there. "
        "Mount an emptyDir with medium: Memory."
    )
    assert told(raw) == ([message] if is_told else [])


@pytest.mark.parametrize(
    ("gpus", "size", "said"),
    [
        (2, "64Mi", "64Mi"),
        (8, "1000000", "1000000 bytes"),
        (2, 67108864, "64Mi"),
        (2, "1Gi", ""),
        (2, "1G", "1000000000 bytes"),
        (1, "64Mi", ""),
    ],
)
def test_a_volume_that_is_small_for_several_gpus_is_told_with_its_unit(gpus, size, said):
    found = told(own(trainer(gpus=gpus, memory="64Gi"), size=size))
    assert [one.partition(",")[0] for one in found] == (
        [f"spec.volumes[dshm].emptyDir: sizeLimit is {said}"] if said else []
    )


def test_a_volume_that_hides_the_shared_memory_of_mps_is_told_and_nothing_else(says):
    says(told(own(trainer(gpus=1), size="64Mi"), facts=nodes(labels.MPS)))


def test_a_volume_that_some_nodes_cannot_use_is_told_whoever_added_it(says):
    facts = nodes(labels.MPS, labels.WHOLE)
    says(told(mutated(RULE, pod(trainer()), facts=facts), facts=facts))


@each(
    "spec, kinds, is_told",
    {
        "not set": ({}, [labels.GKE_MPS], True),
        "false": ({"hostIPC": False}, [labels.GKE_MPS], True),
        "true": ({"hostIPC": True}, [labels.GKE_MPS], False),
        "some nodes": ({}, [labels.GKE_MPS, labels.WHOLE], False),
        "time-sharing": ({}, [labels.GKE_TIME_SHARING], False),
        "MPS of another cloud": ({}, [labels.MPS], False),
        "selected": ({"nodeSelector": {"cloud.google.com/gke-gpu-sharing-strategy": "mps"}}, [], True),
    },
)
def test_mps_of_gke_needs_the_ipc_namespace_of_the_node(spec, kinds, is_told):
    message = (
        "spec.hostIPC: is not true, and GPUs are shared by MPS, which GKE offers in the IPC namespace of the node "
        "only. Set hostIPC: true."
    )
    assert told(pod(trainer(gpus=1), **spec), facts=nodes(*kinds)) == ([message] if is_told else [])


def test_nothing_is_told_of_volumes_for_windows():
    raw = own(trainer(), os={"name": "windows"})
    raw["spec"]["volumes"] = [{"name": "dshm", "emptyDir": {}}]
    assert told(raw) == []


def test_a_volume_is_told_once_however_many_containers_mount_it():
    assert len(told(own(trainer("a", memory="1Gi"), trainer("b", memory="1Gi"), size="64Gi"))) == 1
    assert len(told(own(trainer("a"), trainer("b")))) == 1


def test_thousands_of_containers_that_mount_volumes_are_judged_in_a_second():
    volumes = [{"name": f"v{at}", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}} for at in range(2000)]
    many = [trainer(f"c{at}", volumeMounts=[{"name": f"v{at}", "mountPath": "/dev/shm"}]) for at in range(2000)]
    crowd = [trainer(f"d{at}", volumeMounts=[{"name": "v0", "mountPath": "/dev/shm"}]) for at in range(2000)]
    read = pod_from_raw(pod(*many, *crowd, volumes=volumes))
    started = time.process_time()
    assert list(RULE.validate(read, settings_of(RULE, {}), NOTHING_KNOWN)) == []
    assert time.process_time() - started < 1


def test_containers_with_fewer_gpus_than_the_rule_is_about_are_not_told():
    raw = own(trainer(gpus=2, memory="1Gi"), size="64Gi")
    assert [len(told(raw, {"minGpus": least})) for least in (2, 3)] == [1, 0]


@pytest.mark.parametrize("values", [{}, {"size": "256Gi"}, {"memoryFraction": 1}], ids=str)
def test_nothing_is_told_of_the_volume_that_the_rule_adds(values):
    for raw in (pod(trainer()), pod(trainer(memory="8Gi")), pod(trainer("a", memory="8Gi"), trainer("b"))):
        assert told(mutated(RULE, raw, values), values) == []
