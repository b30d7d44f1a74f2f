"""What a pod that no node could run probably meant: other spellings, names of other platforms, where it would fit."""

import pytest

from tests.rules.gpu_cluster import A100, POOL, PRODUCT, T4, asking, gpu_node, told
from tests.rules.samples import each, term, terms
from webhook.facts.facts import ClusterFacts


def labelled(**labels):
    return ClusterFacts.of([gpu_node("a", A100, {"nvidia.com/gpu": "8"}, "1Ti", **labels)])


HAD = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "8", "topology.kubernetes.io/zone": "a"}


@each(
    "written, value, meant",
    {
        "a letter too many": ("nvidia.com/gpu.products", A100, PRODUCT),
        "no prefix": ("gpu.product", A100, PRODUCT),
        "a letter too few": ("nvidia.com/gpu.presnt", "true", "nvidia.com/gpu.present"),
        "a label of clouds": ("topology.kubernetes.io/zones", "a", "topology.kubernetes.io/zone"),
        "a label of GPUs that is not published here": ("nvidia.com/gpu.memory", "a", None),
        "a name that only begins alike": ("nvidia.com/gpu.machine", "a", None),
        "a word of many names": ("gpu", "a", None),
        "a long one": ("example.com/" + "gpu" * 1000, "a", None),
        "a value that no node has either": ("nvidia.com/gpu.products", "x", None),
        "the other value": ("nvidia.com/gpu.presnt", "false", None),
        "another zone": ("topology.kubernetes.io/zones", "b", None),
    },
)
def test_another_label_is_suggested_only_where_this_one_is_that_one_misspelled(written, value, meant):
    """And only where a node has its value."""
    (message,) = told(asking(1, nodeSelector={written: value}), labelled(**HAD))
    remedy = f"Did you mean {meant}? Correct the key." if meant else "Remove it, or tell the platform team."
    assert message.endswith(f". {remedy}")


def test_a_key_and_a_value_that_are_both_misspelled_are_corrected_together():
    (message,) = told(asking(1, nodeSelector={"nvidia.com/gpu.products": "NVIDIA-A100-SXM-80GB"}), labelled(**HAD))
    assert message.endswith(f"Did you mean {PRODUCT}={A100}? Correct the key and the value.")


def test_a_value_is_suggested_only_where_the_pod_would_then_fit():
    """The T4 is not in this pool, so that the pod would wait as before."""
    facts = ClusterFacts.of(
        [
            gpu_node("a", A100, {"nvidia.com/gpu": "8"}, "1Ti", **{POOL: "training"}),
            gpu_node("t", T4, {"nvidia.com/gpu": "1"}, "60Gi", **{POOL: "serving"}),
        ]
    )
    there, elsewhere = (
        told(asking(1, nodeSelector={PRODUCT: "tesla-t4", POOL: pool}), facts) for pool in ("serving", "training")
    )
    assert there[0].endswith("Did you mean Tesla-T4? Correct the value.")
    assert elsewhere[0].endswith(
        "nodes have NVIDIA-A100-SXM4-80GB and Tesla-T4. Choose what nodes have, or tell the platform team."
    )


def test_the_label_of_another_cloud_is_none_of_this_one_misspelled(says):
    facts = ClusterFacts.of([gpu_node("a", "NVIDIA-L4", {"nvidia.com/gpu": "4"}, "1Ti", **{GKE: "nvidia-l4"})])
    (message,) = told(asking(1, nodeSelector={"kubernetes.azure.com/accelerator": "nvidia"}), facts)
    says([message])


@pytest.mark.parametrize("resource", ["nvidia.com/pgpu", "nvidia.com/GA102GL_A10", "nvidia.com/GRID_T4-16Q"])
def test_no_gpu_of_containers_is_suggested_for_one_that_goes_to_a_virtual_machine(resource):
    (message,) = told(asking(1, resource), labelled(**HAD))
    assert message == (
        f"spec.containers[trainer].resources: requests {resource}, which no node offers; nodes offer nvidia.com/gpu. "
        "For a virtual machine, tell the platform team; containers request what nodes offer."
    )


def test_a_gpu_in_capital_letters_is_the_one_in_small_letters():
    (message,) = told(asking(1, "nvidia.com/GPU"), labelled(**HAD))
    assert message.endswith("nodes offer nvidia.com/gpu. Did you mean nvidia.com/gpu? Request that.")


def test_no_gpu_of_virtual_machines_is_suggested_to_a_container():
    facts = ClusterFacts.of([gpu_node("a", A100, {"nvidia.com/pgpu": "8"}, "1Ti")])
    (message,) = told(asking(1), facts)
    assert message.endswith("nodes offer nvidia.com/pgpu. Request what nodes offer, or tell the platform team.")


@pytest.mark.parametrize("other", ["nvidia.com/mig-3g.40gb", "nvidia.com/gpu.shared", "nvidia.com/gpu"])
def test_slices_and_shares_are_no_misspelling_of_anything(other):
    facts = ClusterFacts.of([gpu_node("a", A100, {other: "2"}, "1Ti")])
    (message,) = told(asking(1, "nvidia.com/mig-3g.20gb"), facts)
    assert message.endswith(f"nodes offer {other}. Request what nodes offer, or tell the platform team.")


GKE = "cloud.google.com/gke-accelerator"


@each(
    "key, value, product, message",
    {
        "GKE, L4": (GKE, "nvidia-l4", "NVIDIA-L4", f"{GKE}=nvidia-l4 is GKE's label; here it is {PRODUCT}=NVIDIA-L4"),
        "a GPU that is shared here": (
            GKE,
            "nvidia-tesla-t4",
            "Tesla-T4-SHARED",
            f"{GKE}=nvidia-tesla-t4 is GKE's label; here it is {PRODUCT}=Tesla-T4-SHARED",
        ),
        "H100": (
            GKE,
            "nvidia-h100-80gb",
            "NVIDIA-H100-80GB-HBM3",
            f"{GKE}=nvidia-h100-80gb is GKE's label; here it is {PRODUCT}=NVIDIA-H100-80GB-HBM3",
        ),
        "Karpenter": (
            "karpenter.k8s.aws/instance-gpu-name",
            "l40s",
            "NVIDIA-L40S",
            f"karpenter.k8s.aws/instance-gpu-name=l40s is Karpenter's label on AWS; here it is {PRODUCT}=NVIDIA-L40S",
        ),
        "a label of somebody's own": (
            "gpu-type",
            "a100",
            A100,
            f"no node has gpu-type=a100; here it is {PRODUCT}={A100}",
        ),
    },
)
def test_the_label_of_another_platform_is_told_by_its_name_here(key, value, product, message):
    facts = ClusterFacts.of([gpu_node("a", product, {"nvidia.com/gpu": "8"}, "1Ti")])
    assert told(asking(1, nodeSelector={key: value}), facts) == [
        f"spec.nodeSelector[{key}]: {message}. Write that instead."
    ]
    assert told(asking(1, affinity=terms(term((key, "In", ["other", value])))), facts) == [
        f"spec.affinity.nodeAffinity: {message}. Write that instead."
    ]


@each(
    "value, product",
    {
        "another model": ("nvidia-l4", "NVIDIA-L40S"),
        "the same GPU with less memory": ("nvidia-tesla-a100", A100),
        "nothing alike": ("nvidia-l4-vws", "Tesla-T4"),
        "no model at all": ("any", "NVIDIA-L4"),
    },
)
def test_another_gpu_is_not_what_a_label_means_here(value, product):
    facts = ClusterFacts.of([gpu_node("a", product, {"nvidia.com/gpu": "8"}, "1Ti")])
    (message,) = told(asking(1, nodeSelector={GKE: value}), facts)
    assert "here it is" not in message


def test_a_label_is_told_by_its_name_here_only_where_the_pod_would_then_fit():
    facts = ClusterFacts.of(
        [
            gpu_node("a", "NVIDIA-L4", {"nvidia.com/gpu": "1"}, "60Gi", **{POOL: "serving"}),
            gpu_node("b", A100, {"nvidia.com/gpu": "8"}, "1Ti", **{POOL: "training"}),
        ]
    )
    messages = told(asking(1, nodeSelector={GKE: "nvidia-l4", POOL: "training"}), facts)
    assert not any("here it is" in message for message in messages)


def test_one_of_several_terms_with_the_label_of_another_platform_is_told_by_its_name_here(says):
    facts = ClusterFacts.of([gpu_node("a", "NVIDIA-L4", {"nvidia.com/gpu": "1"}, "60Gi")])
    either = terms(term(("zone", "Exists", [])), term((GKE, "In", ["nvidia-l4"])))
    (message,) = told(asking(1, affinity=either), facts)
    says([message])


def test_another_architecture_is_none_misspelled():
    (message,) = told(
        asking(1, nodeSelector={"kubernetes.io/arch": "arm64"}), labelled(**{"kubernetes.io/arch": "amd64"})
    )
    assert message.endswith("nodes have amd64. Choose what nodes have, or tell the platform team.")


@pytest.mark.parametrize(("operator", "values"), [("NotIn", ["x"]), ("DoesNotExist", [])])
def test_who_excludes_all_nodes_is_not_told_to_choose_one_of_them(operator, values):
    (message,) = told(asking(1, affinity=terms(term((POOL, operator, values)))), labelled(**{POOL: "x"}))
    assert message.endswith("; nodes have x. Remove it, or tell the platform team.")


FIVE_PRODUCTS = ("NVIDIA-A10", A100, "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4", T4)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("NVIDIA-H100", "NVIDIA-H100-80GB-HBM3"),
        ("NVIDIA-A100", A100),
        ("NVIDIA-A100-80GB-PCIe", A100),
        ("NVIDIA-T4", T4),
        ("nvidia-tesla-t4", T4),
        ("NVIDIA-A100-SXM4-40GB", ""),
        ("NVIDIA-H100-80GB", "NVIDIA-H100-80GB-HBM3"),
        ("NVIDIA-H100-PCIe", "NVIDIA-H100-80GB-HBM3"),
        ("NVIDIA-H200", ""),
        ("NVIDIA-L40S", ""),
        ("NVIDIA-A10G", ""),
        ("Tesla-V100", ""),
    ],
)
def test_of_the_name_of_a_gpu_only_another_name_of_that_gpu_is_suggested(written, meant):
    facts = ClusterFacts.of([gpu_node(product, product, {"nvidia.com/gpu": "1"}, "60Gi") for product in FIVE_PRODUCTS])
    (message,) = told(asking(1, nodeSelector={PRODUCT: written}), facts)
    assert message.endswith(f"Did you mean {meant}? Correct the value." if meant else "or tell the platform team.")


@pytest.mark.parametrize(
    ("key", "written", "existing"),
    [
        ("topology.kubernetes.io/zone", "us-east-1c", "us-east-1b"),
        ("node.kubernetes.io/instance-type", "p5.48xlarge", "m5.24xlarge"),
    ],
)
def test_another_zone_or_instance_type_is_none_misspelled(key, written, existing):
    facts = ClusterFacts.of([gpu_node("a", T4, {"nvidia.com/gpu": "1"}, "60Gi", **{key: existing})])
    (message,) = told(asking(1, nodeSelector={key: written}), facts)
    assert "Did you mean" not in message
