"""Whether the code in an image runs on GPUs newer than its CUDA: a driver compiles PTX for them, and nothing else."""

from dataclasses import dataclass
from enum import Enum, StrEnum

from webhook.model.versions import Version, parse_version


class Kernels(StrEnum):
    """What an image brings for GPUs that are newer than its CUDA."""

    WITHOUT_PTX = "without PTX"
    WITH_PTX = "with PTX"
    NONE = "none"
    """The image has libraries of CUDA, and whoever builds on it adds the kernels."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class _Code:
    """What builds bring, for which CUDA that is known, and where it stands. `title` is whose builds they are.

    It is known from CUDA `first` on, and for those older than `before`; None has no such end.
    """

    title: str
    brings: Kernels
    source: str
    first: Version | None = None
    before: Version | None = None

    @property
    def span(self) -> str:
        """For which CUDA it is known, as people read it; empty where for all."""
        since = f"from CUDA {self.first} on" if self.first is not None else ""
        until = f"before CUDA {self.before}" if self.before is not None else ""
        return ", ".join(filter(None, (since, until)))

    def is_known_for(self, cuda: Version | None) -> bool:
        """Whether the source speaks of this CUDA; None where that is not known."""
        is_late = self.first is None or (cuda is not None and cuda.reaches(self.first) is True)
        is_early = self.before is None or (cuda is not None and cuda.reaches(self.before) is False)
        return is_late and is_early


def _code(title: str, brings: Kernels, source: str, first: str = "", before: str = "") -> _Code:
    return _Code(
        title, brings, source, parse_version(first) if first else None, parse_version(before) if before else None
    )


class KernelBuild(Enum):
    """Who built the code in an image."""

    PYTORCH_OF_PIP = _code(
        "PyTorch's wheels",
        Kernels.WITHOUT_PTX,
        "pytorch/builder, manywheel/build_cuda.sh (2020-07 to its branch release/2.4); vllm-project/vllm issue 13306"
        " for 2.5; pytorch/pytorch issue 144071 and pull requests 145616 and 148000 for 2.6 and later, issue 182250 for"
        " 2.11. Only nightly builds have PTX",
        first="11",
        before="12.8",
    )
    """PyTorch's wheels. Of those for CUDA 12.8 and later some releases have PTX (2.7 and 2.13.0) and others not (pull
    requests 157516, 175567 and 188925)."""
    PYTORCH_OF_CONDA = _code(
        "PyTorch's packages for conda",
        Kernels.WITHOUT_PTX,
        "pytorch/builder, conda/pytorch-nightly/build.sh of its branches release/2.0 to 2.5: for CUDA 11 it has PTX for"
        " compute capability 3.7, which any driver compiles. Later images have wheels",
        first="12",
        before="12.8",
    )
    PYTORCH_OF_NVIDIA = _code(
        "NVIDIA's PyTorch",
        Kernels.WITH_PTX,
        "reports from the containers: TORCH_CUDA_ARCH_LIST ends in +PTX, and 24.11, which names compute_90 among its"
        " architectures, runs on compute capability 12.1",
    )
    JAX_OF_NVIDIA = _code(
        "NVIDIA's JAX",
        Kernels.WITH_PTX,
        "NVIDIA/JAX-Toolbox, .github/container/build-jax.sh (2026-07): compute_ for the newest GPU",
    )
    TENSORFLOW = _code(
        "TensorFlow's wheels",
        Kernels.WITH_PTX,
        "tensorflow/tensorflow issues 60739, 62320 and 97387: on newer GPUs it says that it compiles PTX",
        first="11.8",
    )
    RAPIDS = _code(
        "RAPIDS",
        Kernels.WITH_PTX,
        "rapidsai/rapids-cmake, rapids-cmake/cuda/set_architectures.cmake (23.04 to 26.10)",
        first="11",
    )
    CUDA_SAMPLES = _code(
        "NVIDIA's samples",
        Kernels.WITH_PTX,
        "NVIDIA/cuda-samples: HIGHEST_SM in the Makefiles up to 12.5, since 12.8 CMAKE_CUDA_ARCHITECTURES without"
        " -real",
    )
    """They have PTX for the newest GPU that their CUDA knows."""
    NCCL_TESTS_OF_AWS = _code(
        "the tests of NCCL for EFA",
        Kernels.WITHOUT_PTX,
        "aws-samples/awsome-distributed-training, nccl-tests.Dockerfile (2024-04 to 2026-02): none in NVCC_GENCODE of"
        " NCCL and the tests",
    )
    TEXT_EMBEDDINGS = _code(
        "Text Embeddings Inference",
        Kernels.WITHOUT_PTX,
        "huggingface/text-embeddings-inference, backends/candle/src/compute_cap.rs: it does not start on a GPU that it"
        " is not built for",
        before="12.8",
    )
    NCCL_OF_TCPXO = _code(
        "NCCL for GPUDirect-TCPXO",
        Kernels.WITH_PTX,
        "google/nccl-plugin-gpudirect-tcpxo, tcpxo.dockerfile (v1.0.12 to v1.0.17): CUDA12_PTX",
    )
    USER = _code("you", Kernels.NONE, "the Dockerfiles of gitlab.com/nvidia/container-images/cuda")
    """Whoever builds on the image."""
    UNKNOWN = _code("nobody knows", Kernels.UNKNOWN, "")

    def kernels(self, cuda: Version | None) -> Kernels:
        """What the image brings where it is built with this CUDA; None where that is not known.

        >>> KernelBuild.PYTORCH_OF_PIP.kernels(Version((12, 4)))
        <Kernels.WITHOUT_PTX: 'without PTX'>
        """
        return self.value.brings if self.value.is_known_for(cuda) else Kernels.UNKNOWN
