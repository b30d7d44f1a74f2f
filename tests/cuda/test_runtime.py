"""Whether a driver runs a CUDA version."""

from tests.golden import each, golden
from webhook.cuda.checks import Verdict, driver_for_cuda
from webhook.cuda.cuda_tables import SHIPPED
from webhook.cuda.need import BuiltFor, Compat, Need
from webhook.cuda.offer import offer_from
from webhook.gpus.steering import Cause
from webhook.model.versions import parse_version

RUNS, FORWARD = Verdict.COMPATIBLE, Verdict.FORWARD_COMPAT_ONLY
NO = Verdict.INCOMPATIBLE
A100, RTX3090 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-GeForce-RTX-3090"


def find(needed, compat=Compat.NO, **node):
    version = parse_version(needed)
    return driver_for_cuda(Need(BuiltFor.CUDA, version, "", compat=compat), version, offer_from(**node), SHIPPED)


@golden
def test_a_driver_runs_cuda_that_is_not_too_new(cuda, driver, verdict):
    assert find(cuda, driver=driver).verdict == verdict


@golden
def test_the_reported_cuda_decides_if_the_driver_is_unknown(cuda, reported, verdict):
    assert find(cuda, cuda=reported).verdict == verdict


def test_the_reported_cuda_decides_if_the_version_does_not():
    assert find("12.4", driver="525", cuda="12.0").verdict is RUNS
    assert find("14.0", driver="700.10", cuda="14.0").verdict is RUNS


def test_the_version_of_a_driver_beats_the_reported_cuda():
    assert find("12.4", driver="470.82.01", cuda="12.4").verdict is NO


@golden
def test_cuda_compat_helps_data_centre_gpus_on_listed_branches(cuda, compat, product, driver, verdict):
    assert find(cuda, compat, product=product, driver=driver).verdict == verdict


def test_cuda_compat_helps_if_only_the_reported_cuda_is_known():
    assert find("13.0.0", Compat.YES, product=A100, cuda="12.2").verdict is FORWARD
    assert find("12.4.1", Compat.YES, product=A100, cuda="10.1").verdict is NO


def test_cuda_compat_depends_on_the_architecture():
    assert find("12.2.2", Compat.YES, product=A100, driver="470.82.01", arch="amd64").verdict is FORWARD
    assert find("12.2.2", Compat.YES, product=A100, driver="470.82.01", arch="arm64").verdict is NO


PTX = "code that is compiled at run time (PTX) and the newest features of CUDA"


@each(
    "finding, cause, reason",
    {
        "native": (
            find("12.4.1", driver="550.90.07", product=A100),
            Cause.NONE,
            "needs driver 550.54.15 or newer (CUDA 12.4.1, native); the node has 550.90.07",
        ),
        "minor-version compatibility": (
            find("12.4.1", driver="535.161.08", product=A100),
            Cause.NONE,
            "needs driver 525.60.13 or newer (CUDA 12, minor-version compatibility); the node has 535.161.08; "
            f"{PTX} 12.4.1 need driver 550.54.15",
        ),
        "only the branch is known": (
            find("13.4.1", driver="580.95.05", product=A100),
            Cause.NONE,
            "needs driver 580.65.06 or newer (CUDA 13, minor-version compatibility); the node has 580.95.05; "
            f"{PTX} 13.4.1 need driver branch 615",
        ),
        "some 12 on some GPU": (
            find("12", driver="550.54.15"),
            Cause.NONE,
            "needs driver 525.60.13 or newer (CUDA 12, minor-version compatibility); the node has 550.54.15; "
            "the GPU is not known, so it was not checked",
        ),
        "only the CUDA of the driver is known": (
            find("12.4", cuda="12.4", product=A100),
            Cause.NONE,
            "needs driver 550.54.14 or newer (CUDA 12.4, native); the node's driver reports CUDA 12.4",
        ),
        "GeForce with an image that has cuda-compat": (
            find("12.4.1", Compat.YES, driver="535.161.08", product=RTX3090),
            Cause.NONE,
            "needs driver 525.60.13 or newer (CUDA 12, minor-version compatibility); the node has 535.161.08; "
            f"{PTX} 12.4.1 need driver 550.54.15",
        ),
        "too old": (
            find("12.4.1", driver="470.82.01", product=A100),
            Cause.DRIVER,
            "needs driver 525.60.13 or newer (CUDA 12, minor-version compatibility); the node has 470.82.01, and "
            "forward compatibility does not help: the image has no cuda-compat package",
        ),
        "too old for 10": (
            find("10.2.89", driver="418.87.01", product=A100),
            Cause.DRIVER,
            "needs driver 440.33 or newer (CUDA 10.2.89); the node has 418.87.01, and forward compatibility does not "
            "help: the image has no cuda-compat package",
        ),
        "a branch not listed": (
            find("13.0.0", Compat.YES, driver="560.35.03", product=A100),
            Cause.DRIVER,
            "needs driver 580.65.06 or newer (CUDA 13, minor-version compatibility); the node has 560.35.03, and "
            "forward compatibility does not help: cuda-compat of CUDA 13.0.0 does not run on the driver's branch, only "
            "on 535, 550, 565, 570, 575",
        ),
        "forward compatibility": (
            find("13.0.0", Compat.YES, driver="535.183.01", product=A100),
            Cause.DRIVER,
            "needs driver 580.65.06 or newer (CUDA 13, minor-version compatibility); the node has 535.183.01 and runs "
            "it by forward compatibility only: with the cuda-compat package of the image",
        ),
        "nothing known": (
            find("13.4", Compat.UNKNOWN, driver="535.183.01"),
            Cause.DRIVER,
            "needs driver 580.65.06 or newer (CUDA 13, minor-version compatibility); the node has 535.183.01; forward "
            "compatibility may help, but whether the image has the package for it and the GPU is a data-centre GPU and "
            "cuda-compat of CUDA 13.4 runs on the driver's branch is not known",
        ),
        "a branch only": (
            find("12.4", driver="525", product=A100),
            Cause.DRIVER,
            "needs driver 525.60.13 or newer (CUDA 12, minor-version compatibility); the node has 525, and the rest of "
            "its version is not known, and whether that is enough is not known",
        ),
        "newer than the table": (
            find("14.0", driver="700.10", product=A100),
            Cause.DRIVER,
            "CUDA 14.0 is newer than every driver known here, up to branch 620; the node has 700.10, and whether that "
            "is enough is not known",
        ),
        "no driver": (find("12.4"), Cause.DRIVER, "the node's driver is not known"),
        "a driver that cannot be read": (
            find("12.4", driver="newest"),
            Cause.DRIVER,
            'the node\'s driver is not known (driver: "newest" is not a version; write numbers with dots, such as 12.4 '
            "or 550.54.15)",
        ),
    },
)
def test_a_finding_names_the_needed_and_the_found_driver(finding, cause, reason):
    assert (finding.cause, finding.reason) == (cause, reason)
