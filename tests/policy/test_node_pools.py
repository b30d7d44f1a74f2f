"""Node pools that scale from zero, as policies declare them."""

import json
import textwrap

import pytest
import yaml
from hypothesis import given, reject
from hypothesis import strategies as st

from webhook.model.node import NodePool, Taint
from webhook.policy.cluster_settings import PoolSettings
from webhook.policy.schema import part_at, policy_schema
from webhook.policy.show import explain

H100 = """
- name: h100-spot
  labels: {cloud.google.com/gke-nodepool: h100-spot}
  taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
  driver: "550.54.15"
  product: NVIDIA-H100-80GB-HBM3
  gpus: 8
"""
FIRST_LINE = 6


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


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        pytest.param("gpus: 2", {**NVIDIA_NODE, "nvidia.com/gpu.count": "2"}, id="GPUs"),
        pytest.param("arch: arm64", {**NVIDIA_NODE, "kubernetes.io/arch": "arm64"}, id="architecture"),
        pytest.param(
            "product: NVIDIA-GB200",
            {
                **NVIDIA_NODE,
                "kubernetes.io/arch": "arm64",
                "nvidia.com/gpu.compute.major": "10",
                "nvidia.com/gpu.compute.minor": "0",
                "nvidia.com/gpu.family": "blackwell",
                "nvidia.com/gpu.product": "NVIDIA-GB200",
            },
            id="the architecture of a GPU on one board with a CPU",
        ),
        pytest.param("resource: amd.com/gpu, gpus: 8", EVERY_NODE, id="GPUs of others have no labels of NVIDIA"),
        pytest.param(
            'driver: "470"',
            {**NVIDIA_NODE, "nvidia.com/cuda.driver-version.major": "470", "nvidia.com/cuda.driver.major": "470"},
            id="of a branch, only the major version is known",
        ),
        pytest.param(
            "labels: {kubernetes.io/os: windows, kubernetes.io/arch: arm64, nvidia.com/gpu.present: 'false'}",
            {"kubernetes.io/os": "windows", "kubernetes.io/arch": "arm64", "nvidia.com/gpu.present": "false"},
            id="labels win over what is taken for granted",
        ),
        pytest.param(
            "arch: arm64, labels: {kubernetes.io/arch: arm64}",
            {**NVIDIA_NODE, "kubernetes.io/arch": "arm64"},
            id="labels may repeat",
        ),
    ],
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


def test_pools_are_part_of_the_hash_and_none_leave_it_as_it_was(policies) -> None:
    policies.policy("_default", "gpuLimits: {mode: warn}")
    without = policies.load()
    declare(policies, "_default", "[]", "{gpuLimits: {mode: warn}}")
    assert (without.default.hash, without.hash) == (policies.load().default.hash, policies.load().hash)
    declare(policies, "_default", H100, "{gpuLimits: {mode: warn}}")
    some = policies.load()
    declare(policies, "_default", H100.replace("550", "570"), "{gpuLimits: {mode: warn}}")
    others = policies.load()
    assert len({without.default.hash, some.default.hash, others.default.hash}) == 3
    assert len({without.hash, some.hash, others.hash}) == 3


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        pytest.param("{gpus: 1}", ".name: missing; write a string such as h100-spot", id="no name"),
        pytest.param(
            '{name: ""}', '.name: "" is a string; write a string such as h100-spot, not an empty one', id="empty"
        ),
        pytest.param(
            '{name: a, driver: "550.54.15.1"}',
            '.driver: "550.54.15.1" is not a driver version; write one such as 550.54.15, or its branch, 550',
            id="too many numbers",
        ),
        pytest.param(
            '{name: a, driver: "12.4"}',
            '.driver: "12.4" is not a driver version; write one such as 550.54.15, or its branch, 550',
            id="a version of CUDA",
        ),
        pytest.param(
            "{name: a, gpus: 0}", ".gpus: 0 is out of range; write a whole number from 1 to 1024", id="no GPU"
        ),
        pytest.param(
            "{name: a, resource: nvidia.com/gpumem}",
            '.resource: "nvidia.com/gpumem" is not a GPU resource; write one such as nvidia.com/gpu, '
            "nvidia.com/mig-1g.10gb, amd.com/gpu or gpu.intel.com/xe",
            id="no GPU resource",
        ),
        pytest.param(
            "{name: a, product: T4, labels: {nvidia.com/gpu.product: A10}}",
            ': labels say nvidia.com/gpu.product is "A10", and by product it is "T4"; keep one of them',
            id="labels that contradict",
        ),
        pytest.param(
            '{name: a, driver: "550.54.15", labels: {nvidia.com/cuda.driver.major: "535"}}',
            ': labels say nvidia.com/cuda.driver.major is "535", and by driver it is "550"; keep one of them',
            id="deprecated labels that contradict",
        ),
        pytest.param(
            '{name: a, next: {driver: "595.71.05"}}',
            ".next.from: missing; write a string such as 2026-12-01",
            id="a next driver without its day",
        ),
        pytest.param(
            '{name: a, next: {driver: "595", from: 1 December}}',
            '.next.from: "1 December" is no day and no time; write a day such as "2027-01-15", or a time with zone '
            'such as "2027-01-15T18:00:00Z"',
            id="a day in words",
        ),
        pytest.param(
            '{name: a, next: {driver: "595", from: "2026-12-01T06:00"}}',
            '.next.from: "2026-12-01T06:00" says no time zone; write one, such as "2026-12-01T06:00Z" for UTC, or a '
            "day alone",
            id="a time without its zone",
        ),
        pytest.param(
            '{name: a, driver: "595", next: {driver: "595", from: "2026-12-01"}}',
            ': next.driver is "595", which driver says already; write the driver that is to come, or remove next',
            id="the next driver is the present one",
        ),
        pytest.param(
            '{name: a, resource: amd.com/gpu, next: {driver: "595", from: "2026-12-01"}}',
            ": driver, product and next are for NVIDIA GPUs, but resource is amd.com/gpu; remove one of them",
            id="a next driver of other GPUs",
        ),
        pytest.param(
            "{name: a, taints: [{key: a}]}",
            ".taints[0].effect: missing; write one of NoSchedule, PreferNoSchedule, NoExecute",
            id="a taint without effect",
        ),
        pytest.param(
            "{name: a, taints: [{key: b, effect: NoSchedule}, {key: b, effect: NoSchedule, value: c}]}",
            ": taints: 2 have the key b and the effect NoSchedule; keep one of them",
            id="a taint twice",
        ),
    ],
)
def test_a_faulty_pool_is_told_with_line_key_fault_and_remedy(policies, pool, expected) -> None:
    declare(policies, "a", f"- {{name: good}}\n- {pool}")
    assert [f"a.yaml:{FIRST_LINE + 1}: spec.nodePools[1]{expected}"] == policies.errors()


def test_two_pools_of_one_name_are_an_error(policies) -> None:
    declare(policies, "a", "- {name: x}\n- {name: y}\n- {name: x}")
    assert policies.errors() == [
        'a.yaml:8: spec.nodePools[2].name: "x" is the name of spec.nodePools[0] too; rename one of them'
    ]


@pytest.mark.parametrize(
    ("pools", "expected"),
    [
        pytest.param("h100", '"h100" is a string; write a list of maps', id="a text"),
        pytest.param("{name: h100}", "found a map; write a list of maps", id="a map"),
        pytest.param(
            "",
            "is empty; write a list, [] for no pools, or remove the line to inherit it from _default.yaml",
            id="null",
        ),
    ],
)
def test_pools_that_are_no_list_are_an_error(policies, pools, expected) -> None:
    head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: a}\nspec:\n"
    policies.write("a.yaml", f"{head}  nodePools: {pools}\n  rules: {{}}\n")
    assert [f"a.yaml:5: spec.nodePools: {expected}"] == policies.errors()


def test_pools_are_shown_with_all_their_labels_and_the_file_they_come_from(policies) -> None:
    declare(policies, "_default", H100)
    policies.policy("team-a", "gpuLimits: {mode: warn}")
    before = policies.load()
    text = explain(before, "team-a")
    assert "\n  # from _default.yaml, with the labels that follow from what it says\n  nodePools:\n" in text
    (shown,) = yaml.safe_load(text)["spec"]["nodePools"]
    assert shown["labels"] == dict(before.default.node_pools[0].labels)
    policies.write("team-a.yaml", text)
    assert policies.load().for_namespace("team-a").node_pools == before.for_namespace("team-a").node_pools


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


def test_every_key_of_a_pool_is_described_to_editors() -> None:
    pool = part_at(policy_schema(), ("spec", "nodePools", 0))
    taint = part_at(pool, ("taints", 0))
    keys = {**pool["properties"], **taint["properties"]}
    assert set(keys) >= {"name", "driver", "product", "gpus", "resource", "effect"}
    assert all(key.get("description") for key in keys.values())
    assert (pool["required"], taint["required"]) == (["name"], ["key", "effect"])
