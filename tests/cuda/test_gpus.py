"""What runs on GPUs by their compute capability."""

from itertools import pairwise

import pytest

from webhook.cuda.cuda_tables import SHIPPED
from webhook.model.versions import parse_version

TOOLKITS = SHIPPED.toolkits
DRIVERS = SHIPPED.drivers
CAPABILITIES = SHIPPED.capabilities

REPORTED = {branch.number: branch.cuda for branch in DRIVERS.rows}


def test_every_row_is_newer_than_the_one_before():
    assert all(one.compute < other.compute for one, other in pairwise(CAPABILITIES.rows))


def test_branches_of_gpus_are_known_branches():
    bounds = [(row.first_branch, row.last_branch) for row in CAPABILITIES.rows]
    named = {branch for both in bounds for branch in both if branch is not None}
    assert named <= set(REPORTED)


def test_the_first_branch_that_drives_a_gpu_knows_the_first_cuda_that_runs_on_it():
    bounded = [row for row in CAPABILITIES.rows if row.first_branch is not None]
    assert all(REPORTED[row.first_branch].at_least(SHIPPED.first_cuda(row.compute).possible) for row in bounded)


def test_gpus_dropped_by_drivers_are_dropped_by_the_cuda_of_newer_drivers():
    for row in (row for row in CAPABILITIES.rows if row.last_branch is not None):
        newer = next(branch.cuda for branch in DRIVERS.rows if branch.number > row.last_branch)
        assert row.compute < CAPABILITIES.least_compute(newer) or newer.major == REPORTED[row.last_branch].major


def test_every_generation_runs_some_cuda():
    for row in CAPABILITIES.rows:
        first = SHIPPED.first_cuda(row.compute)
        assert any(
            minor.at_least(first.possible) and row.compute.at_least(CAPABILITIES.least_compute(minor))
            for minor in TOOLKITS.minors[6:]
        )


def test_support_is_only_ever_dropped():
    assert all(
        CAPABILITIES.least_by_cuda[one] < CAPABILITIES.least_by_cuda[other]
        for one, other in pairwise(sorted(CAPABILITIES.least_by_cuda))
    )


@pytest.mark.parametrize(
    ("cuda", "least"),
    [
        pytest.param("10.2", "3.0", id="10"),
        pytest.param("11.8.0", "3.5", id="11"),
        pytest.param("12", "5.0", id="12"),
        pytest.param("13.0.1", "7.5", id="13"),
        pytest.param("14.1", "7.5", id="newer than the table"),
        pytest.param("9.2", "None", id="older than the table"),
    ],
)
def test_a_cuda_needs_a_gpu(cuda, least):
    assert str(CAPABILITIES.least_compute(parse_version(cuda))) == least


@pytest.mark.parametrize(
    ("compute", "possible", "sure"),
    [
        pytest.param("7.0", "9.0", "9.0", id="Volta"),
        pytest.param("7.5", "9.0", "9.0", id="Turing runs code for Volta"),
        pytest.param("8.9", "11.0", "11.0", id="Ada runs code for Ampere"),
        pytest.param("9.0", "11.8", "11.8", id="Hopper"),
        pytest.param("10.3", "12.8", "12.8", id="Blackwell Ultra runs code for Blackwell"),
        pytest.param("10.7", "12.8", "13.4", id="Rubin"),
        pytest.param("11.0", "12.8", "13.0", id="Thor had another number before"),
        pytest.param("12.1", "12.8", "12.8", id="GB10 runs code for RTX Blackwell"),
        pytest.param("13.0", "13.5", "None", id="newer than the table"),
    ],
)
def test_a_gpu_needs_a_cuda(compute, possible, sure):
    first = SHIPPED.first_cuda(parse_version(compute))
    assert (str(first.possible), str(first.sure)) == (possible, sure)


def test_gpus_older_than_the_table_have_no_first_cuda():
    assert SHIPPED.first_cuda(parse_version("2.0")) is None


def test_exceptions_are_within_what_their_major_version_says():
    for (major, _), first in CAPABILITIES.first_by_compute.items():
        assert first.possible.at_least(CAPABILITIES.first_by_major[major].possible)


@pytest.mark.parametrize(
    ("compute", "first", "last"),
    [
        pytest.param("3.7", None, 470, id="Kepler"),
        pytest.param("7.0", None, 580, id="Volta"),
        pytest.param("7.5", 410, None, id="Turing"),
        pytest.param("10.0", 570, None, id="Blackwell"),
    ],
)
def test_drivers_of_some_branches_drive_a_gpu(compute, first, last):
    row = CAPABILITIES.generation_of(parse_version(compute))
    assert (row.first_branch, row.last_branch) == (first, last)


def test_unverified_first_branches_are_marked():
    assert [str(row.compute) for row in CAPABILITIES.rows if not row.is_first_verified] == ["10.3", "12.1"]
