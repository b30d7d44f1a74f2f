"""What another driver changes in the labels of a node, as GPU Feature Discovery writes them."""

import pytest

from webhook.cuda.offer import with_driver
from webhook.model.versions import parse_version

NEW = {
    "nvidia.com/cuda.driver-version.full": "535.183.01",
    "nvidia.com/cuda.driver-version.major": "535",
    "nvidia.com/cuda.driver-version.minor": "183",
    "nvidia.com/cuda.driver-version.revision": "01",
    "nvidia.com/cuda.runtime-version.full": "12.2",
    "nvidia.com/cuda.runtime-version.major": "12",
    "nvidia.com/cuda.runtime-version.minor": "2",
}
OLD = {
    "nvidia.com/cuda.driver.major": "535",
    "nvidia.com/cuda.driver.minor": "183",
    "nvidia.com/cuda.driver.rev": "01",
    "nvidia.com/cuda.runtime.major": "12",
    "nvidia.com/cuda.runtime.minor": "2",
}
DRIVER, CUDA = parse_version("580.95.05"), parse_version("13.0")


def changed(labels: dict[str, str], driver: str = "580.95.05") -> dict[str, str]:
    """The labels after the change."""
    found = {**labels, **with_driver(labels, parse_version(driver), CUDA)}
    return {key: value for key, value in found.items() if value is not None}


def test_present_names_are_kept() -> None:
    assert changed(NEW) == {
        "nvidia.com/cuda.driver-version.full": "580.95.05",
        "nvidia.com/cuda.driver-version.major": "580",
        "nvidia.com/cuda.driver-version.minor": "95",
        "nvidia.com/cuda.driver-version.revision": "05",
        "nvidia.com/cuda.runtime-version.full": "13.0",
        "nvidia.com/cuda.runtime-version.major": "13",
        "nvidia.com/cuda.runtime-version.minor": "0",
    }


def test_deprecated_names_are_kept() -> None:
    assert changed(OLD) == {
        "nvidia.com/cuda.driver.major": "580",
        "nvidia.com/cuda.driver.minor": "95",
        "nvidia.com/cuda.driver.rev": "05",
        "nvidia.com/cuda.runtime.major": "13",
        "nvidia.com/cuda.runtime.minor": "0",
    }


@pytest.mark.parametrize("labels", [NEW, OLD, NEW | OLD], ids=["present", "deprecated", "both"])
def test_the_driver_of_today_changes_nothing(labels: dict[str, str]) -> None:
    """Not even the CUDA that the node reports, of which the tables may think otherwise."""
    reporting = {key: "9" if "runtime" in key else value for key, value in labels.items()}
    assert with_driver(reporting, parse_version("535.183.01"), CUDA) == {}


def test_a_node_that_tells_no_driver_gets_all_names() -> None:
    assert changed({"pool": "a"}).keys() == {"pool"} | NEW.keys() | OLD.keys()


def test_of_a_branch_only_the_first_number_is_known() -> None:
    assert changed(NEW | OLD, "580") == {
        "nvidia.com/cuda.driver-version.major": "580",
        "nvidia.com/cuda.driver.major": "580",
        "nvidia.com/cuda.runtime-version.full": "13.0",
        "nvidia.com/cuda.runtime-version.major": "13",
        "nvidia.com/cuda.runtime-version.minor": "0",
        "nvidia.com/cuda.runtime.major": "13",
        "nvidia.com/cuda.runtime.minor": "0",
    }


def test_a_version_of_two_numbers_has_an_empty_last_label() -> None:
    assert changed(NEW, "580.95")["nvidia.com/cuda.driver-version.revision"] == ""
