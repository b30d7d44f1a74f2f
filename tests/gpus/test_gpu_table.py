"""GPUs by name: their properties for CUDA, and their names in quotas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each, golden
from tests.strategies import checked
from webhook.gpus.gpu_table import GPUS

LABELLED = """Tesla-K80 3.7 yes K80
Tesla-P4 6.1 yes P4
Tesla-P40 6.1 yes P40
Tesla-P100-PCIE-16GB 6.0 yes P100-16GB
Tesla-P100-SXM2-16GB 6.0 yes P100-16GB
Tesla-V100-SXM2-16GB 7.0 yes V100-16GB
Tesla-V100-SXM2-32GB 7.0 yes V100-32GB
Tesla-V100-PCIE-32GB 7.0 yes V100-32GB
Tesla-V100-DGXS-32GB 7.0 yes V100-32GB
Tesla-V100-FHHL-16GB 7.0 yes V100-16GB
Tesla-V100S-PCIE-32GB 7.0 yes V100-32GB
Tesla-M60 5.2 yes M60
Tesla-T4 7.5 yes T4
NVIDIA-T4G 7.5 yes T4G
NVIDIA-A2 8.6 yes A2
NVIDIA-A10 8.6 yes A10
NVIDIA-A10G 8.6 yes A10G
NVIDIA-A16 8.6 yes A16
NVIDIA-A30 8.0 yes A30
NVIDIA-A40 8.6 yes A40
NVIDIA-A100-SXM4-40GB 8.0 yes A100-40GB
A100-SXM4-40GB 8.0 yes A100-40GB
NVIDIA-A100-PCIE-40GB 8.0 yes A100-40GB
NVIDIA-A100-SXM4-80GB 8.0 yes A100-80GB
NVIDIA-A100-80GB-PCIe 8.0 yes A100-80GB
NVIDIA-A800-SXM4-80GB 8.0 yes A800-80GB
NVIDIA-L4 8.9 yes L4
NVIDIA-L20 8.9 yes L20
NVIDIA-L40 8.9 yes L40
NVIDIA-L40S 8.9 yes L40S
NVIDIA-H100-PCIe 9.0 yes H100-80GB
NVIDIA-H100-80GB-HBM3 9.0 yes H100-80GB
NVIDIA-H100-NVL 9.0 yes H100-NVL
NVIDIA-H20 9.0 yes H20
NVIDIA-H20-3e 9.0 yes H20
NVIDIA-H800 9.0 yes H800
NVIDIA-H200 9.0 yes H200
NVIDIA-H200-NVL 9.0 yes H200
NVIDIA-GH200-480GB 9.0 yes GH200-96GB
NVIDIA-GH200-144G-HBM3e 9.0 yes GH200-144GB
NVIDIA-B200 10.0 yes B200
NVIDIA-GB200 10.0 yes GB200
NVIDIA-B300-SXM6-AC 10.3 yes B300
NVIDIA-GB300 10.3 yes GB300
NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition 12.0 yes RTX-PRO-6000
NVIDIA-RTX-PRO-4500-Blackwell-Server-Edition 12.0 yes RTX-PRO-4500
NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition 12.0 no RTX-PRO-6000
NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition 12.0 no RTX-PRO-6000
NVIDIA-RTX-A6000 8.6 no RTX-A6000
RTX-A5000 8.6 no RTX-A5000
NVIDIA-RTX-6000-Ada-Generation 8.9 no RTX-6000-Ada
NVIDIA-RTX-4000-SFF-Ada-Generation 8.9 no RTX-4000-Ada
Quadro-RTX-8000 7.5 unknown Quadro-RTX-8000
Quadro-GV100 7.0 no -
Quadro-P4000 6.1 no -
NVIDIA-T1000 7.5 no -
NVIDIA-T400-4GB 7.5 no -
NVIDIA-GeForce-GTX-1660-Ti 7.5 no -
GeForce-GTX-1080-Ti 6.1 no -
NVIDIA-GeForce-RTX-2080-Ti 7.5 no RTX-2080
NVIDIA-GeForce-RTX-3090 8.6 no RTX-3090
NVIDIA-GeForce-RTX-4090 8.9 no RTX-4090
NVIDIA-GeForce-RTX-4090-D 8.9 no RTX-4090
NVIDIA-GeForce-RTX-4070-Ti-SUPER 8.9 no -
NVIDIA-GeForce-RTX-4060-Laptop-GPU 8.9 no -
NVIDIA-GeForce-RTX-5090 12.0 no RTX-5090
NVIDIA-TITAN-RTX 7.5 no TITAN-RTX
NVIDIA-TITAN-V 7.0 no TITAN-V
NVIDIA-TITAN-Xp 6.1 no -
NVIDIA-GB10 12.1 no GB10
Orin 8.7 unknown -
NVIDIA-Thor 11.0 unknown -
GRID-T4-16Q 7.5 unknown T4
GRID-A100-10C 8.0 unknown A100-40GB,A100-80GB
NVIDIA-A10-24Q 8.6 unknown A10
NVIDIA-L40S-48Q 8.9 unknown L40S
NVIDIA-A100-1-5C 8.0 unknown A100-40GB,A100-80GB
NVIDIA-GeForce-RTX-5080 12.0 no RTX-5080
NVIDIA-GeForce-RTX-4080 8.9 no RTX-4080
NVIDIA-GeForce-RTX-3080 8.6 no RTX-3080
TITAN-RTX 7.5 no TITAN-RTX
TITAN-V 7.0 no TITAN-V
NVIDIA-RTX-5000-Ada-Generation 8.9 no RTX-5000-Ada
NVIDIA-RTX-4500-Ada-Generation 8.9 no RTX-4500-Ada
NVIDIA-RTX-4000-Ada-Generation 8.9 no RTX-4000-Ada
NVIDIA-RTX-A5000 8.6 no RTX-A5000
NVIDIA-RTX-A4500 8.6 no RTX-A4500
NVIDIA-RTX-A4000 8.6 no RTX-A4000
NVIDIA-RTX-A2000 8.6 no RTX-A2000
Quadro-RTX-6000 7.5 unknown Quadro-RTX-6000
Quadro-RTX-5000 7.5 unknown Quadro-RTX-5000
Quadro-RTX-4000 7.5 unknown Quadro-RTX-4000
Tesla-P100-PCIE-12GB 6.0 yes P100-12GB
NVIDIA-A800-40GB-Active 8.0 yes A800-40GB
NVIDIA-L2 8.9 yes L2
AMD_Radeon_Instinct_MI25 unknown unknown MI25
AMD_Instinct_MI100 unknown unknown MI100
AMD_Instinct_MI210 unknown unknown MI210
AMD_Instinct_MI250X unknown unknown MI250X
AMD_Instinct_MI300A unknown unknown MI300A
AMD_Instinct_MI300X_OAM unknown unknown MI300X
AMD_Instinct_MI308X unknown unknown MI308X
AMD_Instinct_MI325X unknown unknown MI325X
AMD_Instinct_MI350X unknown unknown MI350X
AMD_Instinct_MI355X unknown unknown MI355X
AMD_Radeon_Pro_V520 unknown unknown Radeon-V520
AMD_Radeon_Pro_V620 unknown unknown Radeon-V620
AMD_Radeon_Pro_V710 unknown unknown Radeon-V710
Flex_140 unknown unknown Flex-140
Flex_170 unknown unknown Flex-170
Max_1100 unknown unknown Max-1100
Max_1550 unknown unknown Max-1550
""".splitlines()
"""Label values, each with the compute capability, whether it is a data-centre GPU, and the models of quotas."""

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


@pytest.mark.parametrize(
    ("name", "compute", "server", "models"), [pytest.param(*row.split(), id=row.split()[0]) for row in LABELLED]
)
def test_a_gpu_is_known_by_its_label(name, compute, server, models):
    traits = GPUS.traits_of(name)
    known = None if traits is None or traits.compute is None else str(traits.compute)
    assert known == (None if compute == "unknown" else compute)
    assert (None if traits is None else traits.is_data_center) is ANSWERS[server]
    assert GPUS.models_in(name) == set(models.split(",")) - {"-"}


def test_every_model_has_a_tested_label():
    """Every new GPU needs a line here with the expected answer."""
    missing = {model.product for model in GPUS.models if model.product} - {row.split()[0] for row in LABELLED}
    assert missing == set(), "add a line to LABELLED for each of these"


@pytest.mark.parametrize(("name", "compute"), [pytest.param(*pair, id=pair[0]) for pair in CLOUDS.items()])
def test_a_gpu_is_known_by_the_names_that_clouds_give_it(name, compute):
    assert str(GPUS.traits_of(name).compute) == compute


def test_a_gpu_is_known_by_the_name_that_nvidia_smi_prints():
    assert GPUS.traits_of("NVIDIA A100-SXM4-80GB") == GPUS.traits_of("NVIDIA-A100-SXM4-80GB")


@golden
def test_names_of_no_known_gpu_say_nothing(name):
    assert GPUS.traits_of(name) is None


@each(
    "name, brands",
    {
        "Tesla": ("Tesla-T4", {"tesla"}),
        "A100 is none, whatever a cloud calls it": ("nvidia-tesla-a100", {"nvidia", "unknown"}),
        "GeForce RTX": ("NVIDIA-GeForce-RTX-4090", {"geforce", "geforcertx"}),
        "RTX": ("NVIDIA-RTX-A6000", {"nvidiartx", "unknown"}),
        "virtual": ("GRID-T4-16Q", {"grid", "vapps", "vpc", "vcs", "vws", "cloudgaming"}),
        "a Tesla that the table lacks": ("Tesla-Z9", {"tesla"}),
        "not known": ("NVIDIA-GB10", set()),
    },
)
def test_a_gpu_has_a_brand(name, brands):
    assert set(GPUS.traits_of(name).brands) == brands


def test_a_variant_is_a_guess_that_only_quotas_make():
    """Quotas count too much rather than too little, but the code that an unknown variant runs is not known."""
    assert GPUS.models_in("NVIDIA-H200X") == {"H200"}
    assert GPUS.traits_of("NVIDIA-H200X") is None


def test_only_the_beginning_of_a_long_name_is_read():
    assert GPUS.traits_of("x" * 120 + "-t4").compute is not None
    assert GPUS.traits_of("x" * 126 + "-t4") is None


@checked
@given(st.text(max_size=300))
def test_any_text_may_be_looked_up(text):
    traits = GPUS.traits_of(text)
    assert traits is None or traits.brands is not None
    assert GPUS.models_in(text) <= GPUS.vendors.keys()


@golden
def test_a_slice_is_one_of_the_fewest_that_a_gpu_may_be_cut_into(profile, models, fewest):
    assert GPUS.fewest_slices(profile, models) == fewest
