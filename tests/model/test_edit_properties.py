"""Whatever edits are made to a pod: patch and patched copy agree, and but for four fields nothing is replaced."""

import copy

import jsonpatch
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
from webhook.model.requirements import placed
from webhook.model.selectors import Expression

GPU = Expression("nvidia.com/gpu.present", "In", ("true",))
ZONE = Expression("zone~1", "Exists")
TOLERATION = Toleration("nvidia.com/gpu", "Exists", "", "NoSchedule")
SPREAD = SpreadOverNodes((("app", "chat"), ("tier", "gpu")))
TRAINING, LAST = PriorityClass("training", 1000), PriorityClass("last", -1, preempts=False)
REPLACED = {"priorityClassName", "priority", "preemptionPolicy", "activeDeadlineSeconds"}


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
        st.builds(SetPriorityClass, st.sampled_from([TRAINING, LAST])),
        st.builds(SetActiveDeadline, st.integers(1, 2**31 - 1)),
        st.just(SPREAD),
    )
    return draw(st.lists(one, max_size=8))


DECIDING = ("runtime_class", "tolerations", "node_selector", "required", "preferred", "node_name")


@checked_on_pods
@given(st.data())
def test_where_a_pod_may_run_after_edits_is_what_reading_it_again_says(data):
    raw = data.draw(pods())
    edits = data.draw(edits_for(raw))
    expected = pod_from_raw(apply(raw, edits).object)
    found = placed(pod_from_raw(raw), edits)
    assert {name: getattr(expected, name) for name in DECIDING} == {name: getattr(found, name) for name in DECIDING}


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


PRIORITIES = st.fixed_dictionaries(
    {},
    optional={
        "priorityClassName": st.sampled_from([None, "", "normal"]),
        "priority": st.sampled_from([None, 0, 100]),
        "preemptionPolicy": st.sampled_from([None, "PreemptLowerPriority", "Never"]),
        "activeDeadlineSeconds": st.sampled_from([None, 1, 86400]),
        "topologySpreadConstraints": st.sampled_from([None, [], [{"topologyKey": "zone"}]]),
    },
)


@checked_on_pods
@given(st.data())
def test_four_fields_are_all_that_an_edit_may_replace(data):
    raw = data.draw(pods())
    raw["spec"] |= data.draw(PRIORITIES)
    raw["spec"].pop("runtimeClassName", None)  # its edit is for pods that have none
    before = copy.deepcopy(raw)
    draft = apply(raw, data.draw(edits_for(raw)))
    assert jsonpatch.apply_patch(before, draft.patch) == draft.object
    made = draft.object["spec"]
    replaced = {key for key, value in before["spec"].items() if _is_plain(value) and made.get(key) != value}
    assert replaced <= REPLACED


def _is_plain(value):
    return value not in (None, "") and not isinstance(value, dict | list)
