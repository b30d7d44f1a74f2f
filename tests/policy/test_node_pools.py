"""Node pools that scale from zero, as policies declare them."""

import json
import textwrap

from hypothesis import given, reject
from hypothesis import strategies as st

from tests.golden import each
from webhook.model.node import NodePool, Taint
from webhook.policy.cluster_settings import PoolSettings

H100 = """
- name: h100-spot
  labels: {cloud.google.com/gke-nodepool: h100-spot}
  taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
  driver: "550.54.15"
  product: NVIDIA-H100-80GB-HBM3
  gpus: 8
"""


def declare(policies, name: str, pools: str, rules: str = "{}") -> None:
    """Write NAME.yaml with these pools, the first of which begins on line 6."""
    head = f"apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {{name: {name}}}\nspec:\n"
    listed = textwrap.indent(pools.strip(), "    ")
    policies.write(f"{name}.yaml", f"{head}  nodePools:\n{listed}\n  rules: {rules}\n")


def pools_of(policies, namespace: str) -> tuple[NodePool, ...]:
    return policies.load().for_namespace(namespace).node_pools


def labels_of(policies, pool: str) -> dict[str, str]:
    declare(policies, "_default", f"- {{name: p, {pool}}}")
    (found,) = pools_of(policies, "any")
    return dict(found.labels)


EVERY_NODE = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
NVIDIA_NODE = {**EVERY_NODE, "nvidia.com/gpu.present": "true"}


def test_a_pool_has_the_labels_that_its_nodes_will_have(policies) -> None:
    declare(policies, "_default", H100)
    labels = {
        "cloud.google.com/gke-nodepool": "h100-spot",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "nvidia.com/cuda.driver-version.full": "550.54.15",
        "nvidia.com/cuda.driver-version.major": "550",
        "nvidia.com/cuda.driver-version.minor": "54",
        "nvidia.com/cuda.driver-version.revision": "15",
        "nvidia.com/cuda.driver.major": "550",
        "nvidia.com/cuda.driver.minor": "54",
        "nvidia.com/cuda.driver.rev": "15",
        "nvidia.com/gpu.compute.major": "9",
        "nvidia.com/gpu.compute.minor": "0",
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.family": "hopper",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    }
    taints = (Taint("nvidia.com/gpu", "present", "NoSchedule"),)
    expected = NodePool("h100-spot", tuple(labels.items()), taints, frozenset({"nvidia.com/gpu"}), 8)
    assert pools_of(policies, "any") == (expected,)


@each(
    "pool, expected",
    {
        "GPUs": ("gpus: 2", {**NVIDIA_NODE, "nvidia.com/gpu.count": "2"}),
        "architecture": ("arch: arm64", {**NVIDIA_NODE, "kubernetes.io/arch": "arm64"}),
        "the architecture of a GPU on one board with a CPU": (
            "product: NVIDIA-GB200",
            {
                **NVIDIA_NODE,
                "kubernetes.io/arch": "arm64",
                "nvidia.com/gpu.compute.major": "10",
                "nvidia.com/gpu.compute.minor": "0",
                "nvidia.com/gpu.family": "blackwell",
                "nvidia.com/gpu.product": "NVIDIA-GB200",
            },
        ),
        "GPUs of others have no labels of NVIDIA": ("resource: amd.com/gpu, gpus: 8", EVERY_NODE),
        "of a branch, only the major version is known": (
            'driver: "470"',
            {**NVIDIA_NODE, "nvidia.com/cuda.driver-version.major": "470", "nvidia.com/cuda.driver.major": "470"},
        ),
        "labels win over what is taken for granted": (
            "labels: {kubernetes.io/os: windows, kubernetes.io/arch: arm64, nvidia.com/gpu.present: 'false'}",
            {"kubernetes.io/os": "windows", "kubernetes.io/arch": "arm64", "nvidia.com/gpu.present": "false"},
        ),
        "labels may repeat": (
            "arch: arm64, labels: {kubernetes.io/arch: arm64}",
            {**NVIDIA_NODE, "kubernetes.io/arch": "arm64"},
        ),
    },
)
def test_labels_follow_from_what_a_pool_says(policies, pool, expected) -> None:
    assert expected == labels_of(policies, pool)


def test_a_driver_of_two_numbers_has_an_empty_revision_and_leading_zeros_are_kept(policies) -> None:
    short, long = labels_of(policies, 'driver: "570.26"'), labels_of(policies, 'driver: "535.54.03"')
    assert short["nvidia.com/cuda.driver-version.full"] == "570.26"
    assert (short["nvidia.com/cuda.driver-version.revision"], short["nvidia.com/cuda.driver.rev"]) == ("", "")
    assert long["nvidia.com/cuda.driver-version.revision"] == "03"


def test_the_list_of_a_namespace_replaces_that_of_the_default(policies) -> None:
    declare(policies, "_default", H100)
    declare(policies, "own", "- {name: t4}\n- {name: l4}")
    declare(policies, "none", "[]")
    policies.policy("silent")
    loaded = policies.load()
    names = {name: [pool.name for pool in loaded.for_namespace(name).node_pools] for name in ("own", "none", "silent")}
    assert names == {"own": ["t4", "l4"], "none": [], "silent": ["h100-spot"]}
    assert loaded.for_namespace("silent").node_pools is loaded.default.node_pools


LABELS = st.dictionaries(
    st.sampled_from(["nvidia.com/gpu.count", "kubernetes.io/arch", "zone", "nvidia.com/cuda.driver.major"]),
    st.sampled_from(["amd64", "8", "550", ""]),
)
SETTINGS = st.fixed_dictionaries(
    {"name": st.just("p"), "labels": LABELS},
    optional={
        "driver": st.sampled_from(["550", "550.54", "550.54.15"]),
        "gpus": st.sampled_from([1, 8]),
        "arch": st.sampled_from(["amd64", "arm64"]),
        "resource": st.sampled_from(["nvidia.com/gpu", "amd.com/gpu"]),
    },
)


@given(SETTINGS)
def test_a_pool_that_is_accepted_has_every_label_it_was_given_as_it_was_given(written) -> None:
    try:
        pool = PoolSettings.model_validate_json(json.dumps(written)).pool
    except ValueError:
        reject()
    assert dict(pool.labels).items() >= written["labels"].items()
    assert list(pool.labels) == sorted(dict(pool.labels).items())
