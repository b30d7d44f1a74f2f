"""Whether a GPU and a CPU can run an image, and a driver the GPU."""

from tests.golden import each, golden
from webhook.cuda import checks
from webhook.cuda.compiled_code import Kernels
from webhook.cuda.cuda_tables import SHIPPED
from webhook.cuda.need import BuiltFor, Need
from webhook.cuda.offer import offer_from
from webhook.gpus.steering import Cause
from webhook.model.versions import parse_version

V100, T4, A100, B200, GB10 = "Tesla-V100-SXM2-32GB", "Tesla-T4", "NVIDIA-A100-SXM4-80GB", "NVIDIA-B200", "NVIDIA-GB10"
FINE = None


def verdict_of(finding):
    return finding.verdict if finding is not None else FINE


@golden
def test_an_image_needs_the_cpu_it_is_built_for(built_for, arch, verdict):
    need = Need(BuiltFor.CUDA, None, "", architectures=built_for)
    assert verdict_of(checks.architecture(need, offer_from(arch=arch))) == verdict


def test_an_image_for_another_cpu_is_refused_with_both_named():
    need = Need(BuiltFor.CUDA, None, "", architectures=("amd64", "ppc64le"))
    finding = checks.architecture(need, offer_from(arch="arm64"))
    assert finding.cause is Cause.ARCHITECTURE
    assert finding.reason == "the image is built for amd64 and ppc64le; the node is arm64"


@golden
def test_a_framework_needs_a_gpu(floor, certain, product, verdict):
    need = Need(
        BuiltFor.CUDA,
        None,
        "",
        compute_floor=None if floor is None else parse_version(floor),
        is_floor_verified=floor == certain,
        certain_floor=None if certain is None else parse_version(certain),
    )
    assert verdict_of(checks.framework(need, offer_from(product=product))) == verdict


@golden
def test_cuda_drops_old_gpus(cuda, compute, verdict):
    assert verdict_of(checks.gpu_too_old(parse_version(cuda), offer_from(compute=compute), SHIPPED)) == verdict


@golden
def test_cuda_has_no_code_for_newer_gpus(cuda, compute, verdict):
    found = checks.gpu_too_new(parse_version(cuda), Kernels.WITHOUT_PTX, offer_from(compute=compute), SHIPPED)
    assert verdict_of(found) == verdict


@golden
def test_a_driver_drives_the_gpus_of_its_time(product, driver, cuda, verdict):
    assert verdict_of(checks.driver_for_gpu(offer_from(product=product, driver=driver, cuda=cuda), SHIPPED)) == verdict


@each(
    "finding, cause, reason",
    {
        "GPU too old": (
            checks.gpu_too_old(parse_version("13.0.1"), offer_from(product=V100), SHIPPED),
            Cause.GPU,
            "CUDA 13 needs compute capability 7.5 or newer; Tesla-V100-SXM2-32GB has 7.0",
        ),
        "GPU too new": (
            checks.gpu_too_new(parse_version("12.4.1"), Kernels.WITHOUT_PTX, offer_from(product=B200), SHIPPED),
            Cause.GPU,
            "CUDA 12.4.1 has no code for compute capability 10.0 (NVIDIA-B200), only CUDA 12.8 and newer; the "
            "image brings no PTX, which the driver could compile",
        ),
        "GPU that no table knows": (
            checks.gpu_too_new(parse_version("13.0.0"), Kernels.WITHOUT_PTX, offer_from(compute="14.0"), SHIPPED),
            Cause.GPU,
            "CUDA 13.0.0 has no code for compute capability 14.0, at best CUDA 13.5 and newer; the image "
            "brings no PTX, which the driver could compile",
        ),
        "GPU perhaps too new": (
            checks.gpu_too_new(parse_version("12"), Kernels.WITHOUT_PTX, offer_from(compute="10.0"), SHIPPED),
            Cause.GPU,
            "it is not known whether CUDA 12 has code for compute capability 10.0",
        ),
        "driver too old for the GPU": (
            checks.driver_for_gpu(offer_from(product=B200, driver="560.35.03"), SHIPPED),
            Cause.DRIVER,
            "compute capability 10.0 (NVIDIA-B200) needs driver branch 570 or newer; the node has 560.35.03",
        ),
        "driver too new for the GPU": (
            checks.driver_for_gpu(offer_from(product=V100, driver="595"), SHIPPED),
            Cause.DRIVER,
            "driver branch 580 is the last for compute capability 7.0 (Tesla-V100-SXM2-32GB); "
            "the node has 595, and the rest of its version is not known",
        ),
        "framework": (
            checks.framework(
                Need(BuiltFor.CUDA, None, "", compute_floor=parse_version("7.5"), is_floor_verified=False),
                offer_from(product=V100),
            ),
            Cause.GPU,
            "the framework in the image needs compute capability 7.5 or newer, as far as is known; "
            "Tesla-V100-SXM2-32GB has 7.0",
        ),
    },
)
def test_a_finding_names_what_is_needed_and_what_is_there(finding, cause, reason):
    assert (finding.cause, finding.reason) == (cause, reason)
