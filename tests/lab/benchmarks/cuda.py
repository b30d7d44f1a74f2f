"""What `cudaDriver` costs per pod: 5,000 nodes in 20 classes, and look-ups that know every image.

    python -m tests.lab.benchmarks.cuda

Medians of interleaved rounds. Each case is measured with warm caches, as the second pod of an image meets them, and
with images never seen before: where they are queued, and without look-ups, where their names are read. Each image has
to run on as many classes as its row says, and the rule to say of it what follows from that.
"""

import itertools
import statistics
import timeit
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tests.images.replicas import EVERYBODY, Registries, config
from tests.lab.benchmarks.runs import demand, head, row, sized
from tests.rules.samples import mutations
from webhook.cuda.assessment import assess
from webhook.cuda.evidence import ImageContext, need_of
from webhook.facts.facts import ClusterFacts
from webhook.images.lookups import LookupService
from webhook.model.image import parse_reference
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.cuda_driver import RULE
from webhook.rules.rule import Facts
from webhook.rules.rule_settings import Mode, RuleSettings

DRIVERS = ("470.82.01", "535.183.01", "550.54.15", "565.57.01", "570.124.06")
PRODUCTS = ("Tesla-T4", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L4", "NVIDIA-H100-80GB-HBM3")
NODES = sized(5000, 100)
ROUNDS, CALLS, FRESH = sized((15, 200, 20), (2, 10, 5))


@dataclass(frozen=True, slots=True)
class Case:
    """An image, how it is judged by the `evidence`, and on how many of the classes of nodes it runs and does not.

    `edits` are how many expressions the pod gets that keep it from nodes, `says` is what validation says of it.
    """

    image: str
    evidence: str = ""
    runs: int = 0
    fails: int = 0
    edits: int = 0
    says: tuple[str, ...] = ()


CASES = {
    "runs on 18 of 20 classes, by its tag": Case(
        "registry.example.com/mirror/nvidia/cuda:11.8.0-base-ubuntu22.04", "tag ", 18, 2, says=("Advice",)
    ),
    "runs on 16 of 20, by its tag": Case(
        "pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime", "tag ", 16, 4, edits=1, says=("Advice",)
    ),
    "runs on none, by its tag": Case(
        "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime", "tag ", 0, 20, says=("Violation",)
    ),
    "runs on 18 of 20, by its configuration in the registry": Case(
        "registry.example.com/team/app:1", "image configuration", 18, 2, says=("Advice", "Advice")
    ),
    "says nothing": Case("registry.example.com/team/app:2"),
    "is for the CPU": Case("python:3.12-slim", "tag ", 20),
}
ENVIRONMENTS = {
    "registry.example.com/team/app:1": {"CUDA_VERSION": "12.8.1", "NVIDIA_REQUIRE_CUDA": "cuda>=12.8 brand=tesla"}
}
"""What the registries say; of all other images nothing about CUDA."""
QUEUED, BY_NAME = "was never seen, and is queued", "was never seen, and there are no look-ups"


def main() -> None:
    """Print one line for each case: microseconds of both phases."""
    nodes = ClusterFacts.of(_node(number) for number in range(NODES))
    settings = RULE.settings(mode=Mode.ENFORCE)
    classes = len(nodes.matching_nodes(pod_with("busybox")))
    demand(classes == 20, f"{classes} classes of nodes; 20 are expected")
    images = _knowing([case.image for case in CASES.values()])
    known = nodes.with_images(images)
    samples: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in (*CASES, QUEUED, BY_NAME)}
    unseen = (pod_with(f"registry.example.com/team/app:{number}-cu124") for number in itertools.count())
    for _ in range(ROUNDS):
        for name, case in CASES.items():
            pod = pod_with(case.image)
            _demand_verdict(name, case, pod, known, settings)
            for taken, ask in zip(samples[name], (partial(mutations, RULE), RULE.validate), strict=True):
                taken.append(_microseconds(ask, itertools.repeat(pod), settings, known))
        for name, facts in ((QUEUED, known), (BY_NAME, nodes)):
            pods = [next(unseen) for _ in range(FRESH)]
            samples[name][1].append(_microseconds(RULE.validate, iter(pods), settings, facts, FRESH))
            _demand_queued(name, pods, images)
    images.close()
    print(f"{NODES:,} nodes in {classes} classes\n")
    head("The image", "mutate, microseconds", "validate, microseconds")
    for name, phases in samples.items():
        row(name, *(f"{statistics.median(taken):.1f}" if taken else "-" for taken in phases))


def _demand_verdict(name: str, case: Case, pod: Pod, facts: Facts, settings: RuleSettings) -> None:
    need = need_of(case.image, ImageContext(info=facts.image(case.image)))
    assessment = assess((need,), facts.matching_nodes(pod), is_forward_compat_allowed=True)
    edits = len(mutations(RULE, pod, settings, facts))
    says = tuple(type(value).__name__ for value in RULE.validate(pod, settings, facts))
    found = Case(case.image, need.evidence, len(assessment.compatible), len(assessment.incompatible), edits, says)
    is_right = found == replace(case, evidence=need.evidence) and need.evidence.startswith(case.evidence)
    demand(is_right, f"{name}: found is {found}, expected {case}")


def _demand_queued(name: str, pods: Sequence[Pod], images: LookupService) -> None:
    """Where there are look-ups all images were queued, and are known since; where there are none, none of them was."""
    demand(images.wait(10), "the registries were not asked about all images within 10 s")
    known = sum(images.info(pod.containers[0].image, looks_up=False).config is not None for pod in pods)
    expected = len(pods) if name == QUEUED else 0
    demand(known == expected, f"{name}: {known} of {len(pods)} images were looked up; expected are {expected}")
    for image in (pod.containers[0].image for pod in pods):
        cuda = need_of(image, ImageContext()).cuda
        demand(str(cuda) == "12.4", f"{name}: the name of {image} says CUDA {cuda}; expected is 12.4")


def _knowing(names: Sequence[str]) -> LookupService:
    """Look-ups that have asked about these images and know them all."""
    said = {str(parse_reference(image)): config(image, ENVIRONMENTS.get(image, {})) for image in names}
    images = LookupService(Registries(said).look_up, EVERYBODY)
    images.start()
    for image in names:
        images.info(image)
    demand(images.wait(10), "the registries were not asked about all images within 10 s")
    return images


def pod_with(image: str) -> Pod:
    """A pod with one GPU that runs the image."""
    container = {"name": "main", "image": image, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return pod_from_raw({"metadata": {"name": "p"}, "spec": {"containers": [container]}})


def _node(number: int) -> dict[str, Any]:
    driver, product = DRIVERS[number % 5], PRODUCTS[number // 5 % 4]
    labels = {
        "kubernetes.io/hostname": f"gpu-{number}",
        "kubernetes.io/arch": "amd64",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": "8",
        "nvidia.com/cuda.driver-version.full": driver,
        "nvidia.com/cuda.driver-version.major": driver.split(".", maxsplit=1)[0],
    }
    metadata = {"name": f"gpu-{number}", "uid": str(number), "labels": labels}
    return {"metadata": metadata, "status": {"capacity": {"nvidia.com/gpu": "8"}}}


Ask = Callable[..., Iterable[object]]


def _microseconds(ask: Ask, pods: Iterator[Pod], settings: RuleSettings, facts: Facts, calls: int = CALLS) -> float:
    """What one call costs, each about the next pod."""
    return timeit.timeit(lambda: list(ask(next(pods), settings, facts)), number=calls) / calls * 1e6


if __name__ == "__main__":
    main()
