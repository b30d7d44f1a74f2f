"""The CUDA that driver branches report, and the drivers that CUDA toolkits need."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from tests.golden import each, golden
from webhook.cuda import UNVERIFIED
from webhook.cuda.cuda_tables import SHIPPED
from webhook.cuda.drivers import Branch
from webhook.model.versions import parse_version

TOOLKITS = SHIPPED.toolkits
DRIVERS = SHIPPED.drivers


def test_a_newer_branch_never_reports_an_older_cuda():
    assert all(one.number < other.number and other.cuda.at_least(one.cuda) for one, other in pairwise(DRIVERS.rows))
    assert DRIVERS.rows[-1].number == DRIVERS.newest


def test_every_cuda_from_9_on_is_reported_by_a_branch():
    assert {minor for minor in TOOLKITS.minors if minor.major >= 9} <= {branch.cuda for branch in DRIVERS.rows}


def test_unverified_branches_are_marked():
    assert [branch.number for branch in DRIVERS.rows if branch.source == UNVERIFIED] == [384, 390, 396, 430]


@golden
def test_a_driver_reports_what_its_branch_does(driver, cuda):
    assert str(DRIVERS.reported_by(parse_version(driver))) == cuda


def moment(text: str) -> float:
    """Seconds since 1970 of a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@golden
def test_a_branch_has_ended_has_not_or_nobody_knows(branch, when, ended):
    """What nobody has published is no end: an alert about it would be a guess."""
    assert DRIVERS.has_ended(branch, moment(when)) is ended


def test_every_branch_without_an_end_says_so():
    """An empty end is a statement, not an omission."""
    assert [row.number for row in DRIVERS.rows if not row.end] == [615]
    assert "nobody has said" in DRIVERS.branch(615).note


def test_the_end_of_a_branch_in_a_file_of_the_platform_counts():
    own = DRIVERS.merged([Branch(615, parse_version("13.4"), "", "2026-10", "our support contract")])
    assert own.has_ended(615, moment("2026-11-25T00:00:00")) is True


@golden
def test_a_cuda_is_reported_by_branches(cuda, branches):
    assert DRIVERS.branches_reporting(parse_version(cuda)) == branches


def test_every_row_is_newer_than_the_one_before():
    assert all(one.cuda < other.cuda for one, other in pairwise(TOOLKITS.rows))
    assert TOOLKITS.rows[-1].cuda == TOOLKITS.newest


def test_a_newer_toolkit_never_needs_an_older_driver():
    drivers = [toolkit.driver for toolkit in TOOLKITS.rows if toolkit.has_exact_driver]
    assert all(other.at_least(one) for one, other in pairwise(drivers))
    assert all(one.driver.major <= other.driver.major for one, other in pairwise(TOOLKITS.rows))


def test_every_branch_that_a_toolkit_ships_with_is_known_and_reports_it():
    reported = {branch.number: branch.cuda for branch in DRIVERS.rows}
    shipped = [toolkit for toolkit in TOOLKITS.rows if toolkit.driver.major >= DRIVERS.rows[0].number]
    assert shipped
    assert all(reported[toolkit.driver.major] == toolkit.cuda.cut(2) for toolkit in shipped)


def test_unverified_toolkits_are_marked():
    assert {str(toolkit.cuda) for toolkit in TOOLKITS.rows if not toolkit.is_verified} == {
        "12.9.2",
        "13.0.3",
        "13.1.2",
        "13.2.2",
        "13.4.0",
        "13.4.2",
    }


def test_every_major_version_from_11_on_has_a_floor_among_its_first_drivers():
    assert set(TOOLKITS.floors) == {minor.major for minor in TOOLKITS.minors if minor.major >= 11}
    for major, floor in TOOLKITS.floors.items():
        first, second = (
            TOOLKITS.native_driver(minor) for minor in [m for m in TOOLKITS.minors if m.major == major][:2]
        )
        assert floor.driver.at_least(first)
        assert floor.driver < second


@golden
def test_a_version_stands_for_releases(cuda, releases):
    assert [str(toolkit.cuda) for toolkit in TOOLKITS.toolkits_of(parse_version(cuda))] == list(releases)


@golden
def test_a_version_needs_a_driver(cuda, low, high):
    threshold = TOOLKITS.threshold_of(parse_version(cuda))
    assert (str(threshold.low), str(threshold.high)) == (low, high)


@each("cuda", {"major": "14", "release": "14.2.0"})
def test_the_driver_of_a_newer_major_version_is_not_known(cuda):
    assert TOOLKITS.threshold_of(parse_version(cuda)) is None


@pytest.mark.parametrize(
    ("part", "wholes"),
    [
        pytest.param(
            str(part),
            [row.cuda for row in TOOLKITS.rows if row.cuda.parts[: len(part.parts)] == part.parts],
            id=str(part),
        )
        for part in dict.fromkeys((*TOOLKITS.minors, *(minor.cut(1) for minor in TOOLKITS.minors)))
    ],
)
def test_the_threshold_of_a_partial_version_covers_all_its_releases(part, wholes):
    threshold = TOOLKITS.threshold_of(parse_version(part))
    own = [TOOLKITS.threshold_of(whole) for whole in wholes]
    assert min(one.low for one in own) == threshold.low
    assert max(one.high for one in own) == threshold.high


@golden
def test_all_features_work_from_the_driver_that_a_toolkit_ships_with(cuda, driver):
    assert str(TOOLKITS.native_driver(parse_version(cuda))) == driver
