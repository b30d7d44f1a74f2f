"""What `cudaDriver` costs per pod: 5,000 nodes in 20 classes, and look-ups that know every image.

    python -m tests.benchmarks.cuda

Medians of interleaved rounds. Each case is measured with warm caches, as the second pod of an image meets them, and
with images never seen before: where they are queued, and without look-ups, where their names are read.
"""

import itertools
import statistics
import timeit
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tests.registry.replicas import Registries, config, everybody
from webhook.cluster.snapshot import Snapshot
from webhook.model.image import parse_reference
from webhook.model.pod import Pod, pod_from_raw
from webhook.registry.lookups import Images
from webhook.registry.sight import WithImages
from webhook.rules.cuda_driver import RULE
from webhook.rules.rule import Facts, RuleSettings

DRIVERS = ("470.82.01", "535.183.01", "550.54.15", "570.124.06", "580.95.05")
PRODUCTS = ("Tesla-T4", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L4", "NVIDIA-H100-80GB-HBM3")
NODES, ROUNDS, CALLS, FRESH = 5000, 15, 200, 20
IMAGES = {
    "runs on most": "registry.example.com/mirror/nvidia/cuda:11.8.0-base-ubuntu22.04",
    "runs on some": "pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime",
    "runs nowhere": "nvidia/cuda:8.0-devel-ubuntu16.04",
    "by its configuration": "registry.example.com/team/app:1",
    "says nothing": "registry.example.com/team/app:2",
    "no CUDA": "python:3.12-slim",
}
ENVIRONMENTS = {"by its configuration": {"CUDA_VERSION": "12.8.1", "NVIDIA_REQUIRE_CUDA": "cuda>=12.8 brand=tesla"}}
"""What the registries say; of all other images nothing about CUDA."""


def main() -> None:
    """Print one line for each case: microseconds of both phases."""
    nodes = Snapshot.of(_node(number) for number in range(NODES))
    settings = RULE.settings.model_validate({"mode": "enforce"})
    classes = len(nodes.candidates(pod_with("busybox")))
    images = _knowing(IMAGES)
    known = WithImages(nodes, images)
    fresh: dict[str, Facts] = {"never seen, queued": known, "never seen, by its name": nodes}
    unseen = (pod_with(f"registry.example.com/team/app:{number}-cu124") for number in itertools.count())
    samples: dict[tuple[str, str], list[float]] = {}
    for _ in range(ROUNDS):
        for name, image in IMAGES.items():
            pod = pod_with(image)
            for phase, ask in (("mutate", RULE.mutate), ("validate", RULE.validate)):
                list(ask(pod, settings, known))
                cost = _microseconds(ask, itertools.repeat(pod), settings, known)
                samples.setdefault((name, phase), []).append(cost)
        for name, facts in fresh.items():
            pods = iter([next(unseen) for _ in range(FRESH)])
            cost = _microseconds(RULE.validate, pods, settings, facts, FRESH)
            samples.setdefault((name, "validate"), []).append(cost)
    images.close()
    print(f"{NODES} nodes in {classes} classes\n{'image':<24} {'mutate us':>10} {'validate us':>12}")
    for name in (*IMAGES, *fresh):
        found = [samples.get((name, phase)) for phase in ("mutate", "validate")]
        print(f"{name:<24} " + " ".join(f"{statistics.median(one):>10.1f}" if one else f"{'-':>10}" for one in found))


def _knowing(names: Mapping[str, str]) -> Images:
    """Look-ups that have asked about these images and know them all."""
    said = {str(parse_reference(image)): config(image, ENVIRONMENTS.get(name, {})) for name, image in names.items()}
    images = Images(Registries(said), everybody)
    images.start()
    for image in names.values():
        images.sight(image)
    assert images.wait(10)
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
