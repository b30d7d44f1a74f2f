"""What runs on GPUs by their compute capability."""

from itertools import pairwise

from tests.golden import golden
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


@golden
def test_a_cuda_needs_a_gpu(cuda, least):
    assert str(CAPABILITIES.least_compute(parse_version(cuda))) == least


@golden
def test_a_gpu_needs_a_cuda(compute, possible, sure):
    first = SHIPPED.first_cuda(parse_version(compute))
    assert (str(first.possible), str(first.sure)) == (possible, sure)


def test_gpus_older_than_the_table_have_no_first_cuda():
    assert SHIPPED.first_cuda(parse_version("2.0")) is None


def test_exceptions_are_within_what_their_major_version_says():
    for parts, first in CAPABILITIES.firsts.items():
        assert first.possible.at_least(CAPABILITIES.firsts[parts[:1]].possible)


@golden
def test_drivers_of_some_branches_drive_a_gpu(compute, first, last):
    row = CAPABILITIES.generation_of(parse_version(compute))
    assert (row.first_branch, row.last_branch) == (first, last)


def test_unverified_first_branches_are_marked():
    assert [str(row.compute) for row in CAPABILITIES.rows if not row.is_verified] == ["10.3", "12.1"]
