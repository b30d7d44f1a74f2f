"""Frameworks and tools whose version tells which CUDA their images are built with.

A version between two rows, before the first or after the last has no answer.
"""

from collections.abc import Mapping

from webhook.cuda.releases import DOCKERFILE, Built

COG = "replicate/cog, compatibility tables"
TENSORFLOW_TABLE = "tensorflow.org, tested build configurations"
LIST_OF_TENSORFLOW_IMAGES = "rpeloff/research_images, README of tensorflow_base"
RAY_SCRIPTS = "ray-project/ray, the scripts that build its images"
RAY_PLATFORMS = "ray-project/ray, GPU_PLATFORM of ci/ray_ci and ray-images.json"

TENSORFLOW: tuple[Built, ...] = (
    Built.of("1.5", "1.12", "9.0", LIST_OF_TENSORFLOW_IMAGES),
    Built.of("1.13", "2.0", "10.0", TENSORFLOW_TABLE),
    Built.of("2.1", "2.3", "10.1", TENSORFLOW_TABLE),
    Built.of("2.4", "2.4", "11.0", COG),
    Built.of("2.5", "2.11", "11.2", COG),
    Built.of("2.12", "2.14", "11.8", COG),
    Built.of("2.15", "2.15", "12.2", COG),
    Built.of("2.16", "2.17", "12.3", COG),
    Built.of("2.18", "2.21", "12.5", COG),
)

TORCH: Mapping[str, tuple[str, ...]] = {
    "2.1": ("11.8", "12.1"),
    "2.2": ("11.8", "12.1"),
    "2.3": ("11.8", "12.1"),
    "2.4": ("11.8", "12.1", "12.4"),
    "2.5": ("11.8", "12.1", "12.4"),
    "2.6": ("11.8", "12.4", "12.6"),
    "2.7": ("11.8", "12.6", "12.8"),
    "2.8": ("12.6", "12.8", "12.9"),
    "2.9": ("12.6", "12.8", "13.0"),
    "2.10": ("12.6", "12.8", "13.0"),
    "2.11": ("12.6", "12.8", "13.0"),
    "2.12": ("12.6", "13.0", "13.2"),
    "2.13": ("12.6", "13.0", "13.2"),
}
"""The builds of each PyTorch, from which images of pytorch/pytorch are made (COG; 2.12 and 2.13: data.pyg.org). Those
before 2.1 are left out, because not every build had an image."""

TORCHSERVE: tuple[Built, ...] = (
    Built.of("0.6.1", "0.6.1", "10.2", DOCKERFILE),
    Built.of("0.7", "0.8.1", "11.7", DOCKERFILE),
    Built.of("0.8.2", "0.8.2", "11.8", DOCKERFILE),
    Built.of("0.9", "0.12", "12.1", DOCKERFILE),
)

HOROVOD: tuple[Built, ...] = (
    Built.of("0.18.2", "0.19.1", "10.0", DOCKERFILE),
    Built.of("0.19.2", "0.19.5", "10.1", DOCKERFILE),
    Built.of("0.22.1", "0.25", "11.2", DOCKERFILE),
    Built.of("0.26", "0.28", "11.3", DOCKERFILE),
)

RAY: tuple[Built, ...] = (
    Built.of("1.0.1", "1.2", "10.1", RAY_SCRIPTS),
    Built.of("1.3", "1.4", "11.0", RAY_SCRIPTS),
    Built.of("1.5", "2.1", "11.2", RAY_SCRIPTS),
    Built.of("2.2", "2.5", "11.6", RAY_SCRIPTS),
    Built.of("2.6", "2.7", "11.8", RAY_SCRIPTS),
    Built.of("2.8", "2.32", "11.8", RAY_PLATFORMS),
    Built.of("2.35", "2.55", "12.1", RAY_PLATFORMS),
)
"""What -gpu stands for, which names one of the images with -cuNNN."""

RAY_ML: tuple[Built, ...] = RAY[1:]
"""Without -cpu: the images with -gpu, or what stands for them."""

KATIB_PYTORCH: tuple[Built, ...] = (
    Built.of("0.14", "0.14", "11.3", DOCKERFILE),
    Built.of("0.15", "0.16", "11.8", DOCKERFILE),
    Built.of("0.17", "0.19", "12.3", DOCKERFILE),
)
KATIB_DARTS: tuple[Built, ...] = KATIB_PYTORCH[1:]
KATIB_ENAS: tuple[Built, ...] = (
    Built.of("0.14", "0.14", "11.2", DOCKERFILE),
    Built.of("0.15", "0.19", "11.8", DOCKERFILE),
)


TABLES: Mapping[str, tuple[Built, ...]] = {
    "tensorflow/tensorflow with -gpu": TENSORFLOW,
    "pytorch/torchserve with -gpu": TORCHSERVE,
    "horovod/horovod": HOROVOD,
    "rayproject/ray with -gpu": RAY,
    "rayproject/ray-ml": RAY_ML,
    "kubeflow/katib/pytorch-mnist-gpu": KATIB_PYTORCH,
    "kubeflow/katib/darts-cnn-cifar10-gpu": KATIB_DARTS,
    "kubeflow/katib/enas-cnn-cifar10-gpu": KATIB_ENAS,
}
"""By the images as people know them."""
