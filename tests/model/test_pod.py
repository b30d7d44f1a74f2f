"""Reading a pod of any shape: usual manifests are read, and a malformed part is an error with its place."""

from contextlib import suppress

import pytest
from hypothesis import given

from tests.golden import each, golden
from tests.strategies import broken_pods, checked, checked_on_pods, json_values, pods
from webhook.model.node import Toleration
from webhook.model.pod import Volume
from webhook.model.pod_reader import pod_from_raw
from webhook.model.selectors import Expression
from webhook.model.shape import ShapeError


def pod(**spec):
    return pod_from_raw({"apiVersion": "v1", "kind": "Pod", "spec": spec})


def container(**parts):
    return pod(containers=[{"name": "a", **parts}]).containers[0]


@checked
@given(json_values(20))
def test_any_json_is_a_pod_or_a_shape_error(raw):
    with suppress(ShapeError):
        assert pod_from_raw(raw).gpu_count >= 0


@checked_on_pods
@given(broken_pods())
def test_a_pod_with_a_broken_part_is_a_pod_or_a_shape_error(raw):
    with suppress(ShapeError):
        assert pod_from_raw(raw).gpu_count >= 0


@checked_on_pods
@given(pods())
def test_every_pod_that_the_api_server_takes_is_read(raw):
    found = pod_from_raw(raw)
    lists = ("initContainers", "containers")
    assert [c.name for c in found.containers] == [c["name"] for part in lists for c in raw["spec"].get(part) or ()]


@golden
def test_null_stands_for_absent(raw):
    found = pod_from_raw(raw)
    assert (found.containers, found.required, found.gpu_count, dict(found.annotations)) == ((), None, 0, {})


@golden
def test_a_container_may_say_nothing(parts):
    found = container(**parts)
    assert found.path == "spec.containers[a]"
    assert (found.gpu_requests, found.env, found.mounts, found.memory_limit) == ((), (), (), None)
    assert found.env_from == ()
    assert not found.is_privileged
    assert not found.has_claims


def test_a_container_without_name_is_called_by_its_place():
    found = pod_from_raw({"spec": {"containers": [{}, None]}})
    assert [c.path for c in found.containers] == ["spec.containers[0]", "spec.containers[1]"]


def test_env_is_kept_in_order_with_duplicates_and_numbers():
    env = [
        {"name": "A", "value": 1},
        {"name": "A", "value": "2"},
        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "C"},
        {"name": "D", "value": True},
        {"name": "E", "value": None, "valueFrom": None},
        {"name": "F", "value": "x", "valueFrom": {"fieldRef": {}}},
    ]
    found = container(env=env)
    expected = (("A", "1"), ("A", "2"), ("B", None), ("C", ""), ("D", "true"), ("E", ""), ("F", None))
    assert found.env == expected
    assert found.sets_env("B")
    assert not found.sets_env("a")


@golden
def test_a_mount_is_found_however_its_path_is_spelled(path, there):
    found = container(volumeMounts=[{"name": "data", "mountPath": "/data"}, {"name": "x", "mountPath": path}])
    mount = found.mounts_at("/dev/shm")
    assert (mount is not None) is there
    assert mount is None or mount.volume == "x"


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("128Gi", 128 * 2**30),
        (1000, 1000),
        ("1e3", 1000),
        ("0.5", 1),
        ("100m", 1),
        ("0", None),
        (None, None),
        ("-1", None),
        ("${MEMORY}", None),
        ([], None),
    ],
)
def test_a_memory_limit_is_bytes_rounded_up_and_nonsense_is_none(written, size):
    limits = {"limits": {"memory": written}}
    assert container(resources=limits).memory_limit == size
    assert pod(resources=limits).memory_limit == size


def test_volumes_are_told_apart_by_what_backs_them():
    volumes = [
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
        {"name": "scratch", "emptyDir": None},
        {"name": "huge", "emptyDir": {"medium": "HugePages"}},
        {"name": "device", "hostPath": {"path": "/dev/nvidia0"}},
        {"name": "pvc", "persistentVolumeClaim": {"claimName": "x"}},
    ]
    assert pod(volumes=volumes).volumes == (
        Volume("shm", is_memory=True),
        Volume("scratch"),
        Volume("huge", is_huge=True),
        Volume("device", "/dev/nvidia0"),
        Volume("pvc"),
    )


def test_placement_is_read_with_numbers_as_text():
    found = pod(
        nodeSelector={"gpus": 8, "pool": True},
        tolerations=[{"key": "a", "operator": "Exists", "tolerationSeconds": 300, "effect": "NoExecute"}],
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [None, {"matchExpressions": [{"key": "k", "operator": "Gt", "values": [4]}]}]
                }
            }
        },
    )
    assert dict(found.node_selector) == {"gpus": "8", "pool": "true"}
    assert found.tolerations == (Toleration("a", "Exists", "", "NoExecute", 300),)
    assert found.required is not None
    assert [term.expressions for term in found.required] == [(), (Expression("k", "Gt", ("4",)),)]


@each(
    "raw, message",
    {
        "a list for a pod": ([], "object: found a list, expected a map"),
        "a text for a pod": ("pod", "object: found a string, expected a map"),
        "a list for a spec": ({"spec": []}, "spec: found a list, expected a map"),
        "a text for metadata": ({"metadata": "x"}, "metadata: found a string, expected a map"),
        "annotations": ({"metadata": {"annotations": []}}, "metadata.annotations: found a list, expected a map"),
        "containers": ({"spec": {"containers": {}}}, "spec.containers: found a map, expected a list"),
        "a container": ({"spec": {"containers": ["a"]}}, "spec.containers[0]: found a string, expected a map"),
        "limits": (
            {"spec": {"containers": [{"name": "a", "resources": {"limits": 1}}]}},
            "spec.containers[a].resources.limits: found a number, expected a map",
        ),
        "an env value": (
            {"spec": {"containers": [{"name": "a", "env": [{"name": "A", "value": {}}]}]}},
            "spec.containers[a].env[0].value: found a map, expected a string",
        ),
        "a toleration key": (
            {"spec": {"tolerations": [{"key": ["a"]}]}},
            "spec.tolerations[0].key: found a list, expected a string",
        ),
        "seconds in quotes": (
            {"spec": {"tolerations": [{"tolerationSeconds": "300"}]}},
            "spec.tolerations[0].tolerationSeconds: found a string, expected a whole number",
        ),
        "a node selector value": (
            {"spec": {"nodeSelector": {"zone": None, "pool": []}}},
            "spec.nodeSelector[pool]: found a list, expected a string",
        ),
        "huge": ({"spec": {"nodeName": 1 << 20_000}}, "spec.nodeName: found a number, expected a string"),
        "NaN": ({"spec": {"nodeName": float("nan")}}, "spec.nodeName: found a number, expected a string"),
    },
)
def test_a_wrong_type_is_an_error_that_names_place_and_both_types(raw, message):
    with pytest.raises(ShapeError) as refused:
        pod_from_raw(raw)
    assert str(refused.value) == message


def test_an_error_can_be_told_with_another_name_for_its_place():
    with pytest.raises(ShapeError) as refused:
        pod_from_raw({"metadata": "x"})
    assert str(refused.value.at(lambda place: f"spec.template.{place}")) == (
        "spec.template.metadata: found a string, expected a map"
    )


@golden
def test_a_pod_has_started_when_a_kubelet_says_so(status: object, expected: bool) -> None:
    assert pod_from_raw({"spec": {}, "status": status}).has_started is expected
