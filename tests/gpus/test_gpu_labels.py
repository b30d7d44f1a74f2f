"""The GPU models that values of node labels mean."""

import pytest

from webhook.gpus.gpu_model import models_from
from webhook.gpus.gpu_names import GKE_ACCELERATOR as GKE
from webhook.gpus.gpu_names import INSTANCE_TYPE as INSTANCE
from webhook.gpus.gpu_names import NVIDIA_PRODUCT as PRODUCT
from webhook.gpus.gpu_table import GPUS, GpuTable

A100 = ("A100-40GB", "A100-80GB")


@pytest.mark.parametrize(
    ("label", "value", "expected"),
    [
        pytest.param(PRODUCT, "NVIDIA-A100-SXM4-40GB-SHARED", ("A100-40GB",), id="shared"),
        pytest.param(PRODUCT, "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED", ("A100-80GB",), id="a shared slice"),
        pytest.param(PRODUCT, "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", ("A100-80GB",), id="a slice of 40 GB"),
        pytest.param(PRODUCT, "A100-PCIE-40GB", ("A100-40GB",), id="an old driver"),
        pytest.param(PRODUCT, "GRID-A100D-80C", A100, id="a virtual GPU does not say the memory"),
        pytest.param(PRODUCT, "NVIDIA-H100-NEW", ("H100-80GB", "H100-96GB", "H100-NVL"), id="an H100 of any kind"),
        pytest.param(GKE, "nvidia-tesla-a100", ("A100-40GB",), id="GKE means 40 GB"),
        pytest.param(GKE, "nvidia-a100-80gb", ("A100-80GB",), id="GKE, 80 GB"),
        pytest.param(GKE, "nvidia-h100-mega-80gb", ("H100-80GB",), id="GKE, A3 Mega"),
        pytest.param(GKE, "A100_NVLINK_80GB", ("A100-80GB",), id="CoreWeave on GKE's label"),
        pytest.param("gpu.nvidia.com/class", "A100_PCIE_40GB", ("A100-40GB",), id="CoreWeave"),
        pytest.param("k8s.amazonaws.com/accelerator", "nvidia-tesla-t4", ("T4",), id="AWS"),
        pytest.param("karpenter.k8s.aws/instance-gpu-name", "a100", A100, id="Karpenter does not say the memory"),
        pytest.param("eks.amazonaws.com/instance-gpu-name", "rtx-pro-server-6000", ("RTX-PRO-6000",), id="EKS"),
        pytest.param("karpenter.azure.com/sku-gpu-name", "T4", ("T4",), id="Karpenter on Azure"),
        pytest.param("gpu-type", "h100-or-a100-80gb", ("A100-80GB", "H100-80GB"), id="two in one word"),
        pytest.param("gpu-type", "a2-highgpu-1g", ("A100-40GB",), id="a machine on another label"),
        pytest.param("accelerator", "nvidia", (), id="AKS says only whose it is"),
        pytest.param("gpu", "true", (), id="a flag says nothing"),
        pytest.param(INSTANCE, "p5.48xlarge", ("H100-80GB",), id="AWS P5"),
        pytest.param(INSTANCE, "p5en.48xlarge", ("H200",), id="AWS P5en"),
        pytest.param("beta.kubernetes.io/instance-type", "g4dn.xlarge", ("T4",), id="the old label of machines"),
        pytest.param(INSTANCE, "Standard_NC24ads_A100_v4", ("A100-80GB",), id="Azure NC A100"),
        pytest.param(INSTANCE, "Standard_ND96asr_v4", ("A100-40GB",), id="Azure ND A100"),
        pytest.param(INSTANCE, "Standard_NC64as_T4_v3", ("T4",), id="Azure T4 is no V100"),
        pytest.param(INSTANCE, "a2-ultragpu-4g", ("A100-80GB",), id="Google A2 Ultra"),
        pytest.param(INSTANCE, "a3-highgpu-1g-gdc", ("H100-NVL",), id="the longer pattern counts"),
        pytest.param(INSTANCE, "gd-8xl40s-i128", ("L40S",), id="CoreWeave's machine"),
        pytest.param("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM", ("MI300X",), id="AMD"),
        pytest.param(
            "amd.com/gpu.product-name", "AMD_Instinct_MI250X_/_MI250", ("MI250", "MI250X"), id="either of two"
        ),
        pytest.param("gpu.intel.com/product", "Flex_170", ("Flex-170",), id="Intel"),
        pytest.param("gpu-type", "rtx4090", ("RTX-4090",), id="brand and number in one word"),
        pytest.param("gpu-type", "RTXA6000", ("RTX-A6000",), id="the same with a letter"),
        pytest.param(
            "gpu-type",
            "rtx6000",
            ("Quadro-RTX-6000", "RTX-6000-Ada", "RTX-PRO-6000"),
            id="one word for several generations",
        ),
    ],
)
def test_the_labels_that_people_use_say_the_model(label, value, expected):
    assert GPUS.models_at(label, value) == set(expected)


def test_no_label_value_is_longer_than_kubernetes_takes():
    assert GPUS.models_at(PRODUCT, "T" * 58 + "-h100") == GPUS.names["H100"]
    assert GPUS.models_at(PRODUCT, "T" * 59 + "-h100") == set()


def test_other_labels_say_no_model():
    assert GPUS.models_at("zone", "h100") == set()


@pytest.mark.parametrize(
    ("value", "models"),
    [
        pytest.param("fast-big-1", {"A"}, id="the longer glob"),
        pytest.param("fast-1", {"A", "B"}, id="one that two models have"),
        pytest.param("slow-1", set(), id="none"),
    ],
)
def test_the_closest_glob_of_a_machine_type_counts(value, models):
    rows = [
        {"name": "A", "machines": {"us": ["fast-*", "fast-big-*"]}, "source": "us", "date": "unknown"},
        {"name": "B", "machines": {"us": ["fast-*"]}, "source": "us", "date": "unknown"},
    ]
    assert GpuTable(models_from(rows)).models_at(INSTANCE, value) == models
