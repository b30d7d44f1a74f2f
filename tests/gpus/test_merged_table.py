"""The table of this release with rows of a platform's own."""

from webhook.gpus.gpu_model import models_from
from webhook.gpus.gpu_names import INSTANCE_TYPE, NVIDIA_PRODUCT
from webhook.gpus.gpu_table import GPUS

RUBIN = {
    "name": "R200",
    "compute": "10.7",
    "dataCenter": True,
    "product": "NVIDIA-R200",
    "source": "us",
    "date": "2026-11",
}
"""A row of a platform's own."""


def test_a_row_of_the_platforms_own_is_known_in_the_merged_table_only():
    table = GPUS.merged(models_from([RUBIN]))
    assert str(table.traits_of("NVIDIA-R200").compute) == "10.7"
    assert table.models_at(NVIDIA_PRODUCT, "NVIDIA-R200") == table.names["R200"] == {"R200"}
    assert table.traits_of("Tesla-T4") == GPUS.traits_of("Tesla-T4")
    assert (GPUS.traits_of("NVIDIA-R200"), GPUS.models_in("NVIDIA-R200")) == (None, set())


def test_a_row_of_the_platforms_own_replaces_ours_of_that_name():
    row = {**RUBIN, "name": "T4", "compute": "7.7", "machines": {"us": ["rack-*"]}}
    table = GPUS.merged(models_from([row]))
    assert str(table.traits_of("Tesla-T4").compute) == "7.7"
    assert table.models_at(INSTANCE_TYPE, "rack-7") == {"T4"}
    assert table.models_at(INSTANCE_TYPE, "g4dn.xlarge") == set()
    assert len(table.models) == len(GPUS.models)


def test_a_coarse_row_of_the_platforms_own_hides_none_of_ours():
    """The number of a series that the release lacks, written before a model of that series."""
    series = {**RUBIN, "name": "GeForce-RTX", "quotas": False, "words": "geforce rtx", "compute": "13.0"}
    model = {**RUBIN, "name": "GeForce-RTX-6090", "compute": "12.9"}
    table = GPUS.merged(models_from([{key: series[key] for key in series if key != "product"}, model]))
    found = {name: str(table.traits_of(f"NVIDIA-GeForce-RTX-{name}").compute) for name in ("4090", "6070", "6090")}
    assert found == {"4090": "8.9", "6070": "13.0", "6090": "12.9"}


def test_the_most_particular_row_of_the_platforms_own_comes_before_ours_that_a_coarser_one_put_first():
    """Rows of the release move only before the coarser row, not before all rows of the platform."""
    coarse = {"name": "RTX-PRO", "quotas": False, "words": "rtx pro", "compute": "12.0"}
    model = {"name": "RTX-PRO-7000-Server", "words": "rtx pro server 7000", "compute": "12.1"}
    table = GPUS.merged(models_from([{**row, "source": "us", "date": "unknown"} for row in (coarse, model)]))
    assert str(table.traits_of("NVIDIA-RTX-PRO-7000-Server-Edition").compute) == "12.1"
    assert table.traits_of("NVIDIA-RTX-PRO-6000-Server") == GPUS.traits_of("NVIDIA-RTX-PRO-6000-Server")


def test_a_machine_type_of_a_whole_family_is_that_of_a_new_model_in_it_too():
    """No source says which H100 the machines of CoreWeave have. Those of AWS have the one of 80 GB."""
    row = {"name": "H100-64GB", "family": "H100", "words": "h100", "marks": "64gb", "source": "us", "date": "2026-11"}
    table = GPUS.merged(models_from([row]))
    assert table.models_at(INSTANCE_TYPE, "gd-8xh100-i128") == table.names["H100"] == GPUS.names["H100"] | {"H100-64GB"}
    assert table.models_at(INSTANCE_TYPE, "p5.48xlarge") == {"H100-80GB"}


def test_tables_are_equal_when_their_rows_are():
    one, other = (GPUS.merged(models_from([RUBIN])) for _ in range(2))
    assert (one, hash(one)) == (other, hash(other))
    assert one != GPUS
    assert GPUS.merged(()) is GPUS


def test_a_compute_capability_that_another_gpu_has_is_none_of_data_centres_only():
    home = {**RUBIN, "compute": "10.3", "dataCenter": False}
    assert GPUS.merged(models_from([home])).data_center_only == GPUS.data_center_only - {(10, 3)}
    assert GPUS.merged(models_from([{**RUBIN, "compute": "10.3"}])).data_center_only == GPUS.data_center_only
