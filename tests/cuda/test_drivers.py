"""The CUDA that driver branches report."""

from itertools import pairwise

import pytest

from webhook.cuda.cuda_tables import SHIPPED
from webhook.cuda.drivers import UNVERIFIED
from webhook.model.versions import parse_version

TOOLKITS = SHIPPED.toolkits
DRIVERS = SHIPPED.drivers


def test_a_newer_branch_never_reports_an_older_cuda():
    assert all(one.number < other.number and other.cuda.at_least(one.cuda) for one, other in pairwise(DRIVERS.rows))
    assert DRIVERS.rows[-1].number == DRIVERS.newest


def test_every_cuda_from_9_on_is_reported_by_a_branch():
    assert {minor for minor in TOOLKITS.minors if minor.major >= 9} <= {branch.cuda for branch in DRIVERS.rows}


def test_what_nobody_has_read_is_marked():
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
