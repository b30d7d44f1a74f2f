"""What `cudaDriver` costs per pod: 5,000 nodes in 20 classes, and everything known of the image.

    python -m tests.benchmarks.cuda

Medians of interleaved rounds. Each case is measured with warm caches, as the second pod of an image meets them, and
once with an image never seen before.
"""

import itertools
import statistics
import timeit
from collections.abc import Callable
from typing import Any

from webhook.cluster.snapshot import Snapshot
from webhook.model.pod import Pod, pod_from_raw
from webhook.rules.cuda_driver import RULE

DRIVERS = ("470.82.01", "535.183.01", "550.54.15", "570.124.06", "580.95.05")
PRODUCTS = ("Tesla-T4", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L4", "NVIDIA-H100-80GB-HBM3")
NODES, ROUNDS, CALLS = 5000, 15, 200
IMAGES = {
    "runs everywhere": "registry.example.com/mirror/nvidia/cuda:11.8.0-base-ubuntu22.04",
    "runs on some": "pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime",
    "runs nowhere": "tensorflow/tensorflow:1.15.0-gpu-py3",
    "says nothing": "registry.example.com/team/app:1",
    "no CUDA": "python:3.12-slim",
}


def main() -> None:
    """Print one line for each case: microseconds of both phases."""
    facts = Snapshot.of(_node(number) for number in range(NODES))
    settings = RULE.settings.model_validate({"mode": "enforce"})
    classes = len(facts.candidates(pod_with("busybox")))
    samples: dict[tuple[str, str], list[float]] = {}
    fresh = (f"registry.example.com/team/app:{number}-cu124" for number in itertools.count())
    for _ in range(ROUNDS):
        for name, image in IMAGES.items():
            pod = pod_with(image)
            for phase, ask in (("mutate", RULE.mutate), ("validate", RULE.validate)):
                assert ask is not None
                list(ask(pod, settings, facts))
                cost = _microseconds(lambda p=pod, a=ask: list(a(p, settings, facts)))  # type: ignore[misc]  # bound early
                samples.setdefault((name, phase), []).append(cost)
        new = iter([pod_with(next(fresh)) for _ in range(20)])
        seconds = timeit.timeit(lambda pods=new: list(RULE.validate(next(pods), settings, facts)), number=20)  # type: ignore[misc]  # bound early
        samples.setdefault(("never seen", "validate"), []).append(seconds / 20 * 1e6)
    print(f"{NODES} nodes in {classes} classes\n{'image':<18} {'mutate us':>10} {'validate us':>12}")
    for name in (*IMAGES, "never seen"):
        found = [samples.get((name, phase)) for phase in ("mutate", "validate")]
        print(f"{name:<18} " + " ".join(f"{statistics.median(one):>10.1f}" if one else f"{'-':>10}" for one in found))


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


def _microseconds(call: Callable[[], object]) -> float:
    return timeit.timeit(call, number=CALLS) / CALLS * 1e6


if __name__ == "__main__":
    main()
