"""GPUs with as much memory as pods and policies ask for."""

from typing import Any

import pytest

from tests.build import policy
from tests.facts.samples import claim, node
from tests.golden import each
from tests.rules.gpu_type_samples import (
    A100,
    GKE_T4,
    H100,
    L4,
    MEMORY,
    PRODUCT,
    SHARED_T4,
    SILENT,
    SLICED,
    SMALL,
    T4,
    cluster,
    excluded,
    gpu_pod,
    preferred,
    refused,
    told,
    without,
)
from tests.rules.samples import container, mutated, pod, term, terms
from webhook import engine
from webhook.facts.facts import ClusterFacts
from webhook.model.claims import TEMPLATE
from webhook.rules.gpu_types import RULE
from webhook.rules.usable_gpus import ANNOTATION


def test_the_annotation_asks_for_memory_without_any_setting():
    assert excluded(gpu_pod("40Gi"), cluster(T4, A100, H100), {}) == [without(MEMORY, "15360")]
    assert excluded(gpu_pod(), cluster(T4, A100, H100), {}) == []


def test_a_pod_asks_for_more_memory_than_the_policy_requires_and_never_for_less():
    values = {"memory": {"min": "20Gi"}}
    assert excluded(gpu_pod("4Gi"), cluster(T4, L4, A100), values) == [without(MEMORY, "15360")]
    assert excluded(gpu_pod("40Gi"), cluster(T4, L4, A100), values) == [without(MEMORY, "15360", "23034")]


@each(
    "facts, largest",
    {
        "a GPU": (cluster(T4, H100), "79.6Gi"),
        "a GPU beside slices": (cluster(T4, SLICED), "15Gi"),
        "a share": (cluster(SHARED_T4), "3840Mi"),
    },
)
def test_memory_that_nothing_has_is_told_with_the_largest_that_there_is(facts, largest):
    (message,) = refused(gpu_pod("100Gi"), facts, {})
    assert message == (
        "metadata.annotations[gpupolicy.dev/gpu-memory]: needs 100Gi of GPU memory, and the most that a GPU, slice or "
        f"share has on the nodes that it could land on is {largest}; the annotation gpupolicy.dev/gpu-memory asks for "
        "100Gi of GPU memory. Ask for less, or ask the platform team."
    )
    assert excluded(gpu_pod("100Gi"), facts, {}) == []


@pytest.mark.parametrize(
    "memory",
    ["lots", "", "-1", "0", "40 Gi", "1.5", "100Ei", "9" * 10_000, None, 40, {"a": 1}],
    ids=lambda value: str(value)[:12],
)
def test_an_annotation_that_says_no_amount_is_a_violation_that_says_what_to_write(memory):
    raw = gpu_pod()
    raw["metadata"]["annotations"] = {ANNOTATION: memory}
    (message,) = refused(raw, cluster(T4), {})
    assert message.startswith("metadata.annotations[gpupolicy.dev/gpu-memory]: ")
    assert message.endswith(
        "; the annotation says how much memory each GPU of the pod must have. Write a quantity with its unit, such as "
        "40Gi."
    )
    assert len(message) < 300
    assert excluded(raw, cluster(T4, L4), {}) == []


@pytest.mark.parametrize(
    ("memory", "size"),
    [("40", "40"), ("40000", "40000"), ("40M", "40000000"), ("1e3", "1000")],
    ids=["gigabytes", "megabytes", "a unit too small", "an exponent"],
)
def test_an_annotation_without_its_unit_is_a_violation(memory, size):
    """Other schedulers read `gpu-memory` in MiB, so a bare number was meant as much more than its bytes."""
    (message,) = refused(gpu_pod(memory), cluster(T4), {})
    assert f'"{memory}" is no amount of GPU memory, but {size} bytes' in message


def test_an_annotation_above_the_maximum_of_the_policy_is_a_violation(says):
    says(refused(gpu_pod("80Gi"), cluster(T4, H100), {"memory": {"max": "24Gi"}}))


def test_the_annotation_of_a_pod_without_gpus_says_nothing():
    raw = pod(container())
    raw["metadata"]["annotations"] = {ANNOTATION: "lots"}
    assert told(raw, cluster(T4), {}) == []


def test_a_model_of_which_shares_may_be_small_is_not_too_large():
    """The name says how much the whole GPU has."""
    shared = {PRODUCT: "NVIDIA-A100-SXM4-80GB-SHARED", "nvidia.com/gpu.replicas": "8"}
    of_shares, of_gpus = (gpu_pod(nodeSelector={PRODUCT: name}) for name in (shared[PRODUCT], "NVIDIA-A100-SXM4-80GB"))
    assert refused(of_shares, cluster(shared), {"memory": {"max": "24Gi"}}) == []
    whole = cluster({PRODUCT: "NVIDIA-A100-SXM4-80GB"})
    assert len(refused(of_gpus, whole, {"memory": {"max": "24Gi"}})) == 1


def test_memory_that_only_the_policy_requires_is_no_request_of_the_pod(says):
    says(refused(gpu_pod(), cluster(T4), {"memory": {"min": "100Gi"}}))


@each(
    "raw, why",
    {
        "AMD": (gpu_pod("40Gi", resource="amd.com/gpu"), "the memory of amd.com/gpu is not known"),
        "claims": (
            {
                "metadata": {"name": "claims", "annotations": {ANNOTATION: "40Gi"}},
                "spec": {
                    "containers": [{"name": "main"}],
                    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
                },
            },
            "the memory of devices of resource claims is not compared",
        ),
    },
)
def test_an_annotation_that_has_no_effect_is_told(raw, why):
    (advice,) = told(raw, cluster(T4), {})
    assert f'{why}, so "40Gi" has no effect' in str(advice)


AMD = "amd.com/gpu"


def amd(vram, partition=""):
    return {"amd.com/gpu.vram": vram, **({"amd.com/compute-memory-partition": partition} if partition else {})}


def test_the_memory_of_amds_gpus_is_what_their_labeller_says():
    small, large = amd("64G", "spx_nps1"), amd("191G")
    asking, both = gpu_pod("192Gi", AMD), cluster(small, large, resource=AMD)
    assert excluded(asking, both, {}) == [without("amd.com/gpu.vram", "64G")]
    assert not refused(gpu_pod("100Gi", AMD), cluster(small, amd("4G"), resource=AMD), {})  # too small to be exact
    (message,) = refused(gpu_pod("100Gi", AMD), cluster(small, resource=AMD), {})
    assert "the most that a GPU, slice or share has on the nodes that it could land on is 64Gi" in message


@each(
    "labels, is_excluded",
    {
        "whole": (amd("192G", "spx_nps1"), True),
        "parts": (amd("192G", "cpx_nps4"), False),
        "perhaps parts": (amd("192G"), False),
        "no size": (amd("lots", "spx_nps1"), False),
    },
)
def test_amds_gpus_are_too_large_only_where_they_are_whole(labels, is_excluded):
    facts = cluster(labels, amd("24G", "spx_nps1"), resource=AMD)
    found = excluded(gpu_pod("16Gi", AMD), facts, {"memory": {"max": "32Gi"}})
    assert found == ([without("amd.com/gpu.vram", "192G")] if is_excluded else [])


PREFER = {"prefer": ["T4", "L4"]}


@each(
    "values, facts, expected",
    {
        "the first one most": (
            PREFER,
            cluster(H100, L4, T4),
            [(100, PRODUCT, ["Tesla-T4"]), (50, PRODUCT, ["NVIDIA-L4"])],
        ),
        "what there is": (PREFER, cluster(H100, L4), [(50, PRODUCT, ["NVIDIA-L4"])]),
        "none of them is there": (PREFER, cluster(H100, SILENT), []),
        "every label that says it": (
            PREFER,
            cluster(T4, SHARED_T4, GKE_T4),
            [
                (100, PRODUCT, ["Tesla-T4", "Tesla-T4-SHARED"]),
                (100, "cloud.google.com/gke-accelerator", ["nvidia-tesla-t4"]),
            ],
        ),
        "what is denied": ({**PREFER, "denied": ["T4"]}, cluster(T4, L4), [(50, PRODUCT, ["NVIDIA-L4"])]),
        "a family": ({"prefer": ["A100"]}, cluster(A100, T4), [(100, PRODUCT, [A100[PRODUCT]])]),
    },
)
def test_a_pod_that_says_nothing_prefers_what_the_policy_prefers(values, facts, expected):
    assert preferred(gpu_pod(), facts, values) == expected


@each(
    "spec",
    {
        "it selects a model": {"nodeSelector": {PRODUCT: "NVIDIA-L4"}},
        "it requires a model": {"affinity": terms(term((PRODUCT, "In", ["NVIDIA-L4"])))},
        "it prefers a model": {
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "preference": term((PRODUCT, "In", ["NVIDIA-L4"]))}
                    ]
                }
            }
        },
        "it names its node": {"nodeName": "n0"},
    },
)
def test_what_the_author_chose_comes_before_what_the_policy_prefers(spec):
    raw = gpu_pod(**spec)
    assert mutated(RULE, raw, PREFER, cluster(T4, L4)) == raw


def selecting(*products: str, **exactly: Any) -> dict[str, Any]:
    """A template `t` with one request, for the first of these products that is available."""
    alternatives = [
        {
            "name": f"a{at}",
            "deviceClassName": "gpu.nvidia.com",
            "selectors": [{"cel": {"expression": f'device.attributes["gpu.nvidia.com"].productName == "{product}"'}}]
            if product
            else [],
            **exactly,
        }
        for at, product in enumerate(products)
    ]
    raw = claim("t", TEMPLATE, "gpu.nvidia.com")
    raw["spec"]["spec"]["devices"]["requests"] = [{"name": "gpu", "firstAvailable": alternatives}]
    return raw


CLAIMED_H100, CLAIMED_T4 = "NVIDIA H100 80GB HBM3", "Tesla T4"


@each(
    "template, values, found",
    {
        "not allowed": (selecting(CLAIMED_H100), SMALL, "the policy allows only T4 and L4"),
        "denied": (selecting(CLAIMED_H100), {"denied": ["H100"]}, "the policy denies H100"),
        "either of two": (selecting(CLAIMED_H100, "NVIDIA H200"), SMALL, "selects H100-80GB or H200"),
        "allowed": (selecting(CLAIMED_T4), SMALL, ""),
        "one alternative is allowed": (selecting(CLAIMED_H100, CLAIMED_T4), SMALL, ""),
        "one alternative says no model": (selecting(CLAIMED_H100, ""), SMALL, ""),
        "an unknown model": (selecting("NVIDIA Next 1"), SMALL, ""),
        "resources have other names": (selecting(CLAIMED_H100), {"allowed": ["nvidia.com/*"]}, ""),
        "for monitoring": (selecting(CLAIMED_H100, adminAccess=True), SMALL, ""),
    },
)
def test_a_claim_that_selects_a_model_which_may_not_be_used_is_refused_with_its_pods(template, values, found):
    raw = pod(container(resources={"claims": [{"name": "gpu"}]}))
    raw["metadata"]["namespace"] = "team"
    raw["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    messages = refused(raw, ClusterFacts.of([node("n")], templates=[template]), values)
    assert [found in one for one in messages] == ([True] if found else [])
    assert all(one.startswith("spec.resourceClaims[gpu]: ResourceClaimTemplate t selects ") for one in messages)
    applied = {"apiVersion": "resource.k8s.io/v1", "kind": TEMPLATE, **template}
    of_claim = engine.validate_claim(applied, "team", policy({"gpuTypes": values}), ClusterFacts()).findings
    assert [found in one.message for one in of_claim] == ([True] if found else [])
