"""Amounts, short lists and what was probably meant, as messages have them."""

import pytest

from tests.golden import each
from webhook.model.wording import asked, cut, few, nearest, offered

PRODUCTS = sorted(["NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "NVIDIA-L4", "Tesla-T4"])


@each(
    "written, expected",
    {
        "a character too few": ("NVIDIA-A100-SXM-80GB", "NVIDIA-A100-SXM4-80GB"),
        "small letters": ("nvidia-a100-sxm4-80gb", "NVIDIA-A100-SXM4-80GB"),
        "another size": ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"),
        "some of the words": ("A100-80GB", "NVIDIA-A100-SXM4-80GB"),
        "one of the words": ("t4", "Tesla-T4"),
        "another product": ("NVIDIA-H100-80GB-HBM3", None),
        "a part of a word": ("4", None),
        "nothing": ("", None),
        "no word": ("-", None),
        "a long text": ("x" * 5000, None),
    },
)
def test_the_nearest_value_is_what_was_probably_meant(written, expected):
    assert nearest(written, PRODUCTS) == expected


def test_of_thousands_of_values_those_that_begin_alike_are_compared():
    names = [f"gpu-{number:04}" for number in range(5000)]
    assert nearest("gpu-2500-", names) == "gpu-2500"
    assert nearest("gpu-9999", names) in names
    assert nearest("gpu-0", names) is not None
    assert nearest("other", names) is None
    assert nearest("gpu-1", []) is None


@each(
    "resource, amount, is_asked, is_offered",
    {
        "GPUs": ("nvidia.com/gpu", 8, "8 nvidia.com/gpu", "8"),
        "cores": ("cpu", 96000, "96 cpu", "96"),
        "parts of cores": ("cpu", 95950, "95.95 cpu", "95.95"),
        "a millicore": ("cpu", 1, "0.001 cpu", "0.001"),
        "a size with a unit": ("memory", 64 * 2**30, "64Gi of memory", "64Gi"),
        "a size in larger units": ("memory", 2**40, "1Ti of memory", "1Ti"),
        "a size as kubelets have it": ("memory", 65_425_132 * 1024, "62.4Gi of memory", "62.3Gi"),
        "a byte more": ("memory", 2**30 + 1, "1.1Gi of memory", "1Gi"),
        "few bytes": ("memory", 1000, "1000 of memory", "1000"),
        "the largest size": ("memory", 2**63 - 1, "8Ei of memory", "7.9Ei"),
        "huge pages": ("hugepages-2Mi", 2**30, "1Gi of hugepages-2Mi", "1Gi"),
        "a disk": ("ephemeral-storage", 10**12, "931.4Gi of ephemeral-storage", "931.3Gi"),
    },
)
def test_more_is_asked_than_is_offered_also_after_rounding(resource, amount, is_asked, is_offered):
    assert (asked(resource, amount), offered(resource, amount)) == (is_asked, is_offered)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], "none"),
        (["a"], "a"),
        (["a", ""], 'a and ""'),
        (["a", "b", "c"], "a, b and c"),
        (["a", "b", "c", "d"], "a, b, c and 1 more"),
        (["x" * 100], "x" * 77 + "..."),
    ],
    ids=repr,
)
def test_a_list_is_short(values, expected):
    assert few(values) == expected


def test_a_long_text_is_cut():
    assert cut("abcdef", 5) == "ab..."
    assert cut("abcde", 5) == "abcde"
