"""NVIDIA Dynamo: the CUDA of its releases.

Candidates and builds for one model have a CUDA of their own.
"""

from collections.abc import Mapping

from webhook.cuda.releases import Built

DYNAMO_PAGES = "docs.nvidia.com/dynamo, release artifacts and compatibility"
DYNAMO_SCRIPT = "ai-dynamo/dynamo, container/build.sh"

VLLM: tuple[Built, ...] = (
    Built.of("0.3", "0.5", "12", DYNAMO_SCRIPT),
    Built.of("0.6", "0.7.0", "12.8", DYNAMO_PAGES),
    Built.of("0.7.1", "0.7.1", "12", DYNAMO_PAGES),
    Built.of("0.8", "1.2", "12.9", DYNAMO_PAGES),
    Built.of("1.3", "1.5", "13.0", DYNAMO_PAGES),
)
"""Two pages contradict each other in the second number of 0.7.1."""
SGLANG: tuple[Built, ...] = (
    Built.of("0.3", "0.5", "12", DYNAMO_SCRIPT),
    Built.of("0.6.0", "0.6.0", "12.8", DYNAMO_PAGES),
    Built.of("0.6.1", "0.7.0", "12.9", DYNAMO_PAGES),
    Built.of("0.7.1", "0.7.1", "12", DYNAMO_PAGES),
    Built.of("0.8", "1.2", "12.9", DYNAMO_PAGES),
    Built.of("1.3", "1.5", "13.0", DYNAMO_PAGES),
)
TENSORRT_LLM_RUNTIME: tuple[Built, ...] = (
    Built.of("0.3", "0.5", "12", DYNAMO_SCRIPT),
    Built.of("0.6", "0.6", "12.9", DYNAMO_PAGES),
    Built.of("0.7", "0.9", "13.0", DYNAMO_PAGES),
    Built.of("1.0", "1.5", "13.1", DYNAMO_PAGES),
)


TABLES: Mapping[str, tuple[Built, ...]] = {
    "nvcr.io/nvidia/ai-dynamo/vllm-runtime": VLLM,
    "nvcr.io/nvidia/ai-dynamo/sglang-runtime": SGLANG,
    "nvcr.io/nvidia/ai-dynamo/tensorrtllm-runtime": TENSORRT_LLM_RUNTIME,
}
"""By the images as people know them."""
