"""Pods get GPUs of their own, or shares and slices, where the labels of nodes say what a unit of nvidia.com/gpu is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.facts.samples import node
from tests.golden import each
from tests.rules.samples import container, expression, mutated, mutations, pod, settings_of, terms
from tests.strategies import checked
from webhook.facts.facts import ClusterFacts
from webhook.gpus.gpu_shares import share_of
from webhook.model.pod_reader import pod_from_raw
from webhook.policy.cluster_settings import PoolSettings
from webhook.rules.rule import Violation
from webhook.rules.shared_gpus import RULE

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
PRODUCT, REPLICAS, STRATEGY = "nvidia.com/gpu.product", "nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy"
MIG, SLICE = "nvidia.com/mig.strategy", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"
ACCELERATOR, PARTITION = "cloud.google.com/gke-accelerator", "cloud.google.com/gke-gpu-partition-size"
CLIENTS, GKE_SHARING = "cloud.google.com/gke-max-shared-clients-per-gpu", "cloud.google.com/gke-gpu-sharing-strategy"


def labels(product, replicas="1", strategy="none", **other):
    """The labels of GPU Feature Discovery."""
    return {PRODUCT: product, REPLICAS: replicas, STRATEGY: strategy, **other}


WHOLE = labels("NVIDIA-H100-80GB-HBM3")
MIXED = labels("NVIDIA-A100-SXM4-40GB", **{MIG: "mixed"})
SINGLE = labels(SLICE, **{MIG: "single"})
SINGLE_SHARED = labels(f"{SLICE}-SHARED", "2", "time-slicing", **{MIG: "single"})
SLICED = labels("Tesla-T4-SHARED", "4", "time-slicing")
RENAMED = labels("Tesla-T4", "4", "time-slicing")
MPS = labels("NVIDIA-L4-SHARED", "3", "mps")
CONTRADICTORY = labels("Tesla-T4-SHARED", "x", "time-slicing")
PRODUCT_ONLY = {PRODUCT: "Tesla-T4"}
GKE_WHOLE = {ACCELERATOR: "nvidia-l4"}
GKE_SHARED = {ACCELERATOR: "nvidia-l4", CLIENTS: "8", GKE_SHARING: "time-sharing"}
GKE_MPS = {ACCELERATOR: "nvidia-l4", CLIENTS: "8", GKE_SHARING: "mps"}
GKE_SLICE = {ACCELERATOR: "nvidia-tesla-a100", PARTITION: "1g.5gb"}
SETS = {
    "whole": WHOLE,
    "mixed": MIXED,
    "single": SINGLE,
    "single, time-slicing": SINGLE_SHARED,
    "time-slicing": SLICED,
    "MPS": MPS,
    "contradictory": CONTRADICTORY,
    "the product alone": PRODUCT_ONLY,
    "none": {},
    "GKE, whole": GKE_WHOLE,
    "GKE, time-sharing": GKE_SHARED,
    "GKE, MPS": GKE_MPS,
    "GKE, slices": GKE_SLICE,
}
"""What nodes with capacity of nvidia.com/gpu have as labels, by what it is."""
UNSUITED = {
    "exclusive": {"single, time-slicing", "time-slicing", "MPS", "GKE, time-sharing", "GKE, MPS"},
    "shared": {"whole", "mixed", "GKE, whole"},
}


def cluster(*kinds, resource=GPU):
    return ClusterFacts.of([node(f"n{at}", labels=kind, capacity={resource: "8"}) for at, kind in enumerate(kinds)])


def asking(gpus=1, resource=GPU, **spec):
    return pod(container(gpus=gpus, resource=resource), **spec)


def excluded(raw, facts, isolation):
    settings = settings_of(RULE, {"isolation": isolation})
    return [str(edit.expression) for edit in mutations(RULE, pod_from_raw(raw), settings, facts)]


def told(raw, facts, isolation):
    return list(RULE.validate(pod_from_raw(raw), settings_of(RULE, {"isolation": isolation}), facts))


@pytest.mark.parametrize("isolation", ["exclusive", "shared"])
@pytest.mark.parametrize("kind", SETS)
def test_a_pod_is_refused_where_every_node_has_units_that_it_must_not_get(isolation, kind):
    found = told(asking(), cluster(SETS[kind]), isolation)
    assert [type(one) for one in found] == ([Violation] if kind in UNSUITED[isolation] else [])


@pytest.mark.parametrize("isolation", ["exclusive", "shared"])
@pytest.mark.parametrize("kind", SETS)
def test_a_pod_is_kept_off_nodes_with_units_that_it_must_not_get(isolation, kind):
    suited = {"exclusive": labels("NVIDIA-B200"), "shared": labels("NVIDIA-L40S-SHARED", "2", "time-slicing")}[
        isolation
    ]
    facts = cluster(SETS[kind], suited)
    raw = asking()
    settings = settings_of(RULE, {"isolation": isolation})
    edits = list(mutations(RULE, pod_from_raw(raw), settings, facts))
    assert bool(edits) is (kind in UNSUITED[isolation])
    assert all(edit.expression.accepts(suited.get(edit.expression.key)) for edit in edits)
    assert all(edit.expression.operator == "NotIn" for edit in edits)


def test_any_isolation_says_nothing():
    assert told(asking(), cluster(SLICED), "any") == []
    assert excluded(asking(), cluster(SLICED, WHOLE), "any") == []


@each(
    "isolation, kinds, expected",
    {
        "by how GPUs are shared": ("exclusive", (SLICED, WHOLE), f"{STRATEGY} NotIn [time-slicing]"),
        "both ways": ("exclusive", (SLICED, MPS, WHOLE), f"{STRATEGY} NotIn [mps, time-slicing]"),
        "GKE": ("exclusive", (GKE_SHARED, GKE_WHOLE), f"{GKE_SHARING} NotIn [time-sharing]"),
        "an equal strategy": ("exclusive", (SLICED, RENAMED), f"{PRODUCT} NotIn [Tesla-T4-SHARED]"),
        "whole GPUs": ("shared", (WHOLE, SLICED), f"{PRODUCT} NotIn [NVIDIA-H100-80GB-HBM3]"),
        "whole GPUs of GKE": ("shared", (GKE_WHOLE, GKE_SLICE), f"{ACCELERATOR} NotIn [nvidia-l4]"),
    },
)
def test_labels_that_are_true_of_nodes_that_come_later_exclude(isolation, kinds, expected):
    (found,) = excluded(asking(), cluster(*kinds), isolation)
    assert found == expected


def test_the_label_of_a_queue_takes_no_pod_to_units_that_no_label_tells_apart():
    facts, labelled = cluster(SLICED, WHOLE), {"name": "p", "labels": {"kueue.x-k8s.io/queue-name": "q"}}
    assert told({**asking(), "metadata": labelled}, facts, "exclusive") == told(asking(), facts, "exclusive") != []


@pytest.mark.parametrize("spec", [{"nodeSelector": {"pool": "new"}}, {"nodeName": "n9"}], ids=str)
def test_a_pod_that_selects_no_node_yet_is_kept_off_units_that_it_must_not_get(spec):
    (found,) = excluded(asking(**spec), cluster(SLICED, WHOLE), "exclusive")
    assert found == f"{STRATEGY} NotIn [time-slicing]"


def test_a_pod_that_only_gets_shares_is_told_which_and_what_to_select(says):
    (found,) = told(asking(), cluster(SLICED, MPS, SINGLE_SHARED), "exclusive")
    says([str(found)])


def test_a_pod_that_only_gets_whole_gpus_is_told_what_to_request(says):
    nodes = [node("h100", labels=WHOLE, capacity={GPU: "8"}), node("t4", labels=RENAMED, capacity={SHARED: "4"})]
    (found,) = told(asking(2), ClusterFacts.of(nodes), "shared")
    says([str(found)])


def test_a_pod_that_selects_whole_gpus_by_labels_is_refused_although_there_are_shares():
    facts = cluster(WHOLE, SLICED)
    chosen = asking(nodeSelector={STRATEGY: "none"})
    assert excluded(chosen, facts, "shared") == []
    assert [type(one) for one in told(chosen, facts, "shared")] == [Violation]


@pytest.mark.parametrize("resource", [SHARED, "nvidia.com/mig-1g.10gb.shared"])
def test_who_asks_for_a_share_in_so_many_words_is_refused_where_pods_have_gpus_of_their_own(resource):
    (found,) = told(asking(2, resource), cluster(), "exclusive")
    assert str(found) == (
        f"spec.containers[trainer].resources: requests 2 {resource}, which other pods use at the same time; the policy "
        f"keeps pods on GPUs and MIG slices of their own. Request {resource.removesuffix('.shared')}."
    )


@each(
    "resource, isolation",
    {
        "a slice is a GPU of one's own": ("nvidia.com/mig-1g.10gb", "exclusive"),
        "a slice is a place for small work": ("nvidia.com/mig-1g.10gb", "shared"),
        "a share": (SHARED, "shared"),
        "a GPU of another vendor": ("amd.com/gpu", "shared"),
    },
)
def test_other_resources_are_not_told_apart(resource, isolation):
    facts = cluster(WHOLE, SLICED, resource=resource)
    assert (told(asking(1, resource), facts, isolation), excluded(asking(1, resource), facts, isolation)) == ([], [])


def test_a_pod_for_which_no_node_is_known_is_not_refused():
    assert told(asking(), ClusterFacts(), "exclusive") == []


def test_a_pool_of_which_nothing_about_sharing_is_known_stays_eligible():
    pool = PoolSettings(name="p", product="Tesla-T4").pool
    for isolation, kind in (("exclusive", SLICED), ("shared", WHOLE)):
        facts = cluster(kind).with_pools((pool,))
        steered = mutated(RULE, asking(), {"isolation": isolation}, facts)
        assert not any(isinstance(one, Violation) for one in told(steered, facts, isolation))
        assert all(
            expression.expression.accepts("Tesla-T4")
            for expression in mutations(
                RULE, pod_from_raw(asking()), settings_of(RULE, {"isolation": isolation}), facts
            )
            if expression.expression.key == PRODUCT
        )


def test_a_pod_that_names_its_node_is_told_and_not_changed():
    facts = cluster(SLICED, WHOLE)
    bound = asking(nodeName="n0")
    assert excluded(bound, facts, "exclusive") == []
    assert [type(one) for one in told(bound, facts, "exclusive")] == [Violation]
    assert told(asking(nodeName="n1"), facts, "exclusive") == []


def test_a_pod_that_names_several_nodes_is_kept_off_the_one_that_does_not_suit_it():
    named = asking(affinity=terms({"matchFields": [expression("metadata.name", "In", ["n0", "n1"])]}))
    facts = cluster(SLICED, WHOLE)
    assert excluded(named, facts, "exclusive") != []
    (found,) = told(named, facts, "exclusive")
    assert found.is_kept_off
    assert "some nodes that the pod could land on have other units: T4 is shared by time-slicing" in found.found


def test_a_pod_that_no_label_keeps_off_nodes_is_refused():
    """Both have the product of the GPUs alone, and one of them says nothing about sharing."""
    facts = cluster(GKE_WHOLE, {**GKE_WHOLE, "nvidia.com/gpu.product": "NVIDIA-L4-SHARED", **SLICED, PRODUCT: "a"})
    (found,) = told(asking(), facts, "shared")
    assert isinstance(found, Violation)
    assert "no label separates them: L4 is a whole GPU" in found.found


KINDS = st.lists(st.sampled_from(list(SETS.values())), min_size=1, max_size=5)


@checked
@given(
    KINDS, st.sampled_from(["exclusive", "shared"]), st.sampled_from([{}, {STRATEGY: "none"}, {PRODUCT: "Tesla-T4"}])
)
def test_no_pod_loses_its_last_node_in_silence(kinds, isolation, selector):
    facts = cluster(*kinds)
    raw = asking(nodeSelector=selector)
    settings = settings_of(RULE, {"isolation": isolation})
    before = facts.matching_nodes(pod_from_raw(raw))
    edits = list(mutations(RULE, pod_from_raw(raw), settings, facts))
    left = [
        one for one in before if all(edit.expression.accepts(one.labels.get(edit.expression.key)) for edit in edits)
    ]
    kept = [one for one in before if dict(one.labels) not in _wrong(isolation)]
    assert [one for one in left if one in kept] == kept
    assert bool(left) == bool(before)
    after = told(mutated(RULE, raw, {"isolation": isolation}, facts), facts, isolation)
    assert any(isinstance(one, Violation) for one in after) == (bool(before) and left != kept)


def _wrong(isolation):
    """The labels whose unit is a share, or a whole GPU; said a second time."""
    found = [SETS[kind] for kind in UNSUITED[isolation]]
    assert all(share_of(one).is_known for one in found)
    return found
