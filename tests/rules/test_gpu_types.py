"""GPU pods run on GPUs that their namespace may use, with the memory that they need, and are told if none is left."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.build import policy
from tests.facts.samples import node
from tests.golden import each
from tests.rules.gpu_type_samples import (
    A100,
    GKE_T4,
    GPU,
    H100,
    L4,
    MEMORY,
    PRODUCT,
    SHARED_T4,
    SILENT,
    SLICE,
    SLICED,
    SMALL,
    T4,
    cluster,
    excluded,
    gpu_pod,
    only,
    preferred,
    refused,
    told,
    without,
)
from tests.rules.rule_case import RuleCase, RulePods, any_of, spec_with, tolerating_gpu_nodes
from tests.rules.samples import container, mutated, mutations, pod, settings_of, term, terms
from tests.strategies import checked
from webhook import engine
from webhook.facts.facts import ClusterFacts
from webhook.model.accelerators import Accelerators, Declared, Vendor
from webhook.model.node import NodePool
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.gpu_types import RULE
from webhook.rules.rule import Advice, Violation

KARPENTER = "karpenter.k8s.aws/instance-gpu-name"


@each(
    "values, facts, expected",
    {
        "all nodes are allowed": (SMALL, cluster(T4, L4), [only(PRODUCT, L4[PRODUCT], T4[PRODUCT])]),
        "one is not": (
            SMALL,
            cluster(T4, L4, H100),
            [without(PRODUCT, H100[PRODUCT]), only(PRODUCT, L4[PRODUCT], T4[PRODUCT])],
        ),
        "an unknown one stays": (SMALL, cluster(T4, SILENT, H100), [without(PRODUCT, H100[PRODUCT])]),
        "one is denied": ({"denied": ["H100"]}, cluster(T4, H100), [without(PRODUCT, H100[PRODUCT])]),
        "all are denied": ({"denied": ["*"]}, cluster(T4, H100), []),
        "slices are allowed": (
            {"allowed": ["1g.10gb"]},
            cluster(T4, SLICED),
            [without(PRODUCT, "Tesla-T4"), only(PRODUCT, SLICED[PRODUCT])],
        ),
        "too small": ({"memory": {"min": "20Gi"}}, cluster(T4, L4, SLICED), [without(MEMORY, "15360", "9728")]),
        "too large": ({"memory": {"max": "24Gi"}}, cluster(T4, L4, H100), [without(MEMORY, "81559")]),
        "40Gi are a GPU of 40 GB": ({"memory": {"min": "40Gi"}}, cluster(A100, T4), [without(MEMORY, "15360")]),
        "a share has a part of the memory": (
            {"memory": {"min": "16Gi"}},
            cluster(T4, SHARED_T4),
            [without(PRODUCT, "Tesla-T4-SHARED")],
        ),
        "a model that is sold with less": (
            {"memory": {"min": "20Gi"}},
            cluster(GKE_T4, L4),
            [without("cloud.google.com/gke-accelerator", "nvidia-tesla-t4")],
        ),
        "a size that nobody says": ({"memory": {"min": "20Gi"}}, cluster({PRODUCT: "TITAN-V"}, L4), []),
        "never too large by its model": (
            {"memory": {"max": "8Gi"}},
            cluster(GKE_T4, SLICED, T4),
            [without(MEMORY, "15360", "9728")],
        ),
    },
)
def test_a_pod_that_says_nothing_is_kept_off_nodes_that_certainly_do_not_suit_it(values, facts, expected):
    assert excluded(gpu_pod(), facts, values) == expected


AMD = "amd.com/gpu.product-name"


def test_nodes_with_gpus_of_other_vendors_are_told_apart_by_the_labels_of_these_vendors():
    facts = cluster(
        {AMD: "AMD_Instinct_MI300X_OAM"}, {AMD: "AMD_Instinct_MI210"}, {}, {PRODUCT: "Tesla-T4"}, resource="amd.com/gpu"
    )
    values = {"allowed": ["MI300X"], "prefer": ["MI300X"]}
    raw = gpu_pod(resource="amd.com/gpu")
    assert excluded(raw, facts, values) == [without(AMD, "AMD_Instinct_MI210")]  # a node without labels may suit it
    assert preferred(raw, facts, values) == [(100, AMD, ["AMD_Instinct_MI300X_OAM"])]


def test_reasons_of_several_kinds_add_up_in_one_refusal(says):
    says(refused(gpu_pod("40Gi"), cluster(T4, H100), {"denied": ["H100"]}))


def test_a_pod_for_which_some_candidate_is_unknown_is_not_refused():
    assert refused(gpu_pod("100Gi"), cluster(T4, SILENT), SMALL) == []
    unknown_pool = cluster(H100).with_pools((NodePool("p", gpu_resources=frozenset({GPU})),))
    assert refused(mutated(RULE, gpu_pod(), SMALL, unknown_pool), unknown_pool, SMALL) == []
    assert refused(gpu_pod(), ClusterFacts(), SMALL) == []


@each(
    "raw, message",
    {
        "by nodeSelector": (
            gpu_pod(nodeSelector={PRODUCT: H100[PRODUCT]}),
            "spec.nodeSelector: selects H100-80GB; the policy allows only T4 and L4. Select GPUs that are allowed, or "
            "leave the choice open, or ask the platform team.",
        ),
        "by node affinity": (
            gpu_pod(affinity=terms(term((PRODUCT, "In", ["NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"])))),
            "spec.affinity.nodeAffinity: selects A100; the policy allows only T4 and L4. Select GPUs that are allowed, "
            "or leave the choice open, or ask the platform team.",
        ),
        "by a resource of another vendor": (
            gpu_pod(resource="amd.com/gpu"),
            "spec.containers[trainer].resources: requests amd.com/gpu; the policy allows only T4 and L4. Request GPUs "
            "that are allowed, or ask the platform team.",
        ),
    },
)
def test_a_pod_that_names_what_is_not_allowed_is_refused_whatever_the_cluster(raw, message):
    for facts in (ClusterFacts(), cluster(T4, H100)):
        assert refused(raw, facts, SMALL) == [message]


def test_a_pod_that_names_a_denied_resource_is_refused(says):
    says(refused(gpu_pod(resource=SLICE), ClusterFacts(), {"denied": ["nvidia.com/mig-*"]}))
    says(refused(gpu_pod("20Gi", SLICE), ClusterFacts(), {}))


@each(
    "raw",
    {
        "an allowed model": gpu_pod(nodeSelector={PRODUCT: "Tesla-T4"}),
        "one of several": gpu_pod(affinity=terms(term((PRODUCT, "In", ["Tesla-T4", H100[PRODUCT]])))),
        "an unknown model": gpu_pod(nodeSelector={PRODUCT: "NVIDIA-Next-1"}),
        "a slice of an open model": gpu_pod(resource=SLICE),
        "no GPUs": pod(container()),
    },
)
def test_a_pod_that_may_get_what_is_allowed_is_not_refused(raw):
    assert refused(raw, ClusterFacts(), SMALL) == []


def test_an_alternative_that_is_not_allowed_is_excluded():
    raw = gpu_pod(affinity=terms(term((PRODUCT, "In", ["Tesla-T4", H100[PRODUCT]]))))
    assert without(PRODUCT, H100[PRODUCT]) in excluded(raw, cluster(T4, H100), SMALL)


def test_pods_that_name_their_node_are_judged_and_not_steered():
    raw = gpu_pod(nodeName="n1")
    assert excluded(raw, cluster(T4, H100), SMALL) == []
    assert len(refused(raw, cluster(T4, H100), SMALL)) == 1
    assert refused(gpu_pod(nodeName="n0"), cluster(T4, H100), SMALL) == []


def test_what_steering_could_not_exclude_is_refused():
    (found,) = told(gpu_pod(), cluster(T4, H100), SMALL)
    assert isinstance(found, Violation)
    assert "H100-80GB is not allowed here; the policy allows only T4 and L4" in str(found)
    assert told(mutated(RULE, gpu_pod(), SMALL, cluster(T4, H100)), cluster(T4, H100), SMALL) == []


def test_memory_that_only_the_pod_asks_for_brings_a_warning_where_no_label_tells_nodes_apart():
    (found,) = told(gpu_pod("20Gi"), cluster(T4, H100), {})
    assert isinstance(found, Advice)


@each(
    "values, message",
    {
        "a slip": ({"allowed": ["TT4"]}, '"TT4" is no known model; did you mean T4?'),
        "a label value": ({"denied": ["Tesla-T4"]}, '"Tesla-T4" is no known model; did you mean T4?'),
        "in prefer": ({"prefer": ["H1000"]}, '"H1000" is no known model; did you mean H100?'),
        "a profile": ({"allowed": ["1g.11gb"]}, "is a MIG profile of no GPU that is known"),
        "half a resource": ({"allowed": ["mig-1g.10gb"]}, "did you mean 1g.10gb?"),
        "a glob that matches nothing": ({"allowed": ["nvidai.com/*"]}, "is the name of no GPUs"),
        "a resource": ({"denied": ["amd.com/gpus"]}, "did you mean amd.com/gpu?"),
        "nothing": ({"allowed": []}, 'allowed: names no GPU; name some, or write ["*"] for all'),
        "all that is allowed is denied": (
            {"allowed": ["T4", "A100-40GB"], "denied": ["T4", "A100"]},
            "allowed: T4 and A100-40GB: all of it is denied, so no GPU is left",
        ),
        "no size is left": ({"memory": {"min": "40Gi", "max": "24Gi"}}, "min 40Gi is above max 24Gi"),
        "no unit": ({"memory": {"min": "16"}}, "16 bytes are no amount of GPU memory; write it with its"),
        "no size": ({"memory": {"min": "0"}}, "is not a whole positive number of bytes"),
    },
)
def test_settings_that_name_nothing_or_leave_nothing_are_refused_in_the_policy(values, message):
    with pytest.raises(ValidationError) as error:
        settings_of(RULE, values)
    assert message in str(error.value)


def test_no_update_takes_a_pod_to_a_denied_model_by_a_name_or_by_a_label():
    before, facts, denied = gpu_pod(schedulingGates=[{"name": "q"}]), cluster(T4, H100), {"denied": ["H100"]}
    by_name = {**before, "spec": {**before["spec"], "nodeSelector": {"kubernetes.io/hostname": "n1"}}}
    by_model = {**before, "spec": {**before["spec"], "nodeSelector": {PRODUCT: H100[PRODUCT]}}}
    under = policy({"gpuTypes": denied})
    for after in (by_name, by_model):
        (found,) = engine.validate(after, under, facts, old=before).findings
        assert found.refuses


TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}
TOLERATION = {"key": "team", "operator": "Exists"}


def test_a_node_whose_taint_is_tolerated_later_is_no_way_around_the_policy():
    """Whoever may update a pod may add tolerations, so that a pod is judged and kept off without regard to taints."""
    tainted = [node("n0", labels=T4, capacity={GPU: "8"}), node("n1", labels=H100, capacity={GPU: "8"}, taints=[TAINT])]
    facts, denied = ClusterFacts.of(tainted), {"denied": ["H100"]}
    assert excluded(gpu_pod(), facts, denied) == [without(PRODUCT, H100[PRODUCT])]
    assert refused(gpu_pod(nodeSelector={"kubernetes.io/hostname": "n1"}), facts, denied) != []
    under = policy({"gpuTypes": denied})
    (found,) = engine.validate(gpu_pod(tolerations=[TOLERATION]), under, facts, old=gpu_pod()).findings
    assert found.refuses


def test_the_nodes_of_a_term_with_match_fields_are_judged_as_others_are():
    facts = cluster(T4, H100)
    not_n9 = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}]}
    steered = excluded(gpu_pod(affinity=terms(not_n9)), facts, {"denied": ["H100"]})
    assert steered == [without(PRODUCT, H100[PRODUCT])]
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
    pinned = gpu_pod(affinity=terms(named))
    assert excluded(pinned, facts, SMALL) == [only(PRODUCT, "Tesla-T4")]  # a node of that name may be another one later
    assert (
        refused(
            gpu_pod(affinity=terms({**named, "matchFields": [{**named["matchFields"][0], "values": ["n1"]}]})),
            facts,
            SMALL,
        )
        != []
    )


def _by_field(*names: str) -> dict[str, Any]:
    return terms(*[{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names])


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"kubernetes.io/hostname": "n9"}},
        {"nodeSelector": {"pool": "new"}},
        {"nodeName": "n9"},
        {"affinity": _by_field("n9")},
        {"affinity": _by_field("n0", "n9")},
        {"affinity": terms(term(("kubernetes.io/hostname", "NotIn", ["n0", "n1"])))},
        {"affinity": terms(term(("kubernetes.io/hostname", "NotIn", ["n1"])))},
        {"affinity": terms(term(("kubernetes.io/hostname", "In", ["n0", "n9"])), term(("spot", "Exists", [])))},
    ],
    ids=str,
)
def test_a_pod_that_selects_none_of_the_forbidden_nodes_now_is_kept_off_those_that_come(spec: dict[str, Any]):
    """A patient tenant names nodes that do not exist yet, or leaves out all those that exist."""
    facts = cluster(T4, H100)
    came = ClusterFacts.of([node("n9", labels={"pool": "new", "spot": "", **H100}, capacity={GPU: "8"})])
    for values in (SMALL, {"denied": ["H100"]}):
        steered = mutated(RULE, gpu_pod(**spec), values, facts)
        assert mutated(RULE, steered, values, facts) == steered
        required = pod_from_raw(steered).required
        assert required is not None
        assert not any(one.matches(H100) for one in required[0].expressions if one.key == PRODUCT)
        assert steered["spec"].get("nodeName") or not came.selected_nodes(pod_from_raw(steered))


@pytest.mark.parametrize("values", [SMALL, {"denied": ["H100"]}], ids=str)
def test_a_pod_that_names_a_model_which_no_node_has_yet_is_refused_or_left_to_wait_for_it(values: dict[str, Any]):
    facts = cluster(T4)
    assert refused(gpu_pod(nodeSelector={PRODUCT: H100[PRODUCT]}), facts, values) != []
    for selector in ({PRODUCT: L4[PRODUCT]}, {"node.kubernetes.io/instance-type": "g6.xlarge"}):
        waiting = gpu_pod(nodeSelector=selector)
        assert refused(waiting, facts, values) == []
        assert mutated(RULE, waiting, values, facts) == waiting


def test_a_pod_for_slices_that_no_node_has_yet_is_kept_off_forbidden_gpus_that_are_cut_later():
    waiting = gpu_pod(resource="nvidia.com/mig-3g.40gb")
    for values in (SMALL, {"denied": ["H100"]}):
        assert excluded(waiting, cluster(T4, H100), values) == [without(PRODUCT, H100[PRODUCT])]
    assert excluded(waiting, cluster(T4, H100), {"allowed": ["3g.40gb"]}) == []


def test_the_label_of_a_queue_takes_no_pod_to_a_denied_model_that_no_label_tells_apart():
    """Whoever writes a pod may write the label, and where Kueue runs, the pod has its gate when it is validated."""
    own, denied = cluster(SILENT, {"gpu-type": "h100"}), {"denied": ["H100"]}
    queued = gpu_pod()
    queued["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    assert refused(queued, own, denied) != []
    queued["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    assert refused(queued, own, denied) == []


def test_a_pod_that_selects_no_node_is_kept_off_a_cluster_that_has_only_what_it_may_not_use():
    assert excluded(gpu_pod(nodeSelector={"pool": "new"}), cluster(H100), {"denied": ["H100"]}) == [
        without(PRODUCT, H100[PRODUCT])
    ]


@each(
    "nodes, expected",
    {
        "its own": ([{**T4, KARPENTER: "t4"}, {**H100, KARPENTER: "h100"}], [only(KARPENTER, "t4")]),
        "on some nodes only": ([{**T4, KARPENTER: "t4"}, L4, H100], []),
        "GKE's": ([GKE_T4], [only("cloud.google.com/gke-accelerator", "nvidia-tesla-t4")]),
    },
)
def test_a_pod_is_held_by_a_label_that_the_autoscaler_knows(nodes, expected):
    """Karpenter makes no node for a pod that demands a label which only GPU Feature Discovery will write."""
    found = excluded(gpu_pod(), cluster(*nodes), SMALL)
    assert [one for one in found if one["operator"] == "In"] == expected


EKS_A100 = {"node.kubernetes.io/instance-type": "p4d.24xlarge"}
EKS_T4 = {"node.kubernetes.io/instance-type": "g4dn.xlarge"}


def test_nodes_without_labels_about_gpus_are_known_by_their_machine_type():
    assert excluded(gpu_pod(), cluster(EKS_A100, EKS_T4), SMALL) == [without(*EKS_A100, *EKS_A100.values())]
    assert len(refused(gpu_pod(), cluster(EKS_A100), SMALL)) == 1
    assert excluded(gpu_pod(), cluster(EKS_A100, T4), SMALL) == [only(PRODUCT, T4[PRODUCT])]


def test_labels_about_nvidias_gpus_say_nothing_about_devices_of_a_vendor_that_no_table_has():
    known = Accelerators((Declared("example.com/vgpu", Vendor.OTHER),))
    offering = node("n0", labels=A100, capacity={GPU: "8", "example.com/vgpu": "4"})
    facts = ClusterFacts.of([offering], accelerators=known)
    asking = pod_from_raw(gpu_pod(resource="example.com/vgpu"), known)
    assert list(RULE.validate(asking, settings_of(RULE, {"denied": ["A100"]}), facts)) == []
    assert mutations(RULE, asking, settings_of(RULE, SMALL), facts) == []


LABELS = st.sampled_from((T4, L4, A100, H100, SLICED, SHARED_T4, GKE_T4, SILENT, {PRODUCT: "NVIDIA-Next-1"}))
KINDS = ("T4", "L4", "A100", "A100-40GB", "H100", "1g.10gb", "nvidia.com/mig-*", "nvidia.com/gpu", "amd.com/*", "*")
SIZES = st.sampled_from(("4Gi", "10Gi", "16Gi", "40Gi", "80G"))


def _consistent(values: dict[str, Any]) -> bool:
    try:
        settings_of(RULE, values)
    except ValidationError:
        return False
    return True


VALUES = any_of(
    allowed=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True),
    denied=st.lists(st.sampled_from(KINDS[:7]), max_size=2, unique=True),
    memory=any_of(min=SIZES, max=SIZES),
    prefer=st.lists(st.sampled_from(KINDS[:5]), max_size=2, unique=True),
).filter(_consistent)


@checked
@given(
    st.lists(LABELS, min_size=1, max_size=5),
    VALUES,
    st.none() | SIZES,
    st.sampled_from((GPU, SLICE)),
    st.sampled_from(({}, {"nodeSelector": {PRODUCT: "Tesla-T4"}}, {"affinity": terms(term((PRODUCT, "Exists", [])))})),
)
def test_no_pod_loses_its_last_candidate_in_silence_and_none_is_refused_that_an_unknown_node_may_take(
    labels, values, memory, resource, spec
):
    facts = cluster(*labels, resource=resource)
    raw = gpu_pod(memory, resource, **spec)
    completed = mutated(RULE, raw, values, facts)
    before, after = (facts.matching_nodes(pod_from_raw(one)) for one in (raw, completed))
    assert bool(before) == bool(after)
    assert set(refused(completed, facts, values)) <= set(refused(raw, facts, values))
    names = not spec and resource == GPU and not {"amd.com/*", "1g.10gb"} & {*values.get("allowed", ())}
    barred = {"*", "nvidia.com/gpu"} & {*values.get("denied", ())}
    if SILENT in labels and names and not barred and "allowed" not in values:
        assert not [one for one in refused(completed, facts, values) if not one.startswith("metadata")]


_H100 = {PRODUCT: H100[PRODUCT]}

CASE = RuleCase(
    pods=lambda raw: RulePods(
        lacks=tolerating_gpu_nodes(raw), breaks=spec_with(tolerating_gpu_nodes(raw), "nodeSelector", _H100)
    ),
    values=VALUES,
    enforced={"denied": ["H100"]},
    injecting={"prefer": ["RTX-3090"]},
    fuzzed={"denied": ["H100"]},
    completes_every_gpu_pod=True,
    completes_when_enforced=False,
)
