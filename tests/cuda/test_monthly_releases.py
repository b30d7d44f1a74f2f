"""The table of NVIDIA's monthly releases is consistent, and gives no answer for unknown months."""

from itertools import pairwise

import pytest

from tests.golden import golden
from webhook.cuda import UNVERIFIED
from webhook.cuda.releases import MONTHS, TRITON_TRTLLM, TRITON_VLLM, month_of, monthly_cuda


def test_months_stand_in_order_and_their_cuda_never_falls():
    months = list(MONTHS)
    assert months == sorted(set(months))
    for before, after in pairwise(MONTHS.values()):
        assert after.cuda.cut(2).at_least(before.cuda.cut(2)), after.month
        assert after.floor.at_least(before.floor), after.month


def test_an_unverified_month_has_a_neighbour_with_its_major_version():
    """So its major version is certain."""
    for before, release, after in zip(*(list(MONTHS.values())[at:] for at in range(3)), strict=False):
        if not release.is_verified:
            majors = {neighbour.cuda.major for neighbour in (before, after)}
            assert release.cuda.major in majors, release.month


@pytest.mark.parametrize("variants", [TRITON_TRTLLM, TRITON_VLLM], ids=["trtllm", "vllm"])
def test_variants_belong_to_known_months(variants):
    assert all(month in MONTHS for month in variants)


@golden
def test_a_tag_of_a_known_month_says_its_cuda(tag, expected):
    assert str(monthly_cuda(month_of(tag), tag)[0]) == expected


@pytest.mark.parametrize(
    "text", ["2.41.0", "24.13-py3", "24.00", "2024.09", "24.091", "24.9-py3", "", "latest", "24.09.framework"]
)
def test_other_texts_are_no_month(text):
    assert month_of(text) is None


def test_a_floor_in_doubt_has_a_certain_one_below():
    release = MONTHS["24.11"]
    assert (str(release.floor), release.is_floor_verified, str(release.certain_floor)) == ("7.5", False, "6.0")
    read = MONTHS["25.03"]
    assert (str(read.floor), read.is_floor_verified, read.certain_floor) == ("7.5", True, None)
    assert not any(release.is_floor_verified for release in MONTHS.values() if release.source == UNVERIFIED)
