"""The families of images whose release tells the CUDA, and how the tags of each are read."""

import re
from collections.abc import Mapping

from webhook.cuda import model_server_readers as read
from webhook.cuda.bases import Base
from webhook.cuda.image_reading import Reader
from webhook.cuda.release_readers import AT_THE_BEGINNING, RELEASE, of_gpu_tags, released
from webhook.cuda.releases import releases_of

_FOR_GPUS = re.compile(r"[0-9.]+-gpu", re.ASCII)
_DYNAMO = re.compile(rf"{RELEASE.pattern}(?:-enterprise)?(?:-efa(?:-amd64)?)?", re.ASCII)
_HOROVOD = re.compile(rf"{RELEASE.pattern}(?:-tf.*-gpu)?", re.ASCII)

_ON_SGLANG = released(releases_of("sglang"), Base.RELATED, AT_THE_BEGINNING)

BY_END: Mapping[str, Reader] = {
    "tensorflow/tensorflow": of_gpu_tags(releases_of("tensorflow")),
    "pytorch/torchserve": of_gpu_tags(releases_of("torchserve"), _FOR_GPUS),
    "horovod/horovod": released(releases_of("horovod"), Base.RELATED, _HOROVOD),
    "rayproject/ray": read.ray,
    "rayproject/ray-ml": released(releases_of("ray-ml"), Base.RELATED, read.RAY),
    "vllm/vllm-openai": read.vllm,
    "lmsysorg/sglang": read.sglang,
    "huggingface/text-generation-inference": read.text_generation_inference,
    "huggingface/text-embeddings-inference": read.text_embeddings_inference,
    "openmmlab/lmdeploy": read.lmdeploy,
    "kserve/huggingfaceserver": read.huggingface_server,
    "deepjavalibrary/djl-serving": read.djl_serving,
    "anyscale/ray-llm": released(releases_of("ray-llm"), Base.RELATED),
    "predibase/lorax": released(releases_of("lorax"), Base.RELATED),
    "michaelf34/infinity": released(releases_of("infinity"), Base.CUDA),
    "xprobe/xinference": released(releases_of("xinference"), Base.RELATED),
    **dict.fromkeys(("ggml-org/llama.cpp", "ggerganov/llama.cpp"), read.llama_cpp),
    "ai-dynamo/vllm-runtime": released(releases_of("dynamo-vllm"), Base.UNKNOWN, _DYNAMO),
    "ai-dynamo/sglang-runtime": released(releases_of("dynamo-sglang"), Base.UNKNOWN, _DYNAMO),
    "ai-dynamo/tensorrtllm-runtime": released(releases_of("dynamo-tensorrt-llm-runtime"), Base.UNKNOWN, _DYNAMO),
    **dict.fromkeys(("llm-d/llm-d", "llm-d/llm-d-dev"), released(releases_of("llm-d"), Base.RELATED)),
    "llm-d/llm-d-cuda": released(releases_of("llm-d-cuda"), Base.RELATED),
    "llm-d/llm-d-aws": released(releases_of("llm-d-aws"), Base.RELATED),
    "llm-d/llm-d-gke": released(releases_of("llm-d-gke"), Base.RELATED),
}
"""By the last two parts of the path."""

BY_NAME: Mapping[str, Reader] = {
    "vllm-openai": read.like_vllm,
    **dict.fromkeys(("vllm-openai-aibrix-kvcache", "vllm-openai-aibrix-kvcache-nixl"), read.on_vllm),
    **dict.fromkeys(("sglang-aibrix-kvcache", "sglang-aibrix-kvcache-nixl"), _ON_SGLANG),
    "pytorch-mnist-gpu": released(releases_of("katib-pytorch"), Base.UNKNOWN),
    "darts-cnn-cifar10-gpu": released(releases_of("katib-darts"), Base.UNKNOWN),
    "enas-cnn-cifar10-gpu": released(releases_of("katib-enas"), Base.UNKNOWN),
}
"""By the last part of the path. AIBrix builds on vllm-openai and sglang and keeps their tags."""

BY_NAMESPACE: Mapping[str, Reader] = {"kaito": read.kaito, "kubeflow-images-public": read.kubeflow_images_public}
"""By one of the two parts before the last."""
