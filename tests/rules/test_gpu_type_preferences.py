"""What pods prefer that say nothing, and claims that select a model."""

from typing import Any

from tests.build import policy
from tests.facts.samples import claim, node
from tests.rules.gpu_type_samples import (
    A100,
    GKE_T4,
    H100,
    L4,
    PRODUCT,
    SHARED_T4,
    SILENT,
    SMALL,
    T4,
    cluster,
    gpu_pod,
    preferred,
    refused,
)
from tests.rules.samples import container, each, mutated, pod, term, terms
from webhook import engine
from webhook.facts.facts import ClusterFacts
from webhook.model.claims import TEMPLATE
from webhook.rules.gpu_types import RULE

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
