"""Edits add, and but for two never overwrite; the patch and the patched copy always agree."""

from dataclasses import replace

import jsonpatch
import pytest

from tests.golden import each, golden
from webhook.model.edits import (
    AddEnv,
    AddGpuLimit,
    AddMemoryVolume,
    AddMount,
    AddToleration,
    Annotate,
    PreferNodes,
    RequireNodes,
    SetActiveDeadline,
    SetPriorityClass,
    SetRuntimeClass,
    SpreadOverNodes,
    apply,
)
from webhook.model.node import PriorityClass, Toleration
from webhook.model.pod_reader import pod_from_raw
from webhook.model.selectors import Expression

GPU = Expression("nvidia.com/gpu.present", "In", ("true",))
ZONE = Expression("zone~1", "Exists")
TOLERATION = Toleration("nvidia.com/gpu", "Exists", "", "NoSchedule")
SPREAD = SpreadOverNodes((("app", "chat"), ("tier", "gpu")))
TRAINING, LAST = PriorityClass("training", 1000), PriorityClass("last", -1, preempts=False)


@pytest.mark.parametrize("env", [None, [], [{"name": "X", "value": "1"}]], ids=["null", "empty", "one"])
def test_several_entries_of_one_list_all_arrive(env):
    raw = {"spec": {"containers": [{"name": "c", "env": env}]}}
    (container,) = pod_from_raw(raw).containers
    draft = apply(raw, [AddEnv(container, name, "1") for name in "ABC"])
    names = [entry["name"] for entry in draft.object["spec"]["containers"][0]["env"]]
    assert names == [*(entry["name"] for entry in env or ()), "A", "B", "C"]
    assert jsonpatch.apply_patch(raw, draft.patch) == draft.object


def bare(**spec):
    return {"kind": "Pod", "metadata": None, "spec": {"containers": [{"name": "a"}], **spec}}


def only_container(raw):
    return pod_from_raw(raw).containers[0]


@each(
    "raw, edit, patch",
    {
        "tolerations null": (
            bare(tolerations=None),
            AddToleration(TOLERATION),
            [{"op": "add", "path": "/spec/tolerations", "value": [TOLERATION.to_raw()]}],
        ),
        "appended to what is there": (
            bare(tolerations=[{"operator": "Exists"}]),
            AddToleration(TOLERATION),
            [{"op": "add", "path": "/spec/tolerations/-", "value": TOLERATION.to_raw()}],
        ),
        "an empty list": (
            bare(volumes=[]),
            AddMemoryVolume("shm", "1Gi"),
            [
                {
                    "op": "add",
                    "path": "/spec/volumes",
                    "value": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
                }
            ],
        ),
        "metadata null": (
            bare(),
            Annotate("gpupolicy.dev/x~y", "v"),
            [{"op": "add", "path": "/metadata", "value": {"annotations": {"gpupolicy.dev/x~y": "v"}}}],
        ),
        "keys with slash and tilde": (
            {"metadata": {"annotations": {"a": "b"}}, "spec": {}},
            Annotate("gpupolicy.dev/x~y", "v"),
            [{"op": "add", "path": "/metadata/annotations/gpupolicy.dev~1x~0y", "value": "v"}],
        ),
        "beside another affinity": (
            bare(affinity={"podAffinity": {}}),
            RequireNodes(GPU, None),
            [
                {
                    "op": "add",
                    "path": "/spec/affinity/nodeAffinity",
                    "value": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [GPU.to_raw()]}]
                        }
                    },
                }
            ],
        ),
        "a spread": (
            bare(),
            SPREAD,
            [
                {
                    "op": "add",
                    "path": "/spec/topologySpreadConstraints",
                    "value": [
                        {
                            "maxSkew": 1,
                            "topologyKey": "kubernetes.io/hostname",
                            "whenUnsatisfiable": "ScheduleAnyway",
                            "labelSelector": {"matchLabels": {"app": "chat", "tier": "gpu"}},
                            "matchLabelKeys": ["pod-template-hash"],
                        }
                    ],
                }
            ],
        ),
    },
)
def test_only_what_is_missing_is_added(raw, edit, patch):
    assert apply(raw, [edit]).patch == patch


@golden
@pytest.mark.parametrize(("found", "policy"), [(TRAINING, "PreemptLowerPriority"), (LAST, "Never")], ids=["", "last"])
def test_a_priority_class_comes_with_what_follows_from_it(spec, operations, found, policy):
    draft = apply(bare(**spec), [SetPriorityClass(found)])
    assert [(one["op"], one["path"]) for one in draft.patch] == [
        (operations[0], "/spec/priorityClassName"),
        (operations[1], "/spec/priority"),
        (operations[2], "/spec/preemptionPolicy"),
    ]
    assert jsonpatch.apply_patch(bare(**spec), draft.patch) == draft.object
    expected = {"priorityClassName": found.name, "priority": found.value, "preemptionPolicy": policy}
    assert draft.object["spec"] == {**bare()["spec"], **expected}


@pytest.mark.parametrize(("spec", "operation"), [({}, "add"), ({"activeDeadlineSeconds": 7200}, "replace")], ids=str)
def test_a_deadline_takes_the_place_of_another_one(spec, operation):
    (patch,) = apply(bare(**spec), [SetActiveDeadline(3600)]).patch
    assert patch == {"op": operation, "path": "/spec/activeDeadlineSeconds", "value": 3600}


@each(
    "labels, expected",
    {
        "in order": ({"b": "2", "a": "1"}, SpreadOverNodes((("a", "1"), ("b", "2")))),
        "of every revision": ({"a": "1", "pod-template-hash": "x"}, SpreadOverNodes((("a", "1"),))),
        "no texts": ({"a": 1, "b": None}, None),
        "a revision only": ({"pod-template-hash": "x"}, None),
        "none": ({}, None),
    },
)
def test_pods_are_spread_by_the_labels_that_they_share(labels, expected):
    assert SpreadOverNodes.of(labels) == expected


def test_several_required_expressions_for_a_pod_without_affinity_end_in_one_term():
    draft = apply(bare(), [RequireNodes(GPU, None), RequireNodes(ZONE, None)])
    selector = draft.object["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert selector == {"nodeSelectorTerms": [{"matchExpressions": [GPU.to_raw(), ZONE.to_raw()]}]}
    assert jsonpatch.apply_patch(bare(), draft.patch) == draft.object


CONTAINER = only_container(bare())


@pytest.mark.parametrize(
    ("edit", "shown"),
    [
        (AddToleration(TOLERATION), "toleration nvidia.com/gpu Exists:NoSchedule"),
        (AddToleration(Toleration("sku", "Equal", "gpu")), "toleration sku=gpu"),
        (AddToleration(Toleration("", "Exists")), "toleration Exists"),
        (SetRuntimeClass("nvidia"), "runtimeClassName nvidia"),
        (AddMemoryVolume("shm", "8Gi"), "memory volume shm of 8Gi"),
        (AddMount(CONTAINER, "shm", "/dev/shm"), "mount /dev/shm in a"),
        (AddEnv(CONTAINER, "A", "1"), "env A=1 in a"),
        (AddEnv(replace(CONTAINER, name=""), "A", "1"), "env A=1 in spec.containers[a]"),
        (RequireNodes(GPU, 0), "required node affinity nvidia.com/gpu.present In [true]"),
        (PreferNodes(ZONE, 5), "preferred node affinity zone~1 Exists of weight 5"),
        (AddGpuLimit(CONTAINER, "nvidia.com/gpu", "2"), "limit nvidia.com/gpu=2 in a"),
        (SetPriorityClass(TRAINING), "priorityClassName training"),
        (SetActiveDeadline(3600), "activeDeadlineSeconds 3600"),
        (SPREAD, "topologySpreadConstraints over kubernetes.io/hostname"),
        (Annotate("a/b", "c"), "annotation a/b=c"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_edit_says_what_it_does(edit, shown):
    assert str(edit) == shown


def test_only_preferences_can_be_lost_without_harm():
    assert [edit.is_preference for edit in (PreferNodes(GPU, 1), Annotate("a", "b"), SPREAD)] == [True] * 3
    assert not SetPriorityClass(TRAINING).is_preference
    assert not SetActiveDeadline(1).is_preference
    assert not RequireNodes(GPU, None).is_preference
    assert not AddToleration(TOLERATION).is_preference
