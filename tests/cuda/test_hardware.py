"""Whether a GPU and a CPU can run an image, and a driver the GPU."""

import pytest

from webhook.cuda import checks
from webhook.cuda.checks import Verdict
from webhook.cuda.cuda_tables import SHIPPED
from webhook.cuda.kernels import Kernels
from webhook.cuda.need import BuiltFor, Need
from webhook.cuda.offer import offer_from
from webhook.gpus.steering import Cause
from webhook.model.versions import parse_version

V100, T4, A100, B200, GB10 = "Tesla-V100-SXM2-32GB", "Tesla-T4", "NVIDIA-A100-SXM4-80GB", "NVIDIA-B200", "NVIDIA-GB10"
NO, MAYBE, FINE = Verdict.INCOMPATIBLE, Verdict.UNKNOWN, None


def verdict_of(finding):
    return finding.verdict if finding is not None else FINE


@pytest.mark.parametrize(
    ("built_for", "arch", "verdict"),
    [
        pytest.param(("amd64",), "arm64", NO, id="another CPU"),
        pytest.param(("amd64", "arm64"), "arm64", FINE, id="one of several"),
        pytest.param((), "arm64", FINE, id="the image's not known"),
        pytest.param(("amd64",), None, FINE, id="the node's not known"),
    ],
)
def test_an_image_needs_the_cpu_it_is_built_for(built_for, arch, verdict):
    need = Need(BuiltFor.CUDA, None, "", architectures=built_for)
    assert verdict_of(checks.architecture(need, offer_from(arch=arch))) is verdict


def test_an_image_for_another_cpu_is_refused_with_both_named():
    need = Need(BuiltFor.CUDA, None, "", architectures=("amd64", "ppc64le"))
    finding = checks.architecture(need, offer_from(arch="arm64"))
    assert finding.cause is Cause.ARCHITECTURE
    assert finding.reason == "the image is built for amd64 and ppc64le; the node is arm64"


@pytest.mark.parametrize(
    ("floor", "certain", "product", "verdict"),
    [
        pytest.param("7.5", "7.5", V100, NO, id="below"),
        pytest.param("7.0", "7.0", V100, FINE, id="at"),
        pytest.param("7.5", None, V100, MAYBE, id="below one that nobody has read"),
        pytest.param("7.5", "7.0", V100, MAYBE, id="between what is read and what is not"),
        pytest.param("7.5", "7.0", "Tesla-P100-PCIE-16GB", NO, id="below both"),
        pytest.param("7.5", "7.5", None, FINE, id="the GPU not known"),
        pytest.param(None, None, V100, FINE, id="no framework known"),
    ],
)
def test_a_framework_needs_a_gpu(floor, certain, product, verdict):
    need = Need(
        BuiltFor.CUDA,
        None,
        "",
        compute_floor=None if floor is None else parse_version(floor),
        is_floor_verified=floor == certain,
        certain_floor=None if certain is None else parse_version(certain),
    )
    assert verdict_of(checks.framework(need, offer_from(product=product))) is verdict


@pytest.mark.parametrize(
    ("cuda", "compute", "verdict"),
    [
        pytest.param("13.0", "7.0", NO, id="13 on Volta"),
        pytest.param("13", "7.0", NO, id="some 13 on Volta"),
        pytest.param("13.0", "7.5", FINE, id="13 on Turing"),
        pytest.param("12.4", "3.7", NO, id="12 on Kepler"),
        pytest.param("12.9", "5.2", FINE, id="12 on Maxwell"),
        pytest.param("11.8", "3.5", FINE, id="11 on Kepler"),
        pytest.param("11.8", "3.0", NO, id="11 on the first Kepler"),
        pytest.param("14.0", "7.0", NO, id="a newer CUDA on Volta"),
        pytest.param("14.0", "7.5", FINE, id="a newer CUDA on Turing"),
        pytest.param("13.0", None, FINE, id="the GPU not known"),
    ],
)
def test_cuda_drops_old_gpus(cuda, compute, verdict):
    assert verdict_of(checks.gpu_too_old(parse_version(cuda), offer_from(compute=compute), SHIPPED)) is verdict


@pytest.mark.parametrize(
    ("cuda", "compute", "verdict"),
    [
        pytest.param("12.4.1", "10.0", NO, id="before Blackwell"),
        pytest.param("12.8.0", "10.0", FINE, id="from Blackwell on"),
        pytest.param("12.8.0", "12.1", FINE, id="GB10 runs code for 12.0"),
        pytest.param("12", "10.0", MAYBE, id="some 12"),
        pytest.param("11", "10.0", NO, id="some 11"),
        pytest.param("13", "10.0", FINE, id="some 13"),
        pytest.param("11.2", "8.9", FINE, id="Ada runs code for Ampere"),
        pytest.param("10.2", "8.6", NO, id="before Ampere"),
        pytest.param("11.7", "9.0", NO, id="before Hopper"),
        pytest.param("12.9", "11.0", MAYBE, id="Thor before its new number"),
        pytest.param("12.6", "11.0", NO, id="before Thor"),
        pytest.param("13.0", "11.0", FINE, id="Thor"),
        pytest.param("13.0", "10.7", MAYBE, id="Rubin before its toolkit"),
        pytest.param("13.4.1", "10.7", FINE, id="Rubin"),
        pytest.param("13.3", "13.0", NO, id="a GPU newer than the table"),
        pytest.param("13.5", "13.0", MAYBE, id="a GPU newer than the table, with the newest CUDA"),
        pytest.param("10.0", "2.0", FINE, id="a GPU older than the table"),
        pytest.param("10.0", None, FINE, id="the GPU not known"),
    ],
)
def test_cuda_has_no_code_for_newer_gpus(cuda, compute, verdict):
    found = checks.gpu_too_new(parse_version(cuda), Kernels.WITHOUT_PTX, offer_from(compute=compute), SHIPPED)
    assert verdict_of(found) is verdict


@pytest.mark.parametrize(
    ("product", "driver", "cuda", "verdict"),
    [
        pytest.param(B200, "560.35.03", None, NO, id="before the GPU"),
        pytest.param(B200, "570.26", None, FINE, id="from the GPU on"),
        pytest.param(GB10, "570.26", None, MAYBE, id="before what nobody has read"),
        pytest.param(V100, "580.95.05", None, FINE, id="the last branch"),
        pytest.param(V100, "590.44.01", None, NO, id="behind the last branch"),
        pytest.param("Tesla-K80", "470.82.01", None, FINE, id="the last branch of Kepler"),
        pytest.param("Tesla-K80", "495.29.05", None, NO, id="behind the last branch of Kepler"),
        pytest.param(V100, "595", None, NO, id="a branch is enough"),
        pytest.param(V100, None, "13.2", NO, id="what the driver reports is enough"),
        pytest.param(V100, None, "14.0", NO, id="what the driver reports is newer than the table"),
        pytest.param(V100, None, "13.0", FINE, id="what the driver reports is the last branch"),
        pytest.param(B200, None, "12.4", NO, id="what the driver reports is before the GPU"),
        pytest.param(V100, None, None, FINE, id="the driver not known"),
        pytest.param(None, "595.58.03", None, FINE, id="the GPU not known"),
        pytest.param("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "570.124.06", None, MAYBE, id="one product"),
        pytest.param("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "575.57.08", None, FINE, id="its own driver"),
    ],
)
def test_a_driver_drives_the_gpus_of_its_time(product, driver, cuda, verdict):
    assert verdict_of(checks.driver_for_gpu(offer_from(product=product, driver=driver, cuda=cuda), SHIPPED)) is verdict


@pytest.mark.parametrize(
    ("finding", "cause", "reason"),
    [
        pytest.param(
            checks.gpu_too_old(parse_version("13.0.1"), offer_from(product=V100), SHIPPED),
            Cause.GPU,
            "CUDA 13 needs compute capability 7.5 or newer; Tesla-V100-SXM2-32GB has 7.0",
            id="GPU too old",
        ),
        pytest.param(
            checks.gpu_too_new(parse_version("12.4.1"), Kernels.WITHOUT_PTX, offer_from(product=B200), SHIPPED),
            Cause.GPU,
            "CUDA 12.4.1 has no code for compute capability 10.0 (NVIDIA-B200), only CUDA 12.8 and newer; the "
            "image brings no PTX, which the driver could compile",
            id="GPU too new",
        ),
        pytest.param(
            checks.gpu_too_new(parse_version("13.0.0"), Kernels.WITHOUT_PTX, offer_from(compute="14.0"), SHIPPED),
            Cause.GPU,
            "CUDA 13.0.0 has no code for compute capability 14.0, at best CUDA 13.5 and newer; the image "
            "brings no PTX, which the driver could compile",
            id="GPU that no table knows",
        ),
        pytest.param(
            checks.gpu_too_new(parse_version("12"), Kernels.WITHOUT_PTX, offer_from(compute="10.0"), SHIPPED),
            Cause.GPU,
            "it is not known whether CUDA 12 has code for compute capability 10.0",
            id="GPU perhaps too new",
        ),
        pytest.param(
            checks.driver_for_gpu(offer_from(product=B200, driver="560.35.03"), SHIPPED),
            Cause.DRIVER,
            "compute capability 10.0 (NVIDIA-B200) needs driver branch 570 or newer; the node has 560.35.03",
            id="driver too old for the GPU",
        ),
        pytest.param(
            checks.driver_for_gpu(offer_from(product=V100, driver="595"), SHIPPED),
            Cause.DRIVER,
            "driver branch 580 is the last for compute capability 7.0 (Tesla-V100-SXM2-32GB); "
            "the node has 595, and the rest of its version is not known",
            id="driver too new for the GPU",
        ),
        pytest.param(
            checks.framework(
                Need(BuiltFor.CUDA, None, "", compute_floor=parse_version("7.5"), is_floor_verified=False),
                offer_from(product=V100),
            ),
            Cause.GPU,
            "the framework in the image needs compute capability 7.5 or newer, as far as is known; "
            "Tesla-V100-SXM2-32GB has 7.0",
            id="framework",
        ),
    ],
)
def test_a_finding_names_what_is_needed_and_what_is_there(finding, cause, reason):
    assert (finding.cause, finding.reason) == (cause, reason)
