"""What was packed is unpacked, and never more of it than it may be."""

import gzip
import zlib

import pytest

from webhook.model.gzipped import unzipped


@pytest.mark.parametrize("size", [pytest.param(0, id="nothing"), pytest.param(1000, id="as large as it may be")])
def test_what_fits_is_unpacked(size):
    assert unzipped(gzip.compress(b"x" * size), 1000) == b"x" * size


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(gzip.compress(b"x" * 1001), id="a byte too large"),
        pytest.param(gzip.compress(b"x" * 10**8), id="a bomb"),
        pytest.param(gzip.compress(bytes(range(256)))[:-9], id="cut off"),
    ],
)
def test_what_is_too_large_or_cut_off_is_said(packed):
    with pytest.raises(ValueError, match="it is cut off, or larger than 1000 bytes when unpacked"):
        unzipped(packed, 1000)


def test_what_is_no_gzip_is_an_error_of_its_own():
    with pytest.raises(zlib.error):
        unzipped(b"hello", 1000)
