"""The tables agree with what programs did on real GPUs (`seen_on_gpus.yaml`)."""

from pathlib import Path

import pytest

from tests import quick_yaml
from webhook.cuda.checks import Verdict, gpu_too_new
from webhook.cuda.compiled_code import Kernels
from webhook.cuda.cuda_tables import SHIPPED
from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.offer import offer_from
from webhook.cuda.verdict import judge
from webhook.model.versions import parse_version

MACHINES = quick_yaml.load(Path(__file__).with_name("seen_on_gpus.yaml").read_text())
RUNTIMES = [(machine, cuda) for machine in MACHINES for cuda in machine["runtimeLibraries"]]
CODE = [
    (machine, cuda, code, row["result"])
    for machine in MACHINES
    for row in machine["code"]
    for cuda in row["toolkits"]
    for code in row["code"]
]


def offer(machine):
    """What a node with this GPU and driver offers."""
    return offer_from(product=machine["gpu"], driver=machine["driver"])


def gpu_verdict(machine, cuda, kernels):
    """What is said of an image of this CUDA with these kernels because the GPU is newer, or None."""
    finding = gpu_too_new(parse_version(cuda), kernels, offer(machine), SHIPPED)
    return finding and finding.verdict


@pytest.mark.parametrize(("machine", "cuda"), RUNTIMES)
def test_a_driver_whose_runtime_library_worked_is_not_called_too_old(machine, cuda):
    # A base image holds libraries alone, so on a GPU that is newer than its CUDA nothing is known of its kernels.
    verdict = judge(need_of(f"nvidia/cuda:{cuda}.0-base-ubuntu22.04", ImageContext()), offer(machine)).verdict
    assert verdict is (Verdict.COMPATIBLE if gpu_verdict(machine, cuda, Kernels.NONE) is None else Verdict.UNKNOWN)


@pytest.mark.parametrize(("machine", "cuda", "code"), [row[:3] for row in CODE if row[3] == "ran"])
def test_no_code_that_ran_is_refused(machine, cuda, code):
    kernels = Kernels.WITH_PTX if code.startswith("compute_") else Kernels.WITHOUT_PTX
    assert gpu_verdict(machine, cuda, kernels) is not Verdict.INCOMPATIBLE


@pytest.mark.parametrize("machine", MACHINES)
def test_images_without_ptx_are_refused_for_toolkits_whose_machine_code_never_ran(machine):
    def results(cuda, prefix):
        return {result for _, at, code, result in CODE if at == cuda and code.startswith(prefix)}

    toolkits = {cuda for _, cuda, _, _ in CODE}
    refused = {cuda for cuda in toolkits if gpu_verdict(machine, cuda, Kernels.WITHOUT_PTX) is Verdict.INCOMPATIBLE}
    assert refused == {cuda for cuda in toolkits if "ran" not in results(cuda, "sm_")} == {"11.7"}
    assert all("ran" in results(cuda, "compute_") for cuda in refused), "PTX of the same toolkits ran"
