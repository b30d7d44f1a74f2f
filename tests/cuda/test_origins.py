"""Who built the code in images: a row for every family, which agrees with the readers of its images."""

from collections import Counter
from fnmatch import fnmatchcase

import pytest

from tests.golden import golden
from webhook.cuda import DATA
from webhook.cuda.compiled_code import Kernels
from webhook.cuda.families import look_up
from webhook.model.image import parse_reference
from webhook.yaml_files.shipped_tables import read_table

TABLE = read_table(DATA / "kernels.yaml")
ORIGINS, BUILDS = TABLE["origins"], {row["build"]: row for row in TABLE["builds"]}
WRITTEN = [family for origin in ORIGINS for family in origin["images"]]
TOLD_BY_TAG = {
    "vllm/vllm-openai": "vllm/vllm-openai:v0.6.3",
    "vllm-openai": "mirror.corp/aibrix/vllm-openai:v0.6.3",
    "lmsysorg/sglang": "lmsysorg/sglang:v0.4.1-cu124",
    "pytorch/pytorch": "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime",
    "huggingface/text-generation-inference": "ghcr.io/huggingface/text-generation-inference:2.4.0",
    "nvidia/samples": "nvidia/samples:vectoradd-cuda11.2.1",
    "k8s/cuda-sample": "nvcr.io/nvidia/k8s/cuda-sample:nbody",
    "cuda-vector-add": "registry.k8s.io/cuda-vector-add:v0.1",
    "hpc-cloud/nccl-tests": "public.ecr.aws/hpc-cloud/nccl-tests:latest",
    "nvidia/cuda": "nvcr.io/nvidia/cuda:12.4.1-base-ubuntu22.04",
    "nvidia/cudagl": "nvidia/cudagl:11.4.2-base-ubuntu20.04",
    "nvidia/cuda-arm64": "nvidia/cuda-arm64:11.4.0-base-ubuntu20.04",
    "nvidia/cuda-ppc64le": "nvidia/cuda-ppc64le:11.4.0-base-ubi8",
    "cuda": "registry.corp/cuda:12.4.1-devel-ubuntu22.04",
    "cudagl": "registry.corp/cudagl:11.4.2-devel-ubuntu20.04",
    "nvidia-cuda": "registry.corp/nvidia-cuda:12.4.1-devel-ubuntu22.04",
    "nvidia_cuda": "registry.corp/nvidia_cuda:12.4.1-devel-ubuntu22.04",
}
"""One image of each family whose reader looks at the form of the tag."""


def build_of(image):
    return look_up(parse_reference(image)).build


def may_have_cuda():
    """Every family whose images may have CUDA: the end of the path, or a namespace followed by /*."""
    for row in read_table(DATA / "images.yaml")["families"]:
        has_tables = "releases" in row or "byTag" in row
        needs_none = row.get("kind", "none" if "words" in row else "") == "none"
        if has_tables or "base" in row or not needs_none:
            below = "/*" if row["by"] in ("namespace", "service") else ""
            for place in row.get("under", (".",)):
                yield from (f"{image}{below}" if place == "." else f"{place}/{image}{below}" for image in row["images"])


@pytest.mark.parametrize("family", sorted(set(may_have_cuda())))
def test_every_family_has_a_row_about_its_code(family):
    assert family in WRITTEN or any(fnmatchcase(family, pattern) for pattern in WRITTEN)


def test_no_family_has_two_rows():
    assert [family for family, rows in Counter(WRITTEN).items() if rows > 1] == []


def test_known_builds_have_a_source_and_unknown_ones_a_reason():
    assert [name for name, row in BUILDS.items() if row["source"] == "unverified"] == ["unknown"]
    assert all(origin.get("note") for origin in ORIGINS if origin["build"] == "unknown")


BY_NAME = [
    pytest.param(
        f"registry.corp/{family.removesuffix('/*')}/x:cu124" if "*" in family else f"{family}:cu124", origin["build"]
    )
    for origin in ORIGINS
    if not origin.get("byTag") and origin["build"] != "unknown"
    for family in origin["images"]
]
BY_TAG = [
    pytest.param(TOLD_BY_TAG[family], origin["build"])
    for origin in ORIGINS
    if origin.get("byTag")
    for family in origin["images"]
]


@pytest.mark.parametrize(("image", "build"), BY_NAME + BY_TAG)
def test_rows_of_families_and_of_builds_agree(image, build):
    assert build_of(image) == build


@golden
def test_an_ambiguous_name_does_not_tell_the_code(image):
    assert build_of(image) == "unknown"


def test_only_builds_whose_source_shows_it_are_without_ptx():
    """Such builds refuse pods, so people have to add new ones to this list."""
    assert [name for name, row in BUILDS.items() if row["brings"] == Kernels.WITHOUT_PTX] == [
        "pytorch-of-pip",
        "pytorch-of-conda",
        "nccl-tests-of-aws",
        "text-embeddings",
    ]
