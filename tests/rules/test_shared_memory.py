"""Containers with GPUs get a memory-backed /dev/shm."""

import time

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.golden import each, golden
from tests.gpus import discovered_labels as labels
from tests.rules.rule_case import RuleCase, RulePods, any_of, container_with, spec_with
from tests.rules.samples import NOTHING_KNOWN, Cluster, advice, container, is_left_alone, mutated, pod, settings_of
from webhook.model.claims import TEMPLATE, Devices
from webhook.model.node import NodeClass
from webhook.model.pod_reader import pod_from_raw
from webhook.model.quantity import parse_quantity
from webhook.rules.shared_memory import RULE

OURS = "gpu-policy-shm"
AT_SHM = {"name": OURS, "mountPath": "/dev/shm"}


def trainer(name="trainer", gpus=2, memory=None, **parts):
    raw = container(name, gpus, **parts)
    if memory is not None and gpus is not None:
        raw["resources"]["limits"]["memory"] = memory
    return raw


def memory_volume(size, name=OURS):
    return {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": size}}


def nodes(*kinds):
    """A cluster with nodes of these labels."""
    return Cluster(nodes=[NodeClass(kind, gpu_resources=frozenset({"nvidia.com/gpu"})) for kind in kinds])


def test_a_container_with_two_gpus_gets_half_of_its_memory_limit():
    spec = mutated(RULE, pod(trainer(memory="128Gi")))["spec"]
    assert spec["volumes"] == [memory_volume("64Gi")]
    assert spec["containers"][0]["volumeMounts"] == [AT_SHM]
    assert advice(RULE, pod(trainer(memory="128Gi"))) == []


def test_without_any_memory_limit_it_is_8gi_with_a_warning(says):
    assert mutated(RULE, pod(trainer()))["spec"]["volumes"] == [memory_volume("8Gi")]
    says(advice(RULE, pod(trainer())))


@each(
    "raw",
    {
        "no GPU": pod(trainer(gpus=None)),
        "zero GPUs": pod(trainer(gpus=0)),
        "hostIPC": pod(trainer(), hostIPC=True),
        "a volume of its own": pod(
            trainer(volumeMounts=[{"name": "dshm", "mountPath": "/dev/shm"}]), volumes=[memory_volume("1Gi", "dshm")]
        ),
        "the node's /dev/shm": pod(
            trainer(volumeMounts=[{"name": "host", "mountPath": "/dev/shm"}]),
            volumes=[{"name": "host", "hostPath": {"path": "/dev/shm"}}],
        ),
        "a slash at the end": pod(trainer(volumeMounts=[{"name": "x", "mountPath": "/dev/shm/"}])),
        "two slashes": pod(trainer(volumeMounts=[{"name": "x", "mountPath": "//dev/shm"}])),
        "no slash": pod(trainer(volumeMounts=[{"name": "x", "mountPath": "dev/shm"}])),
        "a sub-path": pod(trainer(volumeMounts=[{"name": "x", "mountPath": "/dev/shm", "subPath": "a"}])),
        "an ephemeral container": pod(container(), ephemeralContainers=[trainer("debug")]),
        "attributes of one GPU": pod(trainer(resources={"limits": {"nvidia.com/gpumem": 2}})),
    },
)
def test_a_container_that_needs_none_or_has_one_is_left_alone(raw):
    if "gpumem" in str(raw):
        raw["spec"]["containers"][0]["resources"].pop("requests")
    assert is_left_alone(RULE, raw)
    assert advice(RULE, raw) == []


@each(
    "parts",
    {
        "a mount below": {"volumeMounts": [{"name": "x", "mountPath": "/dev/shm/sub"}]},
        "a mount above": {"volumeMounts": [{"name": "x", "mountPath": "/dev"}]},
        "mounts null": {"volumeMounts": None},
        "no mounts": {"volumeMounts": []},
    },
)
def test_a_mount_elsewhere_is_none_at_dev_shm(parts):
    mounts = mutated(RULE, pod(trainer(**parts)))["spec"]["containers"][0]["volumeMounts"]
    assert mounts == [*(parts["volumeMounts"] or []), AT_SHM]


@pytest.mark.parametrize(
    "resource", ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "amd.com/gpu", "gpu.intel.com/i915"]
)
def test_gpus_of_every_kind_count(resource):
    assert not is_left_alone(RULE, pod(container(gpus=2, resource=resource)))


def test_every_container_that_asks_for_enough_shares_one_volume():
    raw = pod(
        trainer("a", 2, "10Gi"),
        trainer("b", 4, "4Gi"),
        trainer("c", 1, "1Gi"),
        container("d", resources={"limits": {"memory": "1Mi"}}),
        initContainers=[trainer("warm", 2, "8Gi"), {**trainer("side", 2, "8Gi"), "restartPolicy": "Always"}],
    )
    spec = mutated(RULE, raw, {"minGpus": 2})["spec"]
    assert spec["volumes"] == [memory_volume("5Gi")]
    mounted = [c["name"] for c in spec["initContainers"] + spec["containers"] if "volumeMounts" in c]
    assert mounted == ["warm", "side", "a", "b"]


def test_one_gpu_is_enough_unless_the_policy_says_otherwise():
    """Data loaders die of 64 MiB with one GPU as with many."""
    raw = pod(trainer("a", 1, "8Gi"), trainer("b", 1, "6Gi"))
    assert mutated(RULE, raw)["spec"]["volumes"] == [memory_volume("4Gi")]
    assert is_left_alone(RULE, raw, {"minGpus": 2})


def test_a_container_without_limit_beside_one_with_a_limit_takes_its_part():
    assert mutated(RULE, pod(trainer("a"), trainer("b", memory="4Gi")))["spec"]["volumes"] == [memory_volume("2Gi")]


@each(
    "of_pod, of_container",
    {
        "that of the pod": ("6Gi", "16Gi"),
        "that of the container": ("16Gi", "6Gi"),
        "the pod has the only one": ("6Gi", None),
        "the container has the only one": (None, "6Gi"),
    },
)
def test_the_smaller_of_two_limits_holds_wherever_it_stands(of_pod, of_container):
    raw = pod(trainer(memory=of_container), resources={"limits": {"memory": of_pod} if of_pod else {}})
    assert mutated(RULE, raw)["spec"]["volumes"] == [memory_volume("3Gi")]


@golden
def test_the_limit_is_read_in_every_spelling_and_never_exceeded(limit, fraction, size):
    raw = pod(trainer(memory=limit))
    (volume,) = mutated(RULE, raw, {"memoryFraction": fraction})["spec"]["volumes"]
    assert volume == memory_volume(size)


@pytest.mark.parametrize("limit", ["0", None, "$MEMORY", -1])
def test_a_limit_that_is_none_is_no_limit(limit):
    raw = pod(container(resources={"limits": {"nvidia.com/gpu": 2, "memory": limit}}))
    assert mutated(RULE, raw)["spec"]["volumes"] == [memory_volume("8Gi")]


@pytest.mark.parametrize("values", [{}, {"size": "16Gi"}], ids=["a fraction", "a size"])
def test_of_a_limit_that_an_operator_fills_in_nobody_is_told_that_it_is_missing(values):
    raw = pod(container(resources={"limits": {"nvidia.com/gpu": 2, "memory": "filled in"}}))
    assert mutated(RULE, raw, values)["spec"]["volumes"] == [memory_volume(values.get("size", "8Gi"))]
    assert advice(RULE, raw, values) == []


def test_a_size_within_the_limit_is_taken():
    assert mutated(RULE, pod(trainer(memory="128Gi")), {"size": "16Gi"})["spec"]["volumes"] == [memory_volume("16Gi")]
    assert advice(RULE, pod(trainer(memory="16Gi")), {"size": "16Gi"}) == []


def test_a_size_above_the_largest_limit_shrinks_to_it_with_a_warning(says):
    raw = pod(trainer("a", memory="2Gi"), trainer("b", memory="4Gi"))
    assert mutated(RULE, raw, {"size": "16Gi"})["spec"]["volumes"] == [memory_volume("4Gi")]
    says(advice(RULE, raw, {"size": "16Gi"}))


def test_a_size_without_any_limit_is_taken_with_a_warning(says):
    assert mutated(RULE, pod(trainer()), {"size": "16Gi"})["spec"]["volumes"] == [memory_volume("16Gi")]
    says(advice(RULE, pod(trainer()), {"size": "16Gi"}))


@pytest.mark.parametrize(("least", "gpus", "left_alone"), [(1, 1, False), (4, 3, True), (4, 4, False)])
def test_min_gpus_says_from_how_many_on(least, gpus, left_alone):
    assert is_left_alone(RULE, pod(trainer(gpus=gpus)), {"minGpus": least}) is left_alone


def test_a_memory_volume_that_a_sibling_mounts_there_is_reused_without_a_word():
    raw = pod(
        trainer("a", volumeMounts=[{"name": "dshm", "mountPath": "/dev/shm/"}]),
        trainer("b"),
        volumes=[memory_volume("1Gi", "dshm")],
    )
    spec = mutated(RULE, raw)["spec"]
    assert spec["volumes"] == raw["spec"]["volumes"]
    assert spec["containers"][1]["volumeMounts"] == [{"name": "dshm", "mountPath": "/dev/shm"}]
    assert advice(RULE, raw) == []


@each(
    "volume, mount",
    {
        "on disk": ({"emptyDir": {}}, {}),
        "of the node": ({"hostPath": {"path": "/dev/shm"}}, {}),
        "a part of it": ({"emptyDir": {"medium": "Memory"}}, {"subPath": "a"}),
        "a computed part of it": ({"emptyDir": {"medium": "Memory"}}, {"subPathExpr": "$(A)"}),
        "mounted elsewhere": ({"emptyDir": {"medium": "Memory"}}, {"mountPath": "/cache"}),
        "null": ({"emptyDir": None}, {}),
    },
)
def test_what_a_sibling_mounts_there_is_not_reused_unless_it_is_a_whole_memory_volume(volume, mount):
    first = trainer("a", volumeMounts=[{"name": "v", "mountPath": "/dev/shm", **mount}])
    spec = mutated(RULE, pod(first, trainer("b"), volumes=[{"name": "v", **volume}]))["spec"]
    assert spec["containers"][1]["volumeMounts"] == [AT_SHM]
    assert [v["name"] for v in spec["volumes"]] == ["v", OURS]


@each(
    "raw, name",
    {
        "declared": (pod(trainer(), volumes=[{"name": OURS, "emptyDir": {}}]), f"{OURS}-2"),
        "declared twice over": (pod(trainer(), volumes=[{"name": OURS}, {"name": f"{OURS}-2"}]), f"{OURS}-3"),
        "mounted, not declared": (pod(trainer(volumeMounts=[{"name": OURS, "mountPath": "/x"}])), f"{OURS}-2"),
        "volumes null": (pod(trainer(), volumes=None), OURS),
    },
)
def test_volume_names_never_collide(raw, name):
    spec = mutated(RULE, raw)["spec"]
    assert spec["volumes"][-1] == memory_volume("8Gi", name)
    assert spec["containers"][0]["volumeMounts"][-1] == {"name": name, "mountPath": "/dev/shm"}


@pytest.mark.parametrize(
    "values",
    [
        {"size": "0"},
        {"size": 0},
        {"size": -1},
        {"size": "-1Gi"},
        {"size": "0.5"},
        {"size": "16GB"},
        {"size": True},
        {"size": 1.5},
        {"size": "1e30"},
        {"size": 2**63},
        {"memoryFraction": 0},
        {"memoryFraction": 1.1},
        {"minGpus": 0},
    ],
    ids=str,
)
def test_settings_without_sense_are_refused(values):
    with pytest.raises(ValidationError):
        settings_of(RULE, values)


@pytest.mark.parametrize("size", ["16Gi", 17179869184, "17179869184", "1.5Gi"], ids=str)
def test_a_size_is_a_quantity_in_quotes_or_not(size):
    assert settings_of(RULE, {"size": size}).size == parse_quantity(size)


SAYS_MPS_ALONE = {"nvidia.com/gpu.sharing-strategy": "mps"}
OF_WINDOWS = {"kubernetes.io/os": "windows"}


@each(
    "kinds, is_due",
    {
        "whole GPUs": ([labels.WHOLE], True),
        "time-slicing": ([labels.TIME_SLICED], True),
        "MIG": ([labels.SINGLE], True),
        "MPS": ([labels.MPS], False),
        "MPS, renamed": ([labels.MPS_RENAMED], False),
        "a label without the number of shares": ([SAYS_MPS_ALONE], False),
        "MPS of GKE": ([labels.GKE_MPS], False),
        "time-sharing of GKE": ([labels.GKE_TIME_SHARING], True),
        "MPS of two kinds": ([labels.MPS, labels.GKE_MPS], False),
        "MPS on some": ([labels.MPS, labels.WHOLE], True),
        "MPS on some, nothing known of others": ([labels.MPS, labels.UNLABELLED], True),
        "Windows or MPS": ([OF_WINDOWS, labels.MPS], False),
        "Windows or Linux": ([OF_WINDOWS, labels.WHOLE], True),
    },
)
def test_no_volume_hides_the_shared_memory_of_mps_and_none_is_for_windows(kinds, is_due):
    assert is_left_alone(RULE, pod(trainer()), facts=nodes(*kinds)) is not is_due


def required(key, *values, operator="In"):
    expression = {"key": key, "operator": operator, "values": list(values)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@each(
    "spec, is_due",
    {
        "MPS": ({"nodeSelector": SAYS_MPS_ALONE}, False),
        "MPS of GKE": ({"nodeSelector": {"cloud.google.com/gke-gpu-sharing-strategy": "mps"}}, False),
        "MPS by affinity": (required("nvidia.com/gpu.sharing-strategy", "mps"), False),
        "MPS or not": (required("nvidia.com/gpu.sharing-strategy", "mps", "none"), True),
        "not MPS": ({"nodeSelector": {"nvidia.com/gpu.sharing-strategy": "none"}}, True),
        "the operating system": ({"os": {"name": "windows"}}, False),
        "another operating system": ({"os": {"name": "linux"}}, True),
        "nodes with Windows": ({"nodeSelector": OF_WINDOWS}, False),
        "nodes with Windows by affinity": (required("kubernetes.io/os", "windows"), False),
    },
)
def test_what_the_pod_requires_counts_where_no_node_is_known(spec, is_due):
    assert is_left_alone(RULE, pod(trainer(), **spec)) is not is_due


def test_a_share_that_no_node_offers_is_one_by_mps_where_all_others_are():
    elsewhere = Cluster(nodes=nodes(labels.MPS).nodes, selects=lambda _: False)
    assert is_left_alone(RULE, pod(container(gpus=1, resource="nvidia.com/gpu.shared")), facts=elsewhere)
    assert not is_left_alone(RULE, pod(container(gpus=1)), facts=elsewhere)


def test_a_container_that_uses_a_claim_by_mps_gets_none():
    names = [{"name": name, "resourceClaimTemplateName": name} for name in ("mps", "own")]
    raw = pod(
        *[container(name, resources={"claims": [{"name": name}]}) for name in ("mps", "own")], resourceClaims=names
    )
    known = {(TEMPLATE, name): ((Devices("gpu.nvidia.com", by_mps=name == "mps"),),) for name in ("mps", "own")}
    spec = mutated(RULE, raw, facts=Cluster(claims=known))["spec"]
    assert [one.get("volumeMounts") for one in spec["containers"]] == [None, [AT_SHM]]


@each(
    "path, mounted_at, is_due",
    {
        "all devices": ("/dev", "/dev", False),
        "with slashes": ("/dev/", "/dev/", False),
        "the node's shared memory": ("/dev/shm", "/host/shm", False),
        "in another spelling": ("//dev//shm", "/x", False),
        "other devices": ("/dev/infiniband", "/dev/infiniband", True),
        "something else": ("/data", "/dev", True),
    },
)
def test_a_container_that_mounts_the_nodes_own_gets_no_other(path, mounted_at, is_due):
    own = trainer("a", volumeMounts=[{"name": "v", "mountPath": mounted_at}])
    spec = mutated(RULE, pod(own, trainer("b"), volumes=[{"name": "v", "hostPath": {"path": path}}]))["spec"]
    assert [AT_SHM in one["volumeMounts"] for one in spec["containers"]] == [is_due, True]


@each(
    "init, apps, size",
    {
        "a small check": ([trainer("check", memory="512Mi")], [trainer(memory="64Gi")], "32Gi"),
        "a small check, the rest unlimited": ([trainer("check", memory="512Mi")], [trainer()], "8Gi"),
        "a large check": ([trainer("check", memory="96Gi")], [trainer(memory="64Gi")], "32Gi"),
        "sidecar": ([{**trainer("side", memory="96Gi"), "restartPolicy": "Always"}], [trainer(memory="64Gi")], "48Gi"),
        "a small one beside it": ([], [trainer(memory="64Gi"), trainer("b", memory="1Gi")], "32Gi"),
        "only the check has GPUs": ([trainer("check", memory="4Gi")], [container("a")], "2Gi"),
    },
)
def test_the_size_follows_the_largest_gpu_container_that_lasts(init, apps, size):
    raw = pod(*apps, initContainers=init)
    assert mutated(RULE, raw)["spec"]["volumes"] == [memory_volume(size)]


def test_the_volume_of_an_init_container_that_ends_is_not_taken_over():
    check = trainer("check", volumeMounts=[{"name": "dshm", "mountPath": "/dev/shm"}])
    raw = pod(trainer(memory="64Gi"), initContainers=[check], volumes=[memory_volume("1Gi", "dshm")])
    assert mutated(RULE, raw)["spec"]["volumes"] == [memory_volume("1Gi", "dshm"), memory_volume("32Gi")]


def _with_a_large_volume(raw):
    """It mounts at /dev/shm what may hold more than any container may use."""
    mounted = container_with(raw, "volumeMounts", [{"name": "dshm", "mountPath": "/dev/shm"}])
    return spec_with(mounted, "volumes", [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Ti"}}])


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


@golden
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


CASE = RuleCase(
    pods=lambda raw: RulePods(lacks=raw, breaks=_with_a_large_volume(raw)),
    values=any_of(minGpus=st.integers(1, 4), size=st.sampled_from(("1Gi", "16Gi")))
    | any_of(memoryFraction=st.sampled_from((0.1, 0.5, 1))),
    enforced={},
    injecting={"size": "1Gi"},
    fuzzed={"minGpus": 2, "memoryFraction": 0.5},
    completes_every_gpu_pod=True,
)
