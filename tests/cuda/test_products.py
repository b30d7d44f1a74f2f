"""GPUs by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import checked
from webhook.cuda.cuda_tables import SHIPPED
from webhook.cuda.products import DATA_CENTER_ONLY, PRODUCTS, base_name, model_of

CAPABILITIES = SHIPPED.capabilities

LABELLED = """Tesla-K80 3.7 yes
Tesla-P4 6.1 yes
Tesla-P40 6.1 yes
Tesla-P100-PCIE-16GB 6.0 yes
Tesla-P100-SXM2-16GB 6.0 yes
Tesla-V100-SXM2-16GB 7.0 yes
Tesla-V100-SXM2-32GB 7.0 yes
Tesla-V100-PCIE-32GB 7.0 yes
Tesla-V100-DGXS-32GB 7.0 yes
Tesla-V100-FHHL-16GB 7.0 yes
Tesla-V100S-PCIE-32GB 7.0 yes
Tesla-M60 5.2 yes
Tesla-T4 7.5 yes
NVIDIA-T4G 7.5 yes
NVIDIA-A2 8.6 yes
NVIDIA-A10 8.6 yes
NVIDIA-A10G 8.6 yes
NVIDIA-A16 8.6 yes
NVIDIA-A30 8.0 yes
NVIDIA-A40 8.6 yes
NVIDIA-A100-SXM4-40GB 8.0 yes
A100-SXM4-40GB 8.0 yes
NVIDIA-A100-PCIE-40GB 8.0 yes
NVIDIA-A100-SXM4-80GB 8.0 yes
NVIDIA-A100-80GB-PCIe 8.0 yes
NVIDIA-A800-SXM4-80GB 8.0 yes
NVIDIA-L4 8.9 yes
NVIDIA-L20 8.9 yes
NVIDIA-L40 8.9 yes
NVIDIA-L40S 8.9 yes
NVIDIA-H100-PCIe 9.0 yes
NVIDIA-H100-80GB-HBM3 9.0 yes
NVIDIA-H100-NVL 9.0 yes
NVIDIA-H20 9.0 yes
NVIDIA-H20-3e 9.0 yes
NVIDIA-H800 9.0 yes
NVIDIA-H200 9.0 yes
NVIDIA-H200-NVL 9.0 yes
NVIDIA-GH200-480GB 9.0 yes
NVIDIA-GH200-144G-HBM3e 9.0 yes
NVIDIA-B200 10.0 yes
NVIDIA-GB200 10.0 yes
NVIDIA-B300-SXM6-AC 10.3 yes
NVIDIA-GB300 10.3 yes
NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition 12.0 yes
NVIDIA-RTX-PRO-4500-Blackwell-Server-Edition 12.0 yes
NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition 12.0 no
NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition 12.0 no
NVIDIA-RTX-A6000 8.6 no
RTX-A5000 8.6 no
NVIDIA-RTX-6000-Ada-Generation 8.9 no
NVIDIA-RTX-4000-SFF-Ada-Generation 8.9 no
Quadro-RTX-8000 7.5 unknown
Quadro-GV100 7.0 no
Quadro-P4000 6.1 no
NVIDIA-T1000 7.5 no
NVIDIA-T400-4GB 7.5 no
NVIDIA-GeForce-GTX-1660-Ti 7.5 no
GeForce-GTX-1080-Ti 6.1 no
NVIDIA-GeForce-RTX-2080-Ti 7.5 no
NVIDIA-GeForce-RTX-3090 8.6 no
NVIDIA-GeForce-RTX-4090 8.9 no
NVIDIA-GeForce-RTX-4090-D 8.9 no
NVIDIA-GeForce-RTX-4070-Ti-SUPER 8.9 no
NVIDIA-GeForce-RTX-4060-Laptop-GPU 8.9 no
NVIDIA-GeForce-RTX-5090 12.0 no
NVIDIA-TITAN-RTX 7.5 no
NVIDIA-TITAN-V 7.0 no
NVIDIA-TITAN-Xp 6.1 no
NVIDIA-GB10 12.1 no
Orin 8.7 unknown
NVIDIA-Thor 11.0 unknown
GRID-T4-16Q 7.5 unknown
GRID-A100-10C 8.0 unknown
NVIDIA-A10-24Q 8.6 unknown
NVIDIA-L40S-48Q 8.9 unknown
NVIDIA-A100-1-5C 8.0 unknown
""".splitlines()

CLOUDS = {
    # cloud.google.com/gke-accelerator
    "nvidia-tesla-k80": "3.7",
    "nvidia-tesla-p4": "6.1",
    "nvidia-tesla-p100": "6.0",
    "nvidia-tesla-v100": "7.0",
    "nvidia-tesla-t4": "7.5",
    "nvidia-tesla-a100": "8.0",
    "nvidia-a100-80gb": "8.0",
    "nvidia-l4": "8.9",
    "nvidia-h100-80gb": "9.0",
    "nvidia-h100-mega-80gb": "9.0",
    "nvidia-h200-141gb": "9.0",
    "nvidia-b200": "10.0",
    "nvidia-gb200": "10.0",
    "nvidia-rtx-pro-6000": "12.0",
    # k8s.amazonaws.com/accelerator
    "nvidia-a10g": "8.6",
    "nvidia-l40s": "8.9",
    # karpenter.k8s.aws/instance-gpu-name, eks.amazonaws.com/instance-gpu-name
    "t4": "7.5",
    "t4g": "7.5",
    "a10g": "8.6",
    "v100": "7.0",
    "a100": "8.0",
    "h100": "9.0",
    "h200": "9.0",
    "l4": "8.9",
    "l40s": "8.9",
    "b200": "10.0",
    "b300": "10.3",
    "rtx-pro-server-6000": "12.0",
    "rtx-pro-4500": "12.0",
    # karpenter.azure.com/sku-gpu-name
    "A100": "8.0",
    "T4": "7.5",
    # gpu.nvidia.com/class
    "H100_NVLINK_80GB": "9.0",
    "RTX_A5000": "8.6",
}
ANSWERS = {"yes": True, "no": False, "unknown": None}


@pytest.mark.parametrize(("name", "compute", "server"), [pytest.param(*row.split(), id=row) for row in LABELLED])
def test_a_gpu_is_known_by_its_label(name, compute, server):
    model = model_of(name)
    assert str(model.compute) == compute
    assert model.is_data_center is ANSWERS[server]


@pytest.mark.parametrize(("name", "compute"), [pytest.param(*pair, id=pair[0]) for pair in CLOUDS.items()])
def test_a_gpu_is_known_by_the_names_that_clouds_give_it(name, compute):
    assert str(model_of(name).compute) == compute


def test_a_gpu_is_known_by_the_name_that_nvidia_smi_prints():
    assert model_of("NVIDIA A100-SXM4-80GB") == model_of("NVIDIA-A100-SXM4-80GB")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("radeon-pro-v520", id="another vendor"),
        pytest.param("NVIDIA-R100", id="a GPU to come"),
        pytest.param("A1000", id="a number that only looks like one"),
        pytest.param("", id="nothing"),
        pytest.param("-", id="no word"),
    ],
)
def test_names_of_no_known_gpu_say_nothing(name):
    assert model_of(name) is None


@pytest.mark.parametrize(
    ("name", "brands"),
    [
        pytest.param("Tesla-T4", {"tesla"}, id="Tesla"),
        pytest.param("nvidia-tesla-a100", {"nvidia", "unknown"}, id="A100 is none, whatever a cloud calls it"),
        pytest.param("NVIDIA-GeForce-RTX-4090", {"geforce", "geforcertx"}, id="GeForce RTX"),
        pytest.param("NVIDIA-RTX-A6000", {"nvidiartx", "unknown"}, id="RTX"),
        pytest.param("GRID-T4-16Q", {"grid", "vapps", "vpc", "vcs", "vws", "cloudgaming"}, id="virtual"),
        pytest.param("Tesla-Z9", {"tesla"}, id="a Tesla that the table lacks"),
        pytest.param("NVIDIA-GB10", set(), id="not known"),
    ],
)
def test_a_gpu_has_a_brand(name, brands):
    assert set(model_of(name).brands) == brands


@pytest.mark.parametrize(
    ("product", "name"),
    [
        pytest.param("Tesla-T4", "Tesla-T4", id="nothing appended"),
        pytest.param("Tesla-T4-SHARED", "Tesla-T4", id="shared"),
        pytest.param("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "NVIDIA-A100-SXM4-40GB", id="a slice"),
        pytest.param("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED", "NVIDIA-A100-SXM4-40GB", id="a shared slice"),
        pytest.param("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me", "NVIDIA-H100-80GB-HBM3", id="a slice with media engines"),
        pytest.param("NVIDIA-H100-80GB-HBM3-MIG-INVALID", "NVIDIA-H100-80GB-HBM3", id="slices at odds"),
        pytest.param("-MIG-1g.5gb", "-MIG-1g.5gb", id="nothing before it"),
    ],
)
def test_what_sharing_and_slicing_append_is_no_part_of_the_name(product, name):
    assert base_name(product) == name


def test_every_compute_capability_named_is_known_or_of_a_board():
    known = {row.compute for row in CAPABILITIES.rows}
    assert {model.compute for model in PRODUCTS if model.compute not in known and not model.arch} == {None}


def test_compute_capabilities_of_data_centre_gpus_belong_to_no_other():
    others = [model for model in PRODUCTS if model.compute is not None and not model.is_data_center]
    assert DATA_CENTER_ONLY.isdisjoint(model.compute.parts for model in others)


def test_no_row_hides_a_later_one():
    for at, row in enumerate(PRODUCTS):
        assert not any(before.words <= row.words for before in PRODUCTS[:at])


@checked
@given(st.text(max_size=300))
def test_any_text_may_be_asked(text):
    model = model_of(text)
    assert model is None or model.brands is not None
    assert text.startswith(base_name(text))
