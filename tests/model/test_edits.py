"""Edits add and never overwrite; the patch and the patched copy always agree."""

import copy
from dataclasses import replace

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import checked_on_pods, pods
from webhook.model.edits import (
    AddEnv,
    AddGpuLimit,
    AddMemoryVolume,
    AddMount,
    AddToleration,
    Annotate,
    Draft,
    PreferNodes,
    RequireNodes,
    SetRuntimeClass,
    apply,
)
from webhook.model.pod import pod_from_raw
from webhook.model.selectors import Expression
from webhook.model.tolerations import Toleration

GPU = Expression("nvidia.com/gpu.present", "In", ("true",))
ZONE = Expression("zone~1", "Exists")
TOLERATION = Toleration("nvidia.com/gpu", "Exists", "", "NoSchedule")


@st.composite
def edits_for(draw, raw):
    """Any edits that fit the pod, in any order."""
    pod = pod_from_raw(raw)
    container = st.sampled_from(pod.containers)
    term = st.sampled_from([*range(len(pod.required))] if pod.required else [None])
    one = st.one_of(
        st.just(AddToleration(TOLERATION)),
        st.just(SetRuntimeClass("nvidia")),
        st.builds(AddMemoryVolume, st.sampled_from(["shm", "shm-2"]), st.just("1Gi")),
        st.builds(AddMount, container, st.just("shm"), st.just("/dev/shm")),
        st.builds(AddEnv, container, st.sampled_from(["A", "B"]), st.just("1")),
        st.builds(RequireNodes, st.sampled_from([GPU, ZONE]), term),
        st.builds(PreferNodes, st.sampled_from([GPU, ZONE]), st.integers(1, 100)),
        st.builds(AddGpuLimit, container, st.sampled_from(["nvidia.com/gpu", "x~y/z"]), st.just("1")),
        st.builds(Annotate, st.sampled_from(["a/b", "c~d"]), st.just("e")),
    )
    return draw(st.lists(one, max_size=8))


@checked_on_pods
@given(st.data())
def test_the_patch_makes_the_same_object_and_the_original_stays(data):
    raw = data.draw(pods())
    edits = data.draw(edits_for(raw))
    before = copy.deepcopy(raw)
    draft = apply(raw, edits)
    patch, patched = copy.deepcopy(draft.patch), copy.deepcopy(draft.object)
    assert jsonpatch.apply_patch(before, patch) == patched
    assert raw == before
    assert all(operation["op"] in ("add", "replace") for operation in patch)


def bare(**spec):
    return {"kind": "Pod", "metadata": None, "spec": {"containers": [{"name": "a"}], **spec}}


def only_container(raw):
    return pod_from_raw(raw).containers[0]


@pytest.mark.parametrize(
    ("raw", "edit", "patch"),
    [
        pytest.param(
            bare(tolerations=None),
            AddToleration(TOLERATION),
            [{"op": "add", "path": "/spec/tolerations", "value": [TOLERATION.to_raw()]}],
            id="tolerations null",
        ),
        pytest.param(
            bare(tolerations=[{"operator": "Exists"}]),
            AddToleration(TOLERATION),
            [{"op": "add", "path": "/spec/tolerations/-", "value": TOLERATION.to_raw()}],
            id="appended to what is there",
        ),
        pytest.param(
            bare(volumes=[]),
            AddMemoryVolume("shm", "1Gi"),
            [
                {
                    "op": "add",
                    "path": "/spec/volumes",
                    "value": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
                }
            ],
            id="an empty list",
        ),
        pytest.param(
            bare(),
            Annotate("gpupolicy.dev/x~y", "v"),
            [{"op": "add", "path": "/metadata", "value": {"annotations": {"gpupolicy.dev/x~y": "v"}}}],
            id="metadata null",
        ),
        pytest.param(
            {"metadata": {"annotations": {"a": "b"}}, "spec": {}},
            Annotate("gpupolicy.dev/x~y", "v"),
            [{"op": "add", "path": "/metadata/annotations/gpupolicy.dev~1x~0y", "value": "v"}],
            id="keys with slash and tilde",
        ),
        pytest.param(
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
            id="beside another affinity",
        ),
    ],
)
def test_only_what_is_missing_is_added(raw, edit, patch):
    assert apply(raw, [edit]).patch == patch


def test_several_required_expressions_for_a_pod_without_affinity_end_in_one_term():
    draft = apply(bare(), [RequireNodes(GPU, None), RequireNodes(ZONE, None)])
    selector = draft.object["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert selector == {"nodeSelectorTerms": [{"matchExpressions": [GPU.to_raw(), ZONE.to_raw()]}]}
    assert jsonpatch.apply_patch(bare(), draft.patch) == draft.object


def test_a_term_with_fields_only_keeps_them():
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]}}
    raw = bare(affinity={"nodeAffinity": required})
    (patch,) = apply(raw, [RequireNodes(GPU, 0)]).patch
    assert patch["path"].endswith("/nodeSelectorTerms/0/matchExpressions")


@pytest.mark.parametrize("empty", [None, {}], ids=["null", "empty"])
def test_a_limit_reaches_a_container_that_says_little(empty):
    raw = bare(containers=[{"name": "a", "resources": {"limits": empty, "requests": {"nvidia.com/gpu": 1}}}])
    draft = apply(raw, [AddGpuLimit(only_container(raw), "nvidia.com/gpu", "1")])
    assert jsonpatch.apply_patch(raw, draft.patch) == draft.object
    assert draft.object["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}


def test_a_container_that_is_null_is_replaced_not_shifted():
    raw = bare(containers=[{"name": "a"}, None])
    second = pod_from_raw(raw).containers[1]
    draft = apply(raw, [AddEnv(second, "A", "1")])
    assert jsonpatch.apply_patch(raw, draft.patch) == draft.object
    assert draft.object["spec"]["containers"] == [{"name": "a"}, {"env": [{"name": "A", "value": "1"}]}]


def test_what_no_edit_touches_is_shared_and_not_copied():
    raw = bare(volumes=[{"name": "data"}])
    draft = apply(raw, [SetRuntimeClass("nvidia")])
    assert draft.object["spec"]["volumes"] is raw["spec"]["volumes"]


def test_a_draft_without_edits_is_the_object_without_a_patch():
    draft = Draft(bare())
    assert (draft.object, draft.patch) == (bare(), [])
    assert draft.get(("spec", "containers", 0, "name")) == "a"
    assert draft.get(("spec", "containers", 1, "name")) is None
    assert draft.get(("spec", "containers", "x")) is None


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
        (Annotate("a/b", "c"), "annotation a/b=c"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_edit_says_what_it_does(edit, shown):
    assert str(edit) == shown


def test_only_preferences_can_be_lost_without_harm():
    assert [edit.is_preference for edit in (PreferNodes(GPU, 1), Annotate("a", "b"))] == [True, True]
    assert not RequireNodes(GPU, None).is_preference
    assert not AddToleration(TOLERATION).is_preference


def test_a_list_that_was_replaced_does_not_lend_its_place_to_another():
    """An empty list of the author is copied, then replaced; what comes after it in memory is not ours to change."""
    for _ in range(200):  # memory is not given again each time
        raw = {"spec": {"tolerations": [], "containers": []}}
        draft = apply(raw, [AddToleration(TOLERATION), *([RequireNodes(ZONE, None)] * 2)])
        assert jsonpatch.apply_patch(raw, draft.patch) == draft.object
