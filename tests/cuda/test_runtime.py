"""Whether a driver runs a CUDA version."""

import pytest

from webhook.cuda.checks import Verdict, driver_for_cuda
from webhook.cuda.cuda_tables import SHIPPED
from webhook.cuda.need import BuiltFor, Compat, Need
from webhook.cuda.offer import offer_from
from webhook.gpus.steering import Cause
from webhook.model.versions import parse_version

RUNS, FORWARD = Verdict.COMPATIBLE, Verdict.FORWARD_COMPAT_ONLY
NO, MAYBE = Verdict.INCOMPATIBLE, Verdict.UNKNOWN
A100, RTX3090, RTX8000 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-GeForce-RTX-3090", "Quadro-RTX-8000"


def find(needed, compat=Compat.NO, **node):
    version = parse_version(needed)
    return driver_for_cuda(Need(BuiltFor.CUDA, version, "", compat=compat), version, offer_from(**node), SHIPPED)


@pytest.mark.parametrize(
    ("cuda", "driver", "verdict"),
    [
        pytest.param("12.4.1", "550.90.07", RUNS, id="native"),
        pytest.param("12.4.1", "525.60.13", RUNS, id="the floor of 12"),
        pytest.param("12.4.1", "525.53", NO, id="below the floor of 12"),
        pytest.param("12.0.0", "525.60.13", RUNS, id="the first 12"),
        pytest.param("11.8.0", "450.80.02", RUNS, id="the floor of 11"),
        pytest.param("11.8.0", "450.66.00", NO, id="below the floor of 11"),
        pytest.param("11.0.3", "450.51.06", RUNS, id="11.0 is below the floor"),
        pytest.param("11.0.3", "450.51.05", NO, id="below the row of 11.0"),
        pytest.param("11.0", "450.51.05", MAYBE, id="some 11.0"),
        pytest.param("11", "450.66.00", MAYBE, id="some 11"),
        pytest.param("11", "450.80.02", RUNS, id="every 11"),
        pytest.param("10.2", "440.33.01", RUNS, id="the row of 10.2"),
        pytest.param("10.2", "418.87.01", NO, id="10 has no floor"),
        pytest.param("10", "418.87.01", MAYBE, id="some 10"),
        pytest.param("13.3", "580.65.06", RUNS, id="the floor of 13"),
        pytest.param("13.9", "580.65.06", RUNS, id="a 13 newer than the table"),
        pytest.param("13.0", "575.57.08", NO, id="the major version before"),
        pytest.param("12.7", "525.60.13", RUNS, id="a version that no toolkit has"),
        pytest.param("9.0", "550.54.15", RUNS, id="an old CUDA"),
        pytest.param("10.2", "700.10", RUNS, id="a driver newer than the table"),
        pytest.param("14.0", "615.71.09", NO, id="a CUDA newer than the table, on a known branch"),
        pytest.param("14.0", "700.10", MAYBE, id="both newer than the table"),
        pytest.param("12.4", "535", RUNS, id="a branch beyond the floor"),
        pytest.param("12.4", "525", MAYBE, id="the branch of the floor"),
        pytest.param("12.4", "470", NO, id="a branch below the floor"),
        pytest.param("12.4", None, MAYBE, id="no driver"),
    ],
)
def test_a_driver_runs_cuda_that_is_not_too_new(cuda, driver, verdict):
    assert find(cuda, driver=driver).verdict is verdict


@pytest.mark.parametrize(
    ("cuda", "reported", "verdict"),
    [
        pytest.param("12.4.1", "12.4", RUNS, id="the same"),
        pytest.param("12.4.1", "12.0", RUNS, id="the same major version"),
        pytest.param("12", "12.0", RUNS, id="some of the same major version"),
        pytest.param("12.4.1", "13.1", RUNS, id="a newer major version"),
        pytest.param("12.4.1", "11.8", NO, id="an older major version"),
        pytest.param("12.4.1", "12", RUNS, id="the major version only"),
        pytest.param("11.4", "11.0", MAYBE, id="11.0 is also reported by drivers below the floor of 11"),
        pytest.param("11.4", "11.1", RUNS, id="11.1 is not"),
        pytest.param("11.0.3", "11.0", RUNS, id="11.0 itself"),
        pytest.param("11", "11.0", MAYBE, id="some 11"),
        pytest.param("10.2", "10.1", NO, id="10 has no floor"),
        pytest.param("10.1", "10.1", RUNS, id="10.1 itself"),
        pytest.param("10", "10.1", MAYBE, id="some 10"),
        pytest.param("10.1", "10", MAYBE, id="some 10 reported"),
        pytest.param("14.0", "14.0", RUNS, id="newer than the table"),
        pytest.param("14.0", "13.4", NO, id="a CUDA newer than the table"),
        pytest.param("14.2", "14.0", MAYBE, id="nothing is known of its floor"),
    ],
)
def test_the_reported_cuda_decides_if_the_driver_is_unknown(cuda, reported, verdict):
    assert find(cuda, cuda=reported).verdict is verdict


def test_the_reported_cuda_decides_if_the_version_does_not():
    assert find("12.4", driver="525", cuda="12.0").verdict is RUNS
    assert find("14.0", driver="700.10", cuda="14.0").verdict is RUNS


def test_the_version_of_a_driver_beats_the_reported_cuda():
    assert find("12.4", driver="470.82.01", cuda="12.4").verdict is NO


@pytest.mark.parametrize(
    ("cuda", "compat", "product", "driver", "verdict"),
    [
        pytest.param("13.0.0", Compat.YES, A100, "535.183.01", FORWARD, id="all is there"),
        pytest.param("13.0.0", Compat.NO, A100, "535.183.01", NO, id="no package"),
        pytest.param("13.0.0", Compat.UNKNOWN, A100, "535.183.01", MAYBE, id="perhaps a package"),
        pytest.param("13.0.0", Compat.YES, RTX3090, "535.183.01", NO, id="GeForce"),
        pytest.param("13.0.0", Compat.UNKNOWN, RTX3090, "535.183.01", NO, id="GeForce, perhaps a package"),
        pytest.param("13.0.0", Compat.YES, RTX8000, "535.183.01", MAYBE, id="some servers have these"),
        pytest.param("13.0.0", Compat.YES, None, "535.183.01", MAYBE, id="the GPU not known"),
        pytest.param("13.0.0", Compat.YES, "GRID-A100-10C", "535.183.01", MAYBE, id="a virtual GPU"),
        pytest.param("13.0.0", Compat.YES, A100, "560.35.03", NO, id="a branch not listed"),
        pytest.param("13.0.0", Compat.UNKNOWN, None, "560.35.03", NO, id="a branch not listed decides"),
        pytest.param("13.4.1", Compat.YES, A100, "535.183.01", MAYBE, id="a listing not seen"),
        pytest.param("13.0.0", Compat.YES, A100, "535", FORWARD, id="a branch is enough"),
        pytest.param("10.2.89", Compat.YES, "Tesla-T4", "418.87.01", FORWARD, id="10.2 from its branch"),
        pytest.param("14.0", Compat.YES, A100, "580.65.06", MAYBE, id="a CUDA newer than the table"),
        pytest.param("14.0", Compat.YES, A100, "470.82.01", NO, id="a branch dropped before it"),
        pytest.param("12.4.1", Compat.YES, A100, "535.183.01", RUNS, id="not needed"),
    ],
)
def test_cuda_compat_helps_data_centre_gpus_on_listed_branches(cuda, compat, product, driver, verdict):
    assert find(cuda, compat, product=product, driver=driver).verdict is verdict


def test_cuda_compat_helps_if_only_the_reported_cuda_is_known():
    assert find("13.0.0", Compat.YES, product=A100, cuda="12.2").verdict is FORWARD
    assert find("12.4.1", Compat.YES, product=A100, cuda="10.1").verdict is NO


def test_cuda_compat_depends_on_the_architecture():
    assert find("12.2.2", Compat.YES, product=A100, driver="470.82.01", arch="amd64").verdict is FORWARD
    assert find("12.2.2", Compat.YES, product=A100, driver="470.82.01", arch="arm64").verdict is NO


PTX = "code that is compiled at run time (PTX) and the newest features of CUDA"


@pytest.mark.parametrize(
    ("finding", "cause", "reason"),
    [
        pytest.param(
            find("12.4.1", driver="550.90.07", product=A100),
            Cause.NONE,
            "needs driver 550.54.15 or newer (CUDA 12.4.1, native); the node has 550.90.07",
            id="native",
        ),
        pytest.param(
            find("12.4.1", driver="535.161.08", product=A100),
            Cause.NONE,
            "needs driver 525.60.13 or newer (CUDA 12, minor-version compatibility); the node has 535.161.08; "
            f"{PTX} 12.4.1 need driver 550.54.15",
            id="minor-version compatibility",
        ),
        pytest.param(
            find("13.4.1", driver="580.95.05", product=A100),
            Cause.NONE,
            "needs driver 580.65.06 or newer (CUDA 13, minor-version compatibility); the node has 580.95.05; "
            f"{PTX} 13.4.1 need driver branch 615",
            id="only the branch is known",
        ),
        pytest.param(
            find("12", driver="550.54.15"),
            Cause.NONE,
            "needs driver 525.60.13 or newer (CUDA 12, minor-version compatibility); the node has 550.54.15; "
            "the GPU is not known, so it was not checked",
            id="some 12 on some GPU",
        ),
        pytest.param(
            find("12.4", cuda="12.4", product=A100),
            Cause.NONE,
            "needs driver 550.54.14 or newer (CUDA 12.4, native); the node's driver reports CUDA 12.4",
            id="only the CUDA of the driver is known",
        ),
        pytest.param(
            find("12.4.1", Compat.YES, driver="535.161.08", product=RTX3090),
            Cause.NONE,
            "needs driver 525.60.13 or newer (CUDA 12, minor-version compatibility); the node has 535.161.08; "
            f"{PTX} 12.4.1 need driver 550.54.15",
            id="GeForce with an image that has cuda-compat",
        ),
        pytest.param(
            find("12.4.1", driver="470.82.01", product=A100),
            Cause.DRIVER,
            "needs driver 525.60.13 or newer (CUDA 12, minor-version compatibility); the node has 470.82.01, and "
            "forward compatibility does not help: the image has no cuda-compat package",
            id="too old",
        ),
        pytest.param(
            find("10.2.89", driver="418.87.01", product=A100),
            Cause.DRIVER,
            "needs driver 440.33 or newer (CUDA 10.2.89); the node has 418.87.01, and forward compatibility does not "
            "help: the image has no cuda-compat package",
            id="too old for 10",
        ),
        pytest.param(
            find("13.0.0", Compat.YES, driver="560.35.03", product=A100),
            Cause.DRIVER,
            "needs driver 580.65.06 or newer (CUDA 13, minor-version compatibility); the node has 560.35.03, and "
            "forward compatibility does not help: cuda-compat of CUDA 13.0.0 does not run on the driver's branch, only "
            "on 535, 550, 565, 570, 575",
            id="a branch not listed",
        ),
        pytest.param(
            find("13.0.0", Compat.YES, driver="535.183.01", product=A100),
            Cause.DRIVER,
            "needs driver 580.65.06 or newer (CUDA 13, minor-version compatibility); the node has 535.183.01 and runs "
            "it by forward compatibility only: with the cuda-compat package of the image",
            id="forward compatibility",
        ),
        pytest.param(
            find("13.4", Compat.UNKNOWN, driver="535.183.01"),
            Cause.DRIVER,
            "needs driver 580.65.06 or newer (CUDA 13, minor-version compatibility); the node has 535.183.01; forward "
            "compatibility may help, but whether the image has the package for it and the GPU is a data-centre GPU and "
            "cuda-compat of CUDA 13.4 runs on the driver's branch is not known",
            id="nothing known",
        ),
        pytest.param(
            find("12.4", driver="525", product=A100),
            Cause.DRIVER,
            "needs driver 525.60.13 or newer (CUDA 12, minor-version compatibility); the node has 525, and the rest of "
            "its version is not known, and whether that is enough is not known",
            id="a branch only",
        ),
        pytest.param(
            find("14.0", driver="700.10", product=A100),
            Cause.DRIVER,
            "CUDA 14.0 is newer than every driver known here, up to branch 620; the node has 700.10, and whether that "
            "is enough is not known",
            id="newer than the table",
        ),
        pytest.param(find("12.4"), Cause.DRIVER, "the node's driver is not known", id="no driver"),
        pytest.param(
            find("12.4", driver="newest"),
            Cause.DRIVER,
            'the node\'s driver is not known (driver: "newest" is not a version; write numbers with dots, such as 12.4 '
            "or 550.54.15)",
            id="a driver that cannot be read",
        ),
    ],
)
def test_a_finding_names_the_needed_and_the_found_driver(finding, cause, reason):
    assert (finding.cause, finding.reason) == (cause, reason)
