"""Remedies for images that do not run."""

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.cuda.test_verdict import NEEDS, OFFERS
from tests.golden import each
from tests.strategies import checked
from webhook.cuda.checks import Verdict
from webhook.cuda.cuda_messages import remedy
from webhook.cuda.need import BuiltFor, Compat, Need
from webhook.cuda.offer import offer_from
from webhook.cuda.verdict import judge
from webhook.model.versions import parse_version

V100, T4, A100 = "Tesla-V100-SXM2-32GB", "Tesla-T4", "NVIDIA-A100-SXM4-80GB"
B200, RTX3090 = "NVIDIA-B200", "NVIDIA-GeForce-RTX-3090"


def cuda_need(cuda, **facts):
    return Need(BuiltFor.CUDA, None if cuda is None else parse_version(cuda), "", **{"compat": Compat.NO, **facts})


def nodes(*pairs, arch="amd64"):
    return [offer_from(product=product, driver=driver, arch=arch) for product, driver in pairs]


def same_family(cuda):
    return f"nvidia/cuda:{cuda}.1-base"


@each(
    "need, offers, text",
    {
        "driver too old": (
            cuda_need("13.0.1"),
            nodes((A100, "570.124.06")),
            "Use nvidia/cuda:12.9.1-base or another image of CUDA 12.9 or older, or install driver 580.65.06 or newer",
        ),
        "GPU too old": (
            cuda_need("13.0.1"),
            nodes((V100, "580.65.06")),
            "Use nvidia/cuda:12.9.1-base or another image of CUDA 12.9 or older, or use nodes whose GPUs "
            "have compute capability 7.5 or newer",
        ),
        "GPU too new": (cuda_need("12.4.1"), nodes((B200, "570.133.20")), "Use an image of CUDA 12.8 to 12.9"),
        "GPU too new, and the newest driver": (
            cuda_need("12.4.1"),
            nodes((B200, "615.71.09")),
            "Use an image of CUDA 12.8 or newer",
        ),
        "framework too new for the GPU": (
            cuda_need("12.6.3", compute_floor=parse_version("7.5")),
            nodes((V100, "535.54.03")),
            "Use nvidia/cuda:12.6.1-base or another image whose framework supports compute capability 7.0, "
            "or use nodes whose GPUs have compute capability 7.5 or newer",
        ),
        "a GPU that leaves little room": (
            cuda_need("13.0"),
            nodes((B200, "570.133.20")),
            "Use nvidia/cuda:12.9.1-base or another image of CUDA 12.8 to 12.9, or install driver 580.65.06 or newer",
        ),
        "driver too old for the GPU": (
            cuda_need("12.8.0"),
            nodes((B200, "560.35.03")),
            "Install a driver of branch 570 or newer",
        ),
        "driver too new for the GPU": (
            cuda_need("12.4.1"),
            nodes((V100, "595.58.03")),
            "Install a driver of branch 580 or older",
        ),
        "the better of two kinds of nodes": (
            cuda_need("12.4.1"),
            nodes((RTX3090, "470.82.01"), (T4, "418.87.01")),
            "Use nvidia/cuda:11.8.1-base or another image of CUDA 11.0 to 11.8, or install driver 525.60.13 or newer",
        ),
        "10 has no floor": (
            cuda_need("10.2.89"),
            nodes((T4, "410.48")),
            "Use nvidia/cuda:10.0.1-base or another image of CUDA 10.0 or older, or install driver 440.33 or newer",
        ),
        "framework": (
            cuda_need(None, compute_floor=parse_version("7.5")),
            nodes((V100, "550.54.15")),
            "Use nodes whose GPUs have compute capability 7.5 or newer",
        ),
        "CPU": (
            cuda_need("12.4.1", architectures=("amd64",)),
            nodes((T4, "550.54.15"), arch="arm64"),
            "Build the image for arm64 as well, or use nodes with amd64 CPUs",
        ),
        "another platform": (
            Need(BuiltFor.OTHER, None, "", platform="ROCm"),
            nodes((T4, "550.54.15")),
            "Use an image that is built for CUDA",
        ),
        "where forward compatibility is not wanted": (
            cuda_need("12.4.1", compat=Compat.YES),
            nodes((A100, "470.82.01")),
            "Use nvidia/cuda:11.8.1-base or another image of CUDA 11.0 to 11.8, or install driver 525.60.13 or newer",
        ),
        "nothing known": (cuda_need("12.4.1"), [], "Use another image or other nodes"),
    },
)
def test_the_nearest_remedies_are_named(need, offers, text):
    assert remedy(need, offers, same_family) == text


def test_without_a_known_image_of_the_family_only_the_cuda_is_named():
    text = remedy(cuda_need("13.0.1"), nodes((A100, "570.124.06")), lambda _: None)
    assert text == "Use an image of CUDA 12.9 or older, or install driver 580.65.06 or newer"


def test_no_cuda_is_named_if_the_framework_does_not_run():
    need = cuda_need("12.4", compute_floor=parse_version("7.0"))
    text = remedy(need, nodes(("Tesla-P100-PCIE-16GB", "535.183.01")), lambda _: None)
    assert text == (
        "Use an image whose framework supports compute capability 6.0, "
        "or use nodes whose GPUs have compute capability 7.0 or newer"
    )


def test_the_order_of_the_nodes_does_not_matter():
    offers = nodes((RTX3090, "470.82.01"), (T4, "418.87.01"), (V100, "535.54.03"), (B200, "570.133.20"))
    assert remedy(cuda_need("13.0"), offers, same_family) == remedy(cuda_need("13.0"), offers[::-1], same_family)


@checked
@given(NEEDS, st.lists(OFFERS, max_size=3))
def test_a_driver_that_is_named_runs_the_image_on_some_of_the_nodes(need, offers):
    text = remedy(need, offers, lambda _: None)
    assert text[0].isupper()
    assert not text.endswith(".")
    named = re.search(r"driver (of branch )?([0-9.]+[0-9]) or newer", text)
    if named is not None:
        fixed = [replace(offer, driver=parse_version(named[2])) for offer in offers]
        assert any(judge(need, one).verdict is Verdict.COMPATIBLE for one in fixed)


@checked
@given(NEEDS, st.lists(OFFERS, max_size=3))
def test_a_cuda_that_is_named_runs_on_some_of_the_nodes(need, offers):
    named = re.search(r"image of CUDA ([0-9.]+[0-9])(?: to ([0-9.]+[0-9]))?", remedy(need, offers, lambda _: None))
    if named is not None:
        other = cuda_need(named[2] or named[1])
        assert any(judge(other, offer).verdict is Verdict.COMPATIBLE for offer in offers)
