"""The GPU models that values of node labels mean."""

from tests.golden import each, golden
from webhook.gpus.gpu_model import models_from
from webhook.gpus.gpu_names import INSTANCE_TYPE as INSTANCE
from webhook.gpus.gpu_names import NVIDIA_PRODUCT as PRODUCT
from webhook.gpus.gpu_table import GPUS, GpuTable

A100 = ("A100-40GB", "A100-80GB")


@golden
def test_the_labels_that_people_use_say_the_model(label, value, expected):
    assert GPUS.models_at(label, value) == set(expected)


def test_no_label_value_is_longer_than_kubernetes_takes():
    assert GPUS.models_at(PRODUCT, "T" * 58 + "-h100") == GPUS.names["H100"]
    assert GPUS.models_at(PRODUCT, "T" * 59 + "-h100") == set()


def test_other_labels_say_no_model():
    assert GPUS.models_at("zone", "h100") == set()


@each(
    "value, models",
    {
        "the longer glob": ("fast-big-1", {"A"}),
        "one that two models have": ("fast-1", {"A", "B"}),
        "none": ("slow-1", set()),
    },
)
def test_the_closest_glob_of_a_machine_type_counts(value, models):
    rows = [
        {"name": "A", "machines": {"us": ["fast-*", "fast-big-*"]}, "source": "us", "date": "unknown"},
        {"name": "B", "machines": {"us": ["fast-*"]}, "source": "us", "date": "unknown"},
    ]
    assert GpuTable(models_from(rows)).models_at(INSTANCE, value) == models
