"""On a GPU newer than its CUDA, an image without PTX does not run, and any other image is unknown."""

from tests.golden import golden
from webhook.cuda.compiled_code import Kernels, kernels_of
from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.offer import offer_from
from webhook.cuda.verdict import judge
from webhook.model.versions import parse_version

B200 = {"product": "NVIDIA-B200", "driver": "570.133.20"}
H100 = {"product": "NVIDIA-H100-80GB-HBM3", "driver": "570.133.20"}


@golden
def test_an_image_is_incompatible_with_a_newer_gpu_only_if_it_certainly_has_no_ptx(image, node, verdict):
    assert judge(need_of(image, ImageContext()), offer_from(**node)).verdict == verdict


@golden
def test_the_reason_says_what_is_known_of_the_kernels(image, reason):
    found = judge(need_of(image, ImageContext()), offer_from(**B200)).reason
    assert found.startswith("CUDA 12.")
    assert found.endswith(f"has no code for compute capability 10.0 (NVIDIA-B200), only CUDA 12.8 and newer; {reason}")


@golden
def test_the_code_of_a_build_depends_on_its_cuda(build, cuda, kernels):
    assert kernels_of(build, parse_version(cuda) if cuda else None) == kernels


def test_the_cuda_in_the_environment_counts_for_the_kernels():
    """Tags of SGLang need not name the CUDA."""
    need = need_of("lmsysorg/sglang:v0.4.1", ImageContext(env=(("CUDA_VERSION", "12.4.1"),)))
    assert need.kernels is Kernels.WITHOUT_PTX
