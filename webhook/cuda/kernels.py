"""Whether the code in an image runs on GPUs newer than its CUDA: a driver compiles PTX for them, and nothing else."""

from enum import Enum, StrEnum, auto

from webhook.model.versions import Version


class Kernels(StrEnum):
    """What an image brings for GPUs that are newer than its CUDA."""

    WITHOUT_PTX = "without PTX"
    WITH_PTX = "with PTX"
    NONE = "none"
    """The image has libraries of CUDA, and whoever builds on it adds the kernels."""
    UNKNOWN = "unknown"


_FIRST_WITH_PTX = Version((12, 8))
"""From this CUDA on builds of PyTorch may have PTX for the newest GPU that it knows."""


class KernelBuild(Enum):
    """Who built the code in an image."""

    PYTORCH_OF_PIP = auto()
    """PyTorch's wheels for CUDA 11 and 12 up to 12.6. Source: pytorch/builder, manywheel/build_cuda.sh (2022 to 2024);
    for 12.6 torch.cuda.get_arch_list() in pytorch issue 182250."""
    PYTORCH_OF_CONDA = auto()
    """As above, but builds for CUDA 11 have PTX for compute capability 3.7, which any driver compiles. Source:
    pytorch/builder, conda/pytorch-nightly/build.sh (2022 to 2024)."""
    CUDA_SAMPLES = auto()
    """They have PTX for the newest GPU that their CUDA knows. Source: the Makefiles of NVIDIA/cuda-samples, where it is
    called HIGHEST_SM."""
    USER = auto()
    """Whoever builds on the image."""
    UNKNOWN = auto()

    def kernels(self, cuda: Version | None) -> Kernels:
        """What the image brings where it is built with this CUDA; None where that is not known.

        >>> KernelBuild.PYTORCH_OF_PIP.kernels(Version((12, 4)))
        <Kernels.WITHOUT_PTX: 'without PTX'>
        """
        if self is KernelBuild.CUDA_SAMPLES:
            return Kernels.WITH_PTX
        if self is KernelBuild.USER:
            return Kernels.NONE
        first = {KernelBuild.PYTORCH_OF_PIP: 11, KernelBuild.PYTORCH_OF_CONDA: 12}.get(self)
        if first is None or cuda is None or cuda.major < first or cuda.reaches(_FIRST_WITH_PTX) is not False:
            return Kernels.UNKNOWN
        return Kernels.WITHOUT_PTX
