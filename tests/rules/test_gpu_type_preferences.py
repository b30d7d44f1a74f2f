"""What pods prefer that say nothing, and claims that select a model."""

from typing import Any

import pytest

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
from tests.rules.samples import container, mutated, pod, term, terms
from webhook import engine
from webhook.facts.facts import ClusterFacts
from webhook.model.claims import TEMPLATE
from webhook.rules.gpu_types import RULE

PREFER = {"prefer": ["T4", "L4"]}


@pytest.mark.parametrize(
    ("values", "facts", "expected"),
    [
        pytest.param(
            PREFER,
            cluster(H100, L4, T4),
            [(100, PRODUCT, ["Tesla-T4"]), (50, PRODUCT, ["NVIDIA-L4"])],
            id="the first one most",
        ),
        pytest.param(PREFER, cluster(H100, L4), [(50, PRODUCT, ["NVIDIA-L4"])], id="what there is"),
        pytest.param(PREFER, cluster(H100, SILENT), [], id="none of them is there"),
        pytest.param(
            PREFER,
            cluster(T4, SHARED_T4, GKE_T4),
            [
                (100, PRODUCT, ["Tesla-T4", "Tesla-T4-SHARED"]),
                (100, "cloud.google.com/gke-accelerator", ["nvidia-tesla-t4"]),
            ],
            id="every label that says it",
        ),
        pytest.param(
            {**PREFER, "denied": ["T4"]}, cluster(T4, L4), [(50, PRODUCT, ["NVIDIA-L4"])], id="what is denied"
        ),
        pytest.param({"prefer": ["A100"]}, cluster(A100, T4), [(100, PRODUCT, [A100[PRODUCT]])], id="a family"),
    ],
)
def test_a_pod_that_says_nothing_prefers_what_the_policy_prefers(values, facts, expected):
    assert preferred(gpu_pod(), facts, values) == expected


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeSelector": {PRODUCT: "NVIDIA-L4"}}, id="it selects a model"),
        pytest.param({"affinity": terms(term((PRODUCT, "In", ["NVIDIA-L4"])))}, id="it requires a model"),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "preference": term((PRODUCT, "In", ["NVIDIA-L4"]))}
                        ]
                    }
                }
            },
            id="it prefers a model",
        ),
        pytest.param({"nodeName": "n0"}, id="it names its node"),
    ],
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


@pytest.mark.parametrize(
    ("template", "values", "found"),
    [
        pytest.param(selecting(CLAIMED_H100), SMALL, "the policy allows only T4 and L4", id="not allowed"),
        pytest.param(selecting(CLAIMED_H100), {"denied": ["H100"]}, "the policy denies H100", id="denied"),
        pytest.param(selecting(CLAIMED_H100, "NVIDIA H200"), SMALL, "selects H100-80GB or H200", id="either of two"),
        pytest.param(selecting(CLAIMED_T4), SMALL, "", id="allowed"),
        pytest.param(selecting(CLAIMED_H100, CLAIMED_T4), SMALL, "", id="one alternative is allowed"),
        pytest.param(selecting(CLAIMED_H100, ""), SMALL, "", id="one alternative says no model"),
        pytest.param(selecting("NVIDIA Next 1"), SMALL, "", id="an unknown model"),
        pytest.param(selecting(CLAIMED_H100), {"allowed": ["nvidia.com/*"]}, "", id="resources have other names"),
        pytest.param(selecting(CLAIMED_H100, adminAccess=True), SMALL, "", id="for monitoring"),
    ],
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
