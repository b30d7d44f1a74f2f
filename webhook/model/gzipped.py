"""Unpacking what others may have written: never more than it may be."""

import zlib


def unzipped(packed: bytes, most: int) -> bytes:
    """What was packed by gzip, at most `most` bytes of it.

    Raises ValueError for what is larger or cut off, and zlib.error for what is no gzip.
    """
    unzip = zlib.decompressobj(wbits=31)
    text = unzip.decompress(packed, most)
    if unzip.unconsumed_tail or not unzip.eof:
        raise ValueError(f"it is cut off, or larger than {most} bytes when unpacked")
    return text
