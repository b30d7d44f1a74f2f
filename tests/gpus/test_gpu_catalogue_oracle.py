"""A pod counts against every model that it could get, whatever it demands: compared with nodes of every kind."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rules.samples import container, expression, pod
from tests.strategies import examples
from webhook.gpus.gpu_catalogue import CATALOGUE
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw

PRODUCT = "nvidia.com/gpu.product"
GKE = "cloud.google.com/gke-accelerator"
INSTANCE = "node.kubernetes.io/instance-type"
TYPE = "gpu-type"
POOL = "example.com/pool"
ZONE = "zone"

CATALOGUES = {
    "shipped": CATALOGUE,
    "extended": CATALOGUE.extended(
        {
            "T4": {POOL: ["small"]},
            "SXM": {PRODUCT: ["NVIDIA-H100-80GB-HBM3*"]},
            "Reserved": {POOL: ["gold*"], PRODUCT: ["NVIDIA-H100-*"]},
            "Rented": {POOL: ["*-1"]},
            "X9": {POOL: ["x9"], TYPE: ["x9-*"]},
        }
    ),
}


@dataclass(frozen=True)
class Kind:
    """Nodes with one GPU model: the values that each of their labels may have, and the names that it has."""

    labels: Mapping[str, tuple[str, ...]]
    shipped: frozenset[str]
    own: frozenset[str] = frozenset()


KINDS = (
    Kind(
        {
            PRODUCT: ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"),
            GKE: ("nvidia-h100-80gb",),
            INSTANCE: ("p5.48xlarge", "Standard_NC40ads_H100_v5", "machine"),
            TYPE: ("h100", "fast"),
            POOL: ("gold-1", "other"),
        },
        frozenset({"H100", "H100-80GB"}),
        frozenset({"SXM", "Reserved"}),
    ),
    Kind(
        {PRODUCT: ("NVIDIA-H100-PCIe",), INSTANCE: ("machine",), TYPE: ("h100", "fast"), POOL: ("gold-1", "other")},
        frozenset({"H100", "H100-80GB"}),
        frozenset({"Reserved"}),
    ),
    Kind(
        {
            PRODUCT: ("Tesla-T4", "Tesla-T4-SHARED"),
            GKE: ("nvidia-tesla-t4",),
            INSTANCE: ("g4dn.xlarge", "machine"),
            TYPE: ("t4", "fast"),
            POOL: ("small", "other"),
        },
        frozenset({"T4"}),
    ),
    Kind(
        {
            PRODUCT: ("NVIDIA-A100-SXM4-40GB",),
            GKE: ("nvidia-tesla-a100",),
            INSTANCE: ("p4d.24xlarge", "machine"),
            TYPE: ("a100", "fast"),
            POOL: ("other",),
        },
        frozenset({"A100", "A100-40GB"}),
    ),
    Kind(
        {PRODUCT: ("NVIDIA-A100-80GB-PCIe",), GKE: ("nvidia-a100-80gb",), TYPE: ("a100",), POOL: ("other",)},
        frozenset({"A100", "A100-80GB"}),
    ),
    Kind({TYPE: ("x9-large",), POOL: ("x9",), INSTANCE: ("machine",)}, frozenset(), frozenset({"X9"})),
)
VALUES = {
    key: sorted({value for kind in KINDS for value in kind.labels.get(key, ())} | {"unknown"})
    for key in (PRODUCT, GKE, INSTANCE, TYPE, POOL)
} | {ZONE: ["a", "b"]}


def nodes(kind: Kind) -> Iterator[dict[str, str]]:
    """The labels of every node of a kind: each label with any of its values, or missing."""
    keys = (*kind.labels, ZONE)
    for values in product(*(("", *kind.labels.get(key, ("a",))) for key in keys)):
        yield {key: value for key, value in zip(keys, values, strict=True) if value}


NODES = [(kind, labels) for kind in KINDS for labels in nodes(kind)]


def names_of(kind: Kind, labels: Mapping[str, str], which: str) -> frozenset[str]:
    """The names that limits may have for the GPUs of a node."""
    if which == "shipped":
        return kind.shipped
    rented = {"Rented"} if labels.get(POOL, "").endswith("-1") else set()
    return kind.shipped | kind.own | rented


def matches(asking: Pod, labels: Mapping[str, str]) -> bool:
    """Whether the scheduler would put the pod on a node with these labels."""
    if any(labels.get(key) != value for key, value in asking.node_selector.items()):
        return False
    return asking.required is None or any(
        not term.matches_nothing and all(one.matches(labels) for one in term.expressions) for term in asking.required
    )


def demands() -> st.SearchStrategy[dict[str, object]]:
    """Anything that a pod may demand of a label."""
    keys = st.sampled_from(sorted(VALUES))
    some = keys.flatmap(lambda key: st.tuples(st.just(key), st.lists(st.sampled_from(VALUES[key]), max_size=3)))
    operators = st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Near"))
    return st.builds(lambda one, operator: expression(one[0], operator, one[1]), some, operators)


def aimed() -> st.SearchStrategy[dict[str, object]]:
    """A demand that nodes of some kind meet, so that alternatives say different models."""
    labels = [(key, value) for kind in KINDS for key, values in kind.labels.items() for value in values]
    return st.sampled_from(labels).map(lambda label: expression(label[0], "In", [label[1]]))


def pods() -> st.SearchStrategy[Pod]:
    """Pods with a short node selector and up to three alternatives."""
    selectors = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in VALUES.items()})
    said = st.lists(aimed(), min_size=1, max_size=2) | st.lists(demands() | aimed(), max_size=3)
    term = said.map(lambda found: {"matchExpressions": found})
    affinity = st.none() | st.lists(term, max_size=3).map(
        lambda terms: {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    )
    few = selectors.map(lambda labels: dict(sorted(labels.items())[:2])) | st.just({})
    return st.builds(
        lambda labels, rules: pod_from_raw(pod(container(gpus=1), nodeSelector=labels, affinity=rules)), few, affinity
    )


@settings(max_examples=examples(300))
@given(pods(), st.sampled_from(sorted(CATALOGUES)))
def test_a_pod_counts_against_every_model_that_it_could_get(asking, which):
    catalogue = CATALOGUES[which]
    models = catalogue.models_of(asking)
    if models is None:
        return
    counted = {name for name in catalogue.names if not catalogue.leaves(name).isdisjoint(models)}
    for kind, labels in NODES:
        if matches(asking, labels):
            assert names_of(kind, labels, which) <= counted, labels


@settings(max_examples=examples(100))
@given(st.sampled_from(KINDS).flatmap(lambda kind: st.tuples(st.just(kind), st.sampled_from(sorted(kind.labels)))))
def test_a_pod_that_names_the_gpu_counts_against_no_other_family(chosen):
    kind, key = chosen
    for value in kind.labels[key]:
        models = CATALOGUE.models_of(pod_from_raw(pod(container(gpus=1), nodeSelector={key: value})))
        if models is not None and kind.shipped:
            families = {name for name in ("H100", "T4", "A100") if not CATALOGUE.leaves(name).isdisjoint(models)}
            assert families == kind.shipped & {"H100", "T4", "A100"}
