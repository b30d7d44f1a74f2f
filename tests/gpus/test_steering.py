"""A pod is kept off nodes that cannot run it, and off no other nodes."""

from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each, golden
from webhook.gpus.steering import Cause, steer
from webhook.model.selectors import Expression

RUNTIME, DRIVER = "nvidia.com/cuda.runtime-version.major", "nvidia.com/cuda.driver-version.major"
FULL, COMPUTE, PRODUCT = "nvidia.com/cuda.driver-version.full", "nvidia.com/gpu.compute.major", "nvidia.com/gpu.product"
ARCH = "kubernetes.io/arch"

LABELS = st.dictionaries(st.sampled_from((RUNTIME, DRIVER, FULL, COMPUTE, PRODUCT, ARCH)), st.sampled_from("abc"))
CAUSES = st.sampled_from((Cause.DRIVER, Cause.GPU, Cause.ARCHITECTURE, Cause.IMAGE, Cause.NONE))


@given(st.lists(st.tuples(LABELS, CAUSES), max_size=6), st.lists(LABELS, max_size=6))
def test_only_unfit_nodes_are_excluded_and_the_rest_is_listed(unfit, others):
    found = steer(unfit, others)
    assert all(expression.accepts(labels.get(expression.key)) for labels in others for expression in found.exclusions)
    excluded = {
        at
        for at, (labels, _) in enumerate(unfit)
        if any(not expression.accepts(labels.get(expression.key)) for expression in found.exclusions)
    }
    assert excluded.isdisjoint(found.left)
    assert excluded | set(found.left) == set(range(len(unfit)))


@given(st.lists(st.tuples(LABELS, CAUSES), max_size=6), st.lists(LABELS, max_size=6))
def test_a_node_without_labels_stays_eligible(unfit, others):
    assert all(expression.accepts(None) for expression in steer(unfit, others).exclusions)


@each(
    "cause, expected",
    {
        "by what the driver offers": (Cause.DRIVER, Expression(RUNTIME, "NotIn", ("12",))),
        "by what the GPU is": (Cause.GPU, Expression(COMPUTE, "NotIn", ("7",))),
        "by the processor": (Cause.ARCHITECTURE, Expression(ARCH, "NotIn", ("arm64",))),
    },
)
def test_the_coarsest_label_about_the_cause_is_used(cause, expected):
    unfit = {RUNTIME: "12", DRIVER: "535", FULL: "535.1", COMPUTE: "7", PRODUCT: "x", ARCH: "arm64"}
    other = {RUNTIME: "13", DRIVER: "580", FULL: "580.1", COMPUTE: "9", PRODUCT: "y", ARCH: "amd64"}
    assert steer([(unfit, cause)], [other]).exclusions == (expected,)


def test_one_label_that_separates_all_beats_two_that_separate_some():
    unfit = [({DRIVER: "470", FULL: "470.1"}, Cause.DRIVER), ({DRIVER: "535", FULL: "535.1"}, Cause.DRIVER)]
    found = steer(unfit, [{DRIVER: "535", FULL: "535.2"}])
    assert found.exclusions == (Expression(FULL, "NotIn", ("470.1", "535.1")),)


def test_nodes_with_equal_labels_are_left():
    assert steer([({DRIVER: "535"}, Cause.DRIVER)], [{DRIVER: "535"}]).left == (0,)


PARTITION, ACCELERATOR = "cloud.google.com/gke-gpu-partition-size", "cloud.google.com/gke-accelerator"
CLIENTS, REPLICAS = "cloud.google.com/gke-max-shared-clients-per-gpu", "nvidia.com/gpu.replicas"
MEMORY, TYPE = "nvidia.com/gpu.memory", "node.kubernetes.io/instance-type"
SHARED = {PRODUCT: "NVIDIA-A100-SXM4-80GB-SHARED", REPLICAS: "8", MEMORY: "81920"}


@golden
def test_what_is_excluded_stays_true_of_nodes_that_come_later(cause, unfit, others, expected):
    exclusions = steer([(unfit, cause)], others).exclusions
    wanted = () if expected is None else (Expression(expected[0], "NotIn", (expected[1],)),)
    assert exclusions == wanted
