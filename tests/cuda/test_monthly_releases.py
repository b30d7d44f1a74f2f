"""The table of NVIDIA's monthly releases is consistent, and gives no answer for unknown months."""

from itertools import pairwise

import pytest

from webhook.cuda import UNVERIFIED
from webhook.cuda.releases import (
    MONTHLY_RELEASES,
    TRITON_TRTLLM,
    TRITON_VLLM,
    month_of,
    monthly_cuda,
    monthly_release,
)


def test_months_stand_in_order_and_their_cuda_never_falls():
    months = [release.month for release in MONTHLY_RELEASES]
    assert months == sorted(set(months))
    for before, after in pairwise(MONTHLY_RELEASES):
        assert after.cuda.cut(2).at_least(before.cuda.cut(2)), after.month
        assert after.floor.at_least(before.floor), after.month


def test_an_unverified_month_has_a_neighbour_with_its_major_version():
    """So its major version is certain."""
    for before, release, after in zip(MONTHLY_RELEASES, MONTHLY_RELEASES[1:], MONTHLY_RELEASES[2:], strict=False):
        if not release.is_verified:
            majors = {neighbour.cuda.major for neighbour in (before, after)}
            assert release.cuda.major in majors, release.month


@pytest.mark.parametrize("variants", [TRITON_TRTLLM, TRITON_VLLM], ids=["trtllm", "vllm"])
def test_variants_belong_to_known_months(variants):
    assert all(monthly_release(month) is not None for month in variants)


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("24.09-py3", "12.6.1"),
        ("19.11-py3", "10.2.89"),
        ("20.03.1-py3", "10.2.89"),
        ("26.10-py3", "13.4.3"),
        ("24.07-trtllm-python-py3", "12.4.1"),
        ("25.10-trtllm-python-py3", "12.9.1"),
        ("25.06-vllm-python-py3", "12.9.0"),
        ("25.09-vllm-python-py3", "13.0.1"),
        ("23.10-trtllm-python-py3", "None"),
        ("20.04-py3", "None"),
        ("27.03-py3", "None"),
    ],
)
def test_a_tag_of_a_known_month_says_its_cuda(tag, expected):
    assert str(monthly_cuda(month_of(tag), tag)[0]) == expected


@pytest.mark.parametrize(
    "text", ["2.41.0", "24.13-py3", "24.00", "2024.09", "24.091", "24.9-py3", "", "latest", "24.09.framework"]
)
def test_other_texts_are_no_month(text):
    assert month_of(text) is None


def test_a_floor_in_doubt_has_a_certain_one_below():
    release = monthly_release("24.11")
    assert (str(release.floor), release.is_floor_verified, str(release.certain_floor)) == ("7.5", False, "6.0")
    read = monthly_release("25.03")
    assert (str(read.floor), read.is_floor_verified, read.certain_floor) == ("7.5", True, None)
    assert not any(release.is_floor_verified for release in MONTHLY_RELEASES if release.source == UNVERIFIED)
