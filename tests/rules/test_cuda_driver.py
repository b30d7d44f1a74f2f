"""GPU pods run only where the node's driver and GPU can run the CUDA of their images, and are told when nothing can."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.facts.samples import device_class, node
from tests.golden import each, golden
from tests.rules.rule_case import RuleCase, RulePods, any_of, spec_with, tolerating_gpu_nodes
from tests.rules.samples import container, mutated, pod, settings_of, term, terms, violations
from webhook.facts.facts import ClusterFacts
from webhook.model.image import NOT_LOOKED_UP, ImageConfig, ImageInfo
from webhook.model.node import NodePool
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.cuda_driver import RULE
from webhook.rules.rule import Advice, Violation

CUDA_13 = "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime"
CUDA_12 = "nvidia/cuda:12.4.1-base-ubuntu22.04"
SILENT = "registry.example.com/team/app:1"
GPU = "nvidia.com/gpu"
RUNTIME, DRIVER = "nvidia.com/cuda.runtime-version.major", "nvidia.com/cuda.driver-version.full"

V100 = {"nvidia.com/gpu.product": "Tesla-V100-SXM2-32GB", DRIVER: "470.82.01", RUNTIME: "11"}
T4 = {"nvidia.com/gpu.product": "Tesla-T4", DRIVER: "535.183.01", RUNTIME: "12"}
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", DRIVER: "580.95.05", RUNTIME: "13"}
NOTHING_SAID: dict[str, str] = {}


def cluster(*nodes: dict[str, str], images: dict[str, ImageInfo] | None = None) -> ClusterFacts:
    """Nodes with one GPU each and these labels; n0, n1 and so on."""
    raws = [
        {"metadata": {"name": f"n{at}", "labels": labels}, "status": {"capacity": {"nvidia.com/gpu": "1"}}}
        for at, labels in enumerate(nodes)
    ]
    known = SimpleNamespace(info=lambda text, _asker="": (images or {}).get(text, NOT_LOOKED_UP))
    return ClusterFacts.of(raws).with_images(known)


def gpu_pod(*images: str, **spec: Any) -> dict[str, Any]:
    return pod(*(container(f"c{at}", gpus=1, image=image) for at, image in enumerate(images)), **spec)


def told(raw: dict[str, Any], facts: Any, **values: Any) -> list[Violation | Advice]:
    return list(RULE.validate(pod_from_raw(raw), settings_of(RULE, values), facts))


def excluded(raw: dict[str, Any], facts: Any, **values: Any) -> list[dict[str, Any]]:
    """The expressions of the first term after the mutator."""
    affinity = mutated(RULE, raw, values, facts)["spec"].get("affinity")
    if affinity is None:
        return []
    selector = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return list(selector["nodeSelectorTerms"][0]["matchExpressions"])


def test_a_pod_that_runs_on_every_candidate_is_left_alone():
    assert excluded(gpu_pod(CUDA_12), cluster(T4, H100)) == []
    assert told(gpu_pod(CUDA_12), cluster(T4, H100)) == []


def test_a_pod_that_runs_on_some_candidates_is_kept_off_the_others():
    """Each by what is wrong with it: the V100 will never do, the T4 will with another driver."""
    facts = cluster(V100, T4, H100)
    assert excluded(gpu_pod(CUDA_13), facts) == [
        {"key": "nvidia.com/gpu.product", "operator": "NotIn", "values": ["Tesla-V100-SXM2-32GB"]},
        {"key": RUNTIME, "operator": "NotIn", "values": ["12"]},
    ]
    assert told(mutated(RULE, gpu_pod(CUDA_13), {}, facts), facts) == []


def test_a_pod_is_not_refused_where_a_device_class_may_give_its_gpu_on_another_node():
    """Nothing is known of that node, so neither a refusal nor a promise is certain."""
    facts = cluster(V100)
    assert told(gpu_pod(CUDA_13), facts)
    by_class = replace(
        facts, cluster=facts.cluster.with_classes("device_classes", [device_class("gpu.nvidia.com", GPU)])
    )
    (found,) = told(gpu_pod(CUDA_13), by_class)
    assert isinstance(found, Advice)
    (unknown,) = told(gpu_pod("example.com/app:1"), by_class, unknown="warn")
    assert "a node of a DeviceClass with an unknown driver" in str(unknown)
    assert isinstance(told(gpu_pod(CUDA_13, nodeName="n0"), by_class)[0], Violation)


def test_every_term_of_the_pod_gets_the_exclusion_because_terms_are_ored():
    both = terms(term((DRIVER, "Exists", [])), term(("zone", "In", ["a"])))
    found = mutated(RULE, gpu_pod(CUDA_13, affinity=both), {}, cluster(T4, H100))
    selector = found["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert all(
        {"key": RUNTIME, "operator": "NotIn", "values": ["12"]} in one["matchExpressions"]
        for one in selector["nodeSelectorTerms"]
    )


def test_a_node_of_which_nothing_is_known_stays_eligible():
    facts = cluster(T4, NOTHING_SAID)
    (expression,) = excluded(gpu_pod(CUDA_13), facts)
    assert expression == {"key": RUNTIME, "operator": "NotIn", "values": ["12"]}
    assert told(mutated(RULE, gpu_pod(CUDA_13), {}, facts), facts, unknown="allow") == []


def test_a_pod_that_runs_nowhere_is_refused_with_what_is_needed_what_is_there_and_the_remedies():
    (violation,) = violations(RULE, gpu_pod(CUDA_13), {}, cluster(T4, T4, V100))
    assert violation.where == "spec.containers[c0].image"
    assert violation.found.startswith(f"{CUDA_13} needs CUDA 13.0 (")
    assert "; none of the nodes that the pod could land on can run it: " in violation.found
    assert "2 nodes with Tesla-T4, driver 535.183.01" in violation.found
    assert "1 node with Tesla-V100-SXM2-32GB, driver 470.82.01" in violation.found
    assert "580" in violation.remedy
    assert "cuda12" in violation.remedy


AMD, ARM = {"kubernetes.io/arch": "amd64"}, {"kubernetes.io/arch": "arm64"}
FOR_ARM = "vllm/vllm-openai:v0.9.1-aarch64"


@pytest.mark.parametrize("image", [FOR_ARM, "nvcr.io/nvidia/l4t-base:r36.2.0", "arm64v8/pytorch:2"])
def test_an_image_for_another_processor_is_told_so_and_nothing_of_cuda(image):
    (violation,) = violations(RULE, gpu_pod(image), {}, cluster({**H100, **AMD}, {**T4, **AMD}))
    assert (violation.found, violation.allowed) == (f"{image} is for arm64", "nodes are amd64")
    assert violation.remedy == "Build the image for amd64 as well, or use nodes with arm64 CPUs"


def test_nodes_of_another_processor_are_told_apart_from_those_with_an_old_driver():
    """Where the driver of some nodes is what is wrong, it is named."""
    old = {**ARM, "nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-3090", DRIVER: "470.82.01"}
    facts = cluster({**H100, **AMD}, old)
    (violation,) = violations(RULE, gpu_pod(FOR_ARM), {}, facts)
    assert violation.found.startswith(f"{FOR_ARM} needs CUDA 12.8 (")
    assert "the image is built for arm64; the node is amd64" in violation.found


def test_some_nodes_of_another_processor_are_a_warning_where_nothing_is_steered():
    (advice,) = told(gpu_pod(FOR_ARM), cluster({**H100, **AMD}, {**H100, **ARM}), steer=False)
    assert advice.found == f"{FOR_ARM} is for arm64; some nodes that the pod could land on are amd64"
    assert advice.remedy == "Select nodes that run it by nodeSelector, or tell the platform team"


def test_images_of_one_pod_that_need_different_nodes_are_refused_together():
    """Each runs somewhere, and no node runs both."""
    older = "pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime"
    b200 = {"nvidia.com/gpu.product": "NVIDIA-B200", DRIVER: "580.95.05", RUNTIME: "13"}
    found = violations(RULE, gpu_pod(CUDA_13, older), {}, cluster(T4, b200))
    assert [violation.where for violation in found] == ["spec.containers[c0].image", "spec.containers[c1].image"]
    assert all("only some of the nodes" in violation.found for violation in found)


@golden
def test_a_pod_bound_to_a_node_is_never_steered_and_judged_by_that_node_alone(spec):
    assert mutated(RULE, gpu_pod(CUDA_13, **spec), {}, cluster(T4, H100)) == gpu_pod(CUDA_13, **spec)
    assert [type(value) for value in told(gpu_pod(CUDA_13, **spec), cluster(T4, H100))] == [Violation]
    assert told(gpu_pod(CUDA_13, **spec), cluster(H100, T4)) == []


def test_a_pod_with_a_node_by_name_as_one_alternative_is_steered_in_each_alternative():
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
    raw = gpu_pod(CUDA_13, affinity=terms(by_name, term((RUNTIME, "Exists", []))))
    steered = mutated(RULE, raw, {}, cluster(T4, H100))
    required = steered["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [one["matchExpressions"][-1]["operator"] for one in required["nodeSelectorTerms"]] == ["NotIn", "NotIn"]
    assert told(steered, cluster(T4, H100)) == []


def test_a_pod_that_lacks_only_a_toleration_is_judged_by_the_nodes_that_it_selects():
    tainted = [{"key": "team", "value": "a", "effect": "NoSchedule"}]
    facts = ClusterFacts.of([node("n0", labels=T4, capacity={"nvidia.com/gpu": "8"}, taints=tainted)])
    assert [type(value) for value in told(gpu_pod(CUDA_13), facts)] == [Violation]


def test_where_no_label_separates_the_nodes_it_is_said():
    """Drivers of one branch, on nodes whose labels are of an old feature discovery: the minor alone says too little."""
    old = {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/cuda.driver.major": "450"}
    facts = cluster(*({**old, "nvidia.com/cuda.driver.minor": minor} for minor in ("51", "51", "119")))
    needing = {"images": {"*": "11.8"}}
    assert excluded(gpu_pod(CUDA_13), facts, **needing) == []
    (advice,) = told(gpu_pod(CUDA_13), facts, **needing)
    assert isinstance(advice, Advice)
    assert "cannot run and no label separates them: 2 nodes with Tesla-T4, driver 450.51:" in advice.found
    bare = {key: value for key, value in T4.items() if key != RUNTIME}
    by_full = [{"key": DRIVER, "operator": "NotIn", "values": ["535.183.01"]}]
    assert excluded(gpu_pod(CUDA_13), cluster(bare, {**bare, DRIVER: "580.95.05"})) == by_full


def test_without_steering_the_rest_is_only_said():
    assert excluded(gpu_pod(CUDA_13), cluster(T4, H100), steer=False) == []
    (advice,) = told(gpu_pod(CUDA_13), cluster(T4, H100), steer=False)
    assert isinstance(advice, Advice)
    assert "which some nodes that the pod could land on cannot run: 1 node with Tesla-T4" in advice.found


@each("unknown, expected", {"allow": ("allow", []), "warn": ("warn", [Advice]), "deny": ("deny", [Violation])})
@each(
    "image, nodes",
    {
        "an image that says nothing": (SILENT, (H100,)),
        "a node that says nothing": (CUDA_13, (NOTHING_SAID,)),
        "no candidate": (CUDA_13, ()),
        "one node that says nothing and one that is unfit": (CUDA_13, (NOTHING_SAID, T4)),
    },
)
def test_the_policy_says_what_becomes_of_what_is_not_known(image, nodes, unknown, expected):
    facts = cluster(*nodes)
    completed = mutated(RULE, gpu_pod(image), {}, facts)
    assert [type(value) for value in told(completed, facts, unknown=unknown)] == expected


@pytest.mark.parametrize("image", ["python:3.12-slim", "Not An Image"])
def test_what_needs_nothing_or_is_nonsense_never_fails(image):
    found = told(gpu_pod(image), cluster(T4), unknown="deny")
    assert [type(value) for value in found] == ([] if image.startswith("python") else [Violation])


def test_a_pod_is_never_refused_because_its_registry_has_not_answered_yet():
    facts = cluster(T4, images={SILENT: ImageInfo(is_pending=True)})
    (advice,) = told(gpu_pod(SILENT), facts, unknown="deny")
    assert isinstance(advice, Advice)
    assert "has not answered yet" in advice.found


def test_what_the_registry_says_decides_once_it_is_known():
    config = ImageConfig("sha256:" + "0" * 64, {"CUDA_VERSION": "13.0.1", "NVIDIA_REQUIRE_CUDA": "cuda>=13.0"})
    facts = cluster(V100, images={SILENT: ImageInfo(config)})
    (violation,) = told(gpu_pod(SILENT), facts)
    assert f"{SILENT} needs CUDA 13.0.1 (image configuration" in violation.found


def test_the_platforms_mapping_beats_what_everybody_else_says():
    facts = cluster(T4)
    assert told(gpu_pod(CUDA_13), facts, images={"pytorch/*": "12.8"}) == []
    assert told(gpu_pod(CUDA_13), facts, images={"*": "none"}) == []
    found = told(
        gpu_pod(SILENT), cluster(V100), images={"registry.example.com/*": "12.1", "registry.example.com/team/*": "13"}
    )
    assert "needs CUDA 13 (policy images: registry.example.com/team/*)" in found[0].found


def test_a_lie_in_the_pod_hurts_nobody_else():
    """What the pod says of its image decides for that container alone."""
    lying = container("c0", gpus=1, image=CUDA_13, env=[{"name": "CUDA_VERSION", "value": "11.0"}])
    honest = container("c1", gpus=1, image=CUDA_13)
    (violation,) = violations(RULE, pod(lying, honest), {}, cluster(T4))
    assert violation.where == "spec.containers[c1].image"


def test_an_annotation_tells_what_the_image_does_not():
    raw = gpu_pod(SILENT)
    raw["metadata"]["annotations"] = {"cuda.gpupolicy.dev/c0": "13.0"}
    (violation,) = violations(RULE, raw, {}, cluster(V100))
    assert "needs CUDA 13.0 (annotation" in violation.found


def test_containers_without_gpus_are_not_judged():
    assert told(pod(container("c0", image=CUDA_13), container("c1", gpus=1, image=CUDA_12)), cluster(T4)) == []


@each(
    "resource, image, is_refused",
    {
        "AMD": ("amd.com/gpu", CUDA_13, True),
        "a part of an AMD": ("amd.com/dpx_nps1", CUDA_13, True),
        "Intel": ("gpu.intel.com/xe", CUDA_13, True),
        "an agent that watches": ("gpu.intel.com/xe_monitoring", CUDA_13, False),
        "an image that says nothing": ("amd.com/gpu", SILENT, False),
        "ROCm on AMD": ("amd.com/gpu", "rocm/pytorch:latest", False),
        "ROCm on Intel": ("gpu.intel.com/i915", "rocm/pytorch:latest", True),
        "some GPU": ("amd.com/gpu", "registry.corp/team/app:2.0-gpu", False),
        "a name that others have": ("amd.com/gpu", "registry.corp/team/pytorch:2.0-gpu", False),
        "CUDA of no known version": ("amd.com/gpu", "vllm/vllm-openai:latest", True),
        "perhaps with Vulkan": ("amd.com/gpu", "ollama/ollama:latest", False),
        "AMD's is not amd64": ("amd.com/gpu", "lmsysorg/sglang:v0.5.9-cu129-amd64", True),
        "both": ("gpu.intel.com/xe", "ghcr.io/huggingface/text-generation-inference:2.0.4-intel", False),
    },
)
def test_an_image_is_refused_on_gpus_of_another_vendor_if_its_own_is_certain(resource, image, is_refused):
    """No node has to be known, and `unknown` does not matter."""
    found = told(pod(container(gpus=1, resource=resource, image=image)), cluster(T4), unknown="deny")
    assert [isinstance(one, Violation) for one in found] == [True] * is_refused


def test_nodes_that_run_an_image_through_cuda_compat_only_count_as_the_policy_says():
    """T4 is a data-centre GPU, 535 a branch that cuda-compat of CUDA 13 is made for, and nvidia/cuda brings it."""
    image = "nvidia/cuda:13.0.0-base-ubuntu24.04"
    (advice,) = told(gpu_pod(image), cluster(T4))
    assert isinstance(advice, Advice)
    assert "only with cuda-compat" in advice.found
    (violation,) = told(gpu_pod(image), cluster(T4), forwardCompat="deny")
    assert isinstance(violation, Violation)
    assert "forward compatibility only" in violation.found
    assert "which the policy does not allow" in violation.found
    assert excluded(gpu_pod(image), cluster(T4, H100)) == []
    assert excluded(gpu_pod(image), cluster(T4, H100), forwardCompat="deny") != []


def test_a_pool_that_scales_from_zero_is_a_candidate():
    labels = (("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"), (DRIVER, "580.95.05"))
    pool = NodePool("spot", labels, (), frozenset({"nvidia.com/gpu"}), 8)
    facts = cluster(T4).with_pools((pool,))
    assert told(mutated(RULE, gpu_pod(CUDA_13), {}, facts), facts) == []
    assert excluded(gpu_pod(CUDA_13), facts) == [{"key": RUNTIME, "operator": "NotIn", "values": ["12"]}]


def test_a_pool_of_other_gpus_is_not_excluded_by_a_label_that_its_nodes_will_get():
    """V100 and T4 are both of compute capability 7.x, which a pool need not say."""
    facts = cluster({**V100, DRIVER: "580.95.05", RUNTIME: "13", "nvidia.com/gpu.compute.major": "7"})
    pool = NodePool("t4", (("nvidia.com/gpu.product", "Tesla-T4"), (DRIVER, "580.95.05")), (), frozenset({GPU}))
    assert excluded(gpu_pod(CUDA_13), facts.with_pools((pool,))) == [
        {"key": "nvidia.com/gpu.product", "operator": "NotIn", "values": ["Tesla-V100-SXM2-32GB"]}
    ]


def test_kinds_of_nodes_that_offer_the_same_are_told_once_and_the_largest_first():
    """They differ in what has nothing to do with CUDA."""
    alike = [{**T4, "nvidia.com/gpu.count": str(count)} for count in (1, 2, 4)]
    others = [{**T4, "nvidia.com/gpu.product": f"Quadro-{number}"} for number in range(4)]
    (violation,) = violations(RULE, gpu_pod(CUDA_13), {}, cluster(others[0], *alike, *others[1:]))
    assert "can run it: 3 nodes with Tesla-T4, driver 535.183.01, and 1 node with Quadro-" in violation.found
    assert violation.found.count("Tesla-T4") == 1
    assert violation.found.endswith("; and 2 more kinds of nodes")


@each(
    "image, nodes, remedy",
    {
        "the image": (SILENT, (T4,), "Say which CUDA version it needs, or none, in the annotation"),
        "both": (SILENT, (), "Say which CUDA version it needs, or none, in the annotation"),
        "no node": (CUDA_13, (), "Correct nodeSelector, affinity or tolerations"),
        "nodes that say nothing": (CUDA_13, (NOTHING_SAID,), "Select nodes that are known to run it"),
    },
)
def test_what_is_not_known_comes_with_what_would_make_it_known(image, nodes, remedy):
    (violation,) = violations(RULE, gpu_pod(image), {"unknown": "deny"}, cluster(*nodes))
    assert violation.remedy.startswith(remedy)


@golden
def test_settings_that_mean_nothing_are_refused(values):
    with pytest.raises(ValidationError):
        settings_of(RULE, values)


def test_where_only_an_old_container_toolkit_would_refuse_the_pod_is_told_of_it():
    """CUDA 12.4 runs on 545, a branch that the requirement of its images does not name."""
    facts = cluster({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", DRIVER: "545.23.08"})
    (advice,) = told(gpu_pod(CUDA_12), facts, unknown="deny")
    assert isinstance(advice, Advice)
    assert advice.where == "spec.containers[c0].image"
    assert "NVIDIA_REQUIRE_CUDA is not met by 1 node with NVIDIA-A100-SXM4-80GB, driver 545.23.08" in advice.found
    disabled = [{"name": "NVIDIA_DISABLE_REQUIRE", "value": "true"}]
    assert told(pod(container("c0", gpus=1, image=CUDA_12, env=disabled)), facts, unknown="deny") == []


def test_a_requirement_that_the_pod_sets_itself_is_told_where_it_stands():
    env = [{"name": "NVIDIA_REQUIRE_CUDA", "value": "cuda>=12.4"}]
    facts = cluster({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", DRIVER: "545.23.08"})
    (advice,) = told(pod(container("c0", gpus=1, image="registry.example.com/app:1", env=env)), facts)
    assert advice.where == "spec.containers[c0].env[NVIDIA_REQUIRE_CUDA]"
    assert advice.found.startswith("is not met by 1 node with NVIDIA-A100-SXM4-80GB, driver 545.23.08; ")
    assert advice.remedy == "Remove it, or set NVIDIA_DISABLE_REQUIRE to true, or use the toolkit in CDI mode"


def test_a_label_that_cannot_be_read_is_unknown_and_named():
    facts = cluster({"nvidia.com/gpu.product": "Tesla-T4", DRIVER: "about-550"})
    (violation,) = told(gpu_pod(CUDA_12), facts, unknown="deny")
    assert isinstance(violation, Violation)
    assert "about-550" in violation.found
    assert told(gpu_pod(CUDA_12), facts) == []


def test_a_template_whose_image_somebody_fills_in_is_judged_when_there_are_pods():
    assert told(gpu_pod(""), cluster(H100), unknown="deny") == []
    required = [{"name": "NVIDIA_REQUIRE_CUDA", "value": "cuda>=99.0"}]
    assert len(told(pod(container("c0", gpus=1, image="", env=required)), cluster(H100), unknown="deny")) == 1


def test_an_image_that_cannot_be_read_is_unknown_and_named():
    (violation,) = told(gpu_pod("Not An Image"), cluster(H100), unknown="deny")
    assert isinstance(violation, Violation)
    assert "Not An Image" in violation.found


_IMAGES = st.dictionaries(
    st.sampled_from(("*", "registry.example.com/*", "nvidia/*:1?.*")), st.sampled_from(("none", "12.8", "13"))
)
_OLDER = {"nvidia.com/cuda.driver-version.full": "560.54.15"}

CASE = RuleCase(
    pods=lambda raw: RulePods(
        lacks=tolerating_gpu_nodes(raw), breaks=spec_with(tolerating_gpu_nodes(raw), "nodeSelector", _OLDER)
    ),
    values=any_of(
        unknown=st.sampled_from(("allow", "warn", "deny")),
        steer=st.booleans(),
        forwardCompat=st.sampled_from(("allow", "deny")),
        forcedCompat=st.sampled_from(("allow", "warn", "deny")),
        images=_IMAGES,
    ),
    enforced={},
    injecting={"images": {"*": "12.8"}},
    fuzzed={
        "unknown": "allow",
        "steer": True,
        "forwardCompat": "deny",
        "images": {"registry.example.com/new/*": "13.0", "registry.example.com/train:*": "none"},
    },
    completes_every_gpu_pod=True,
)
