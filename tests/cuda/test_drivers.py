"""The CUDA that driver branches report, and the drivers that CUDA toolkits need."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest

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


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [
        pytest.param("550.54.15", "12.4", id="a driver"),
        pytest.param("418.39", "10.1", id="an old one"),
        pytest.param("535", "12.2", id="a branch"),
        pytest.param("540.4.0", "None", id="a branch that the table lacks"),
        pytest.param("700.1", "None", id="newer than the table"),
    ],
)
def test_a_driver_reports_what_its_branch_does(driver, cuda):
    assert str(DRIVERS.reported_by(parse_version(driver))) == cuda


def moment(text: str) -> float:
    """Seconds since 1970 of a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("branch", "when", "ended"),
    [
        pytest.param(535, "2026-06-30T23:59:59", False, id="the last second of the last month"),
        pytest.param(535, "2026-07-01T00:00:00", True, id="the first second after it"),
        pytest.param(580, "2026-11-25T00:00:00", False, id="a long-term branch that lasts"),
        pytest.param(580, "2028-07-01T00:00:00", True, id="the same one years later"),
        pytest.param(595, "2027-04-01T00:00:00", True, id="a production branch after its year"),
        pytest.param(575, "2026-11-25T00:00:00", True, id="a branch of which only the end is known"),
        pytest.param(590, "2026-11-25T00:00:00", True, id="the new feature branch that dropped Volta"),
        pytest.param(615, "2026-11-25T00:00:00", None, id="a branch whose end nobody has published"),
        pytest.param(540, "2026-11-25T00:00:00", None, id="a branch that the table lacks"),
        pytest.param(700, "2026-11-25T00:00:00", None, id="a branch newer than the table"),
    ],
)
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


@pytest.mark.parametrize(
    ("cuda", "branches"),
    [
        pytest.param("12.4", (550,), id="one branch"),
        pytest.param("12.4.1", (550,), id="with a third number"),
        pytest.param("10.1", (418, 430), id="two branches"),
        pytest.param("12.10", (), id="none"),
        pytest.param("13", (), id="only the major version is known"),
        pytest.param("13.9", (DRIVERS.newest + 1,), id="newer than the table"),
    ],
)
def test_a_cuda_is_reported_by_branches(cuda, branches):
    assert DRIVERS.branches_reporting(parse_version(cuda)) == branches


def test_every_row_is_newer_than_the_one_before():
    assert all(one.cuda < other.cuda for one, other in pairwise(TOOLKITS.rows))
    assert TOOLKITS.rows[-1].cuda == TOOLKITS.newest


def test_a_newer_toolkit_never_needs_an_older_driver():
    drivers = [toolkit.driver for toolkit in TOOLKITS.rows if toolkit.driver is not None]
    assert all(other.at_least(one) for one, other in pairwise(drivers))
    assert all(one.branch <= other.branch for one, other in pairwise(TOOLKITS.rows))


def test_the_branch_of_a_row_is_that_of_its_driver():
    assert all(toolkit.driver.major == toolkit.branch for toolkit in TOOLKITS.rows if toolkit.driver is not None)


def test_every_branch_that_a_toolkit_ships_with_is_known_and_reports_it():
    reported = {branch.number: branch.cuda for branch in DRIVERS.rows}
    shipped = [toolkit for toolkit in TOOLKITS.rows if toolkit.branch >= DRIVERS.rows[0].number]
    assert shipped
    assert all(reported[toolkit.branch] == toolkit.cuda.cut(2) for toolkit in shipped)


def test_every_toolkit_names_its_source():
    assert all(toolkit.source for toolkit in TOOLKITS.rows)
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


@pytest.mark.parametrize(
    ("cuda", "releases"),
    [
        pytest.param("12.4.1", ["12.4.1"], id="a release"),
        pytest.param("12.4", ["12.4.0", "12.4.1"], id="a minor version"),
        pytest.param("13.0.2.006", ["13.0.2"], id="NGC's fourth number"),
        pytest.param("11.0.167", ["11.0.1"], id="NGC's build of a release candidate"),
        pytest.param("11.0.194", ["11.0.2"], id="NGC's build of a release"),
        pytest.param("12.9.7", ["12.9.2"], id="newer than every release known of its minor version"),
        pytest.param("10.1.243", ["10.1.105"], id="an update without a row of its own"),
        pytest.param("11.0.0", ["11.0.1", "11.0.2", "11.0.3"], id="older than every release of its minor version"),
        pytest.param("12.7", [], id="a version that no toolkit has"),
        pytest.param("14.0", [], id="newer than the table"),
    ],
)
def test_a_version_stands_for_releases(cuda, releases):
    assert [str(toolkit.cuda) for toolkit in TOOLKITS.toolkits_of(parse_version(cuda))] == releases


@pytest.mark.parametrize(
    ("cuda", "low", "high"),
    [
        pytest.param("10.0", "410.48", "410.48", id="10 has no minor-version compatibility"),
        pytest.param("10.2.89", "440.33", "440.33", id="10.2"),
        pytest.param("10", "410.48", "440.33", id="some 10"),
        pytest.param("11.0.1", "450.36.06", "450.36.06", id="a release of 11.0 is below the floor"),
        pytest.param("11.0.3", "450.51.06", "450.51.06", id="the last release of 11.0"),
        pytest.param("11.0", "450.36.06", "450.51.06", id="some 11.0"),
        pytest.param("11.1.0", "450.80.02", "450.80.02", id="the floor of 11"),
        pytest.param("11.8.0", "450.80.02", "450.80.02", id="the last 11"),
        pytest.param("11", "450.36.06", "450.80.02", id="some 11"),
        pytest.param("12.0.0", "525.60.13", "525.60.13", id="the first 12 is its floor"),
        pytest.param("12.9.1", "525.60.13", "525.60.13", id="a late 12"),
        pytest.param("12", "525.60.13", "525.60.13", id="some 12"),
        pytest.param("12.7", "525.60.13", "525.60.13", id="a version that no toolkit has"),
        pytest.param("13.3.1", "580.65.06", "580.65.06", id="a late 13"),
        pytest.param("13.4.3", "580.65.06", "580.65.06", id="a release whose own driver is not known"),
        pytest.param("13.9", "580.65.06", "580.65.06", id="a 13 newer than the table"),
        pytest.param("9.1", "390.46", "390.46", id="an old one"),
        pytest.param("9.2", "396.26", "396.37", id="an old one with two releases"),
        pytest.param("8.5", "384.81", "384.81", id="between two old ones"),
        pytest.param("6.5", "0", "346.46", id="older than the table"),
    ],
)
def test_a_version_needs_a_driver(cuda, low, high):
    threshold = TOOLKITS.threshold_of(parse_version(cuda))
    assert (str(threshold.low), str(threshold.high)) == (low, high)


@pytest.mark.parametrize("cuda", [pytest.param("14", id="major"), pytest.param("14.2.0", id="release")])
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


@pytest.mark.parametrize(
    ("cuda", "driver"),
    [
        pytest.param("12.4.1", "550.54.15", id="a release"),
        pytest.param("12.4", "550.54.14", id="the first of several"),
        pytest.param("13.4.1", "615", id="only the branch is known"),
        pytest.param("12.7", "None", id="no such toolkit"),
    ],
)
def test_all_features_work_from_the_driver_that_a_toolkit_ships_with(cuda, driver):
    assert str(TOOLKITS.native_driver(parse_version(cuda))) == driver
