"""What a pod that no node could run probably meant: other spellings, names of other platforms, where it would fit."""

from dataclasses import replace
from typing import Any

import pytest

from tests.facts.samples import device_class, node, resource_slice
from tests.golden import each
from tests.rules.gpu_cluster import A100, POOL, PRODUCT, T4, asking, gpu_node, told
from tests.rules.samples import Cluster, container, pod, settings_of, term, terms
from webhook.facts.facts import ClusterFacts
from webhook.model.claims import CLAIM, TEMPLATE, TOO_LARGE, Devices, Requests
from webhook.model.node import NodePool
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.rule import Advice, Violation
from webhook.rules.schedulable import RULE


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


GPU, MIG, NIC = "gpu.nvidia.com", "mig.nvidia.com", "nic.vendor.io"
MOST = {GPU: 8, MIG: 14, "odd": 0}


def one(device_class: str = GPU, number: int | None = 1, **parts: Any) -> tuple[Devices, ...]:
    return (Devices(device_class, number, **parts),)


def knowing(requests: Requests, **more: Any) -> Cluster:
    """A cluster with a claim and a template, both called `t`, and three classes, of which one is for no GPUs."""
    claims = {(kind, "t"): requests for kind in (CLAIM, TEMPLATE)}
    return Cluster(**{"claims": claims, "classes": {NIC: ""}, "most": MOST} | more)


def claiming(kind: str = TEMPLATE, times: int = 1, *containers: Any, **spec: Any) -> dict[str, Any]:
    key = {CLAIM: "resourceClaimName", TEMPLATE: "resourceClaimTemplateName"}[kind]
    named = [{"name": f"gpu{number}", key: "t"} for number in range(times)]
    return pod(*(containers or [container()]), resourceClaims=named, **spec)


def found(raw: Any, facts: Cluster) -> list[Violation | Advice]:
    assert RULE.validate is not None
    return list(RULE.validate(pod_from_raw(raw), settings_of(RULE, {}), facts))


@each(
    "requests, message",
    {
        "a class that is misspelled": (
            one("gpu.nvidia.con"),
            "requests DeviceClass gpu.nvidia.con; the cluster has no DeviceClass of this name. Did you mean "
            "gpu.nvidia.com? Correct the name.",
        ),
        "an unknown class in an alternative": (
            one() + one("gpu.example.com"),
            "requests DeviceClass gpu.example.com; the cluster has no DeviceClass of this name. Correct the name, or "
            "ask the platform team for the driver that brings the class.",
        ),
        "more devices than a claim may have": (
            one(NIC, 33),
            "requests at least 33 devices; the scheduler allocates at most 32 for a claim. Split the claim.",
        ),
        "an alternative that fits": (one(MIG, 9) + one(GPU, 9) + one(MIG, 15), ""),
        "no alternative fits, to watch or to use": (
            one(MIG, 15) + one(GPU, 9, is_administrative=True),
            "requests more devices than any node offers, whichever alternative is taken; no node will meet the "
            "request. Request fewer devices in one of the alternatives.",
        ),
        "no alternative fits": (
            one(MIG, 15) + one(GPU, 9),
            "requests more devices than any node offers, whichever alternative is taken; no node will meet the "
            "request. Request fewer devices in one of the alternatives.",
        ),
    },
)
def test_a_template_that_can_never_be_met_is_a_violation(requests, message):
    told = found(claiming(), knowing((requests,)))
    expected = f"spec.resourceClaims[gpu0]: ResourceClaimTemplate t {message}"
    assert [str(one) for one in told] == [expected] * bool(message)
    assert all(isinstance(one, Violation) for one in told)


@each(
    "requests, times, where, number",
    {
        "one request": ((one(number=9),), 1, "spec.resourceClaims[gpu0]", 9),
        "two requests": ((one(number=5), one(number=4)), 1, "spec.resourceClaims[gpu0]", 9),
        "two claims": ((one(number=5),), 2, "spec", 10),
        "the smallest alternative": ((one(number=16, fewest=9),), 1, "spec.resourceClaims[gpu0]", 9),
        "all of the others": ((one(number=8), one(number=None)), 1, "spec.resourceClaims[gpu0]", 9),
    },
)
def test_more_devices_than_any_node_offers_are_a_violation(requests, times, where, number):
    (told,) = found(claiming(times=times), knowing(requests))
    assert isinstance(told, Violation)
    assert str(told) == (
        f"{where}: requests {number} devices of DeviceClass gpu.nvidia.com; no node offers more than 8. "
        "Request 8 or fewer."
    )


@each(
    "requests, times",
    {
        "as many as a node offers": ((one(number=8),), 1),
        "as many by two claims": ((one(number=4),), 2),
        "all": ((one(number=None),), 1),
        "an alternative fits": ((one(number=16, fewest=8),), 1),
        "others are only watched": ((one(number=8), one(number=8, is_administrative=True)), 1),
        "of two classes": ((one(number=8), one(MIG, 14)), 1),
        "what nobody can read": ((one(number=8), ()), 1),
        "nobody knows how many": ((one("other", 32),), 1),
        "too large to be kept": (TOO_LARGE, 1),
    },
)
def test_what_a_node_may_have_is_left_alone(requests, times):
    assert found(claiming(times=times), knowing(requests, classes={NIC: "", "other": ""})) == []


@pytest.mark.parametrize("requests", [(one("gpu.nvidia.con"),), (one(number=9),), (one(MIG, 15) + one(number=9),)])
def test_a_claim_that_may_have_been_allocated_earlier_brings_advice(requests):
    (told,) = found(claiming(CLAIM), knowing(requests))
    assert isinstance(told, Advice)
    assert "; the pod waits, unless the claim was allocated earlier. " in str(told)


def test_a_claim_that_nobody_could_allocate_at_any_time_is_a_violation():
    (told,) = found(claiming(CLAIM), knowing((one(NIC, 33),)))
    assert isinstance(told, Violation)


def test_a_claim_that_a_pod_names_twice_is_one_claim():
    assert found(claiming(CLAIM, times=2), knowing((one(number=8),))) == []


def test_where_no_node_offers_any_device_one_may_come():
    (told,) = found(claiming(), knowing((one("odd"),)))
    assert isinstance(told, Advice)
    assert str(told).startswith(
        "spec.resourceClaims[gpu0]: requests 1 device of DeviceClass odd, and no node offers any"
    )


def test_nothing_is_said_where_classes_or_slices_are_not_known():
    for requests in ((one("gpu.nvidia.con"),), (one(number=9),)):
        assert found(claiming(), knowing(requests, classes={}, most={})) == []


@pytest.mark.parametrize("spec", [{"nodeName": "a"}, {"schedulingGates": [{"name": "queue"}]}], ids=["bound", "held"])
def test_pods_that_the_scheduler_does_not_see_or_a_queue_may_change_are_left_alone(spec):
    assert found(claiming(**spec), knowing((one(number=9),))) == []


def resource(name: str, number: int) -> dict[str, Any]:
    return container(gpus=number, resource=f"deviceclass.resource.kubernetes.io/{name}")


@each(
    "raw, message",
    {
        "as many as a node offers": (pod(resource(GPU, 8)), ""),
        "more": (pod(resource(GPU, 9)), "spec: requests 9 devices of DeviceClass gpu.nvidia.com"),
        "with a claim": (
            claiming(TEMPLATE, 1, resource(GPU, 5)),
            "spec.resourceClaims[gpu0]: requests 9 devices of DeviceClass gpu.nvidia.com",
        ),
        "a class that is misspelled": (
            pod(resource("gpu.nvidia.con", 1)),
            "spec.containers[trainer].resources: requests DeviceClass gpu.nvidia.con; the cluster has no DeviceClass",
        ),
        "GPUs of another name": (pod(container(gpus=16)), ""),
    },
)
def test_device_classes_that_are_requested_as_resources_are_compared(raw, message):
    told = found(raw, replace(knowing((one(number=4),))))
    assert [str(one).startswith(message) for one in told] == [True] * bool(message)


def by_class(*slices: Any, nodes: Any = (), **parts: Any) -> ClusterFacts:
    """A cluster whose DeviceClass of NVIDIA gives `nvidia.com/gpu`."""
    selected = f"device.driver == '{GPU}' && device.attributes['{GPU}'].type == 'gpu'"
    classes = [device_class(GPU, "nvidia.com/gpu", selected), *parts.pop("classes", ())]
    return ClusterFacts.of([node("cpu"), *nodes], device_classes=classes, slices=slices)


EIGHT = resource_slice("a", "a", gpus=8)
BIG = node("big", capacity={"nvidia.com/gpu": "16"})
OTHER = device_class("other", "nvidia.com/gpu", "true")


@each(
    "facts, gpus, is_told",
    {
        "more than any node offers": (by_class(EIGHT), 16, True),
        "as many": (by_class(EIGHT), 8, False),
        "a device plugin has as many": (by_class(EIGHT, nodes=[BIG]), 16, False),
        "more than that": (by_class(EIGHT, nodes=[BIG]), 17, True),
        "another class may give more": (by_class(EIGHT, classes=[OTHER]), 16, False),
        "no slices are known": (by_class(), 16, False),
        "none yet": (by_class(resource_slice("a", "a", type="mig")), 16, False),
        "an incomplete pool": (by_class(resource_slice("a", "a", pool_slices=2)), 16, False),
        "a pool has as many": (
            by_class(EIGHT).with_pools((NodePool("p", gpu_resources=frozenset({"nvidia.com/gpu"}), gpus=16),)),
            16,
            False,
        ),
    },
)
def test_gpus_that_a_device_class_gives_by_their_usual_name_are_compared(facts, gpus, is_told):
    told = found(pod(container(gpus=gpus)), facts)
    expected = (
        f"spec.containers[trainer].resources: requests {gpus} nvidia.com/gpu; no node offers more than 8 for the "
        "DeviceClass that gives it. Request 8 or fewer in one pod."
    )
    assert [str(one) for one in told] == [expected] * is_told


def test_gpus_of_several_containers_are_added():
    (told,) = found(pod(container("a", gpus=5), container("b", gpus=4)), by_class(EIGHT))
    assert str(told).startswith("spec: requests 9 nvidia.com/gpu in all; no node offers more than 8")


def test_classes_that_are_known_to_be_no_gpus_may_be_missing():
    """Their driver may be installed by somebody else."""
    other = "mrdma.google.com"
    both = container(gpus=1, resource=f"deviceclass.resource.kubernetes.io/{GPU}")
    for part in ("limits", "requests"):
        both["resources"][part][f"deviceclass.resource.kubernetes.io/{other}"] = 1
    assert found(pod(both), knowing(())) == []
    assert found(claiming(), knowing((one(other),))) == []
