"""Packed results are read unchanged and fit, and other content does no harm."""

import contextlib
import gzip
import random
import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.images.replicas import config
from tests.strategies import checked, examples
from webhook.images.cache import MOST_REFERENCES, NEVER, LookupResult
from webhook.images.packing import MOST_PACKED, MOST_UNPACKED, Content, pack, unpack
from webhook.model.image import ImageConfig
from webhook.model.shape import FormatError

HEADER = ["gpu-policy-images 1", True]
ENV: Any = [0, {"CUDA_VERSION": "12.4.1"}]
DIGEST = "sha256:" + "ab" * 32

some_checked = settings(checked, max_examples=examples(50))
"""For many results at a time, which take long to draw."""

references = st.builds(
    "registry.example{}/{}:{}".format,
    st.sampled_from(["", ":5000"]),
    st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}){0,2}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9]{1,12}", fullmatch=True),
)
digests = st.binary(min_size=32, max_size=32).map(lambda data: f"sha256:{data.hex()}")
texts = st.text(max_size=40).filter(lambda text: text.isascii())
environments = st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=80), max_size=4)
configs = st.builds(
    ImageConfig, digests, environments, st.lists(st.sampled_from(["amd64", "arm64"]), max_size=3).map(tuple)
)
times = st.integers(0, 2**33).map(float)
answers = st.builds(LookupResult, times, st.just(NEVER), configs)
problems = st.builds(LookupResult, times, st.integers(0, 3600).map(float), problem=st.just("it is not there"))
results = st.dictionaries(references, st.one_of(answers, problems), max_size=20)


def lines(*found: object) -> bytes:
    return gzip.compress(b"\n".join(orjson.dumps(one) for one in found))


def many(count: int, size: int, variables: int = 1) -> dict[str, LookupResult]:
    """Images with distinct environments, whose variables have this many characters."""
    draw = random.Random(1)  # noqa: S311  # no secret
    return {
        f"docker.io/some/image:{number}": LookupResult(
            float(number),
            NEVER,
            ImageConfig(
                f"sha256:{draw.randbytes(32).hex()}", {f"V{v}": str(number).zfill(size) for v in range(variables)}
            ),
        )
        for number in range(count)
    }


@some_checked
@given(results)
def test_packed_results_are_read_unchanged(given_results: dict[str, LookupResult]) -> None:
    assert unpack(pack(given_results)) == Content(given_results)


@some_checked
@given(results)
def test_the_order_of_results_does_not_matter(given_results: dict[str, LookupResult]) -> None:
    assert pack(given_results) == pack(dict(reversed(given_results.items())))


def test_ten_thousand_images_of_a_cluster_fit() -> None:
    draw = random.Random(1)  # noqa: S311  # no secret
    found = {
        f"registry.corp.example/machine-learning/team-{number % 500}/trainer:2026.07.{number:05d}-cuda": LookupResult(
            1.8e9 + number,
            NEVER,
            ImageConfig(f"sha256:{draw.randbytes(32).hex()}", {"CUDA_VERSION": f"12.{number % 60}"}, ("amd64",)),
        )
        for number in range(MOST_REFERENCES)
    }
    packed = pack(found)
    assert len(packed) <= MOST_PACKED
    assert len(unpack(packed).results) > 0.9 * MOST_REFERENCES


@pytest.mark.parametrize(
    ("found", "most"),
    [
        pytest.param(many(2_000, 40), 50_000, id="packed"),
        pytest.param(many(4_000, 1_400), MOST_PACKED, id="unpacked"),
        pytest.param(many(3_000, 4, variables=40), MOST_PACKED, id="texts"),
    ],
)
def test_the_oldest_results_are_left_out_if_they_do_not_fit(found: dict[str, LookupResult], most: int) -> None:
    packed = pack(found, most)
    content = unpack(packed)
    left = content.results
    assert len(packed) <= most
    assert (content.is_complete, content.invalid_lines) == (False, 0)
    assert 0 < len(left) < len(found)
    assert left == dict(list(found.items())[-len(left) :])


def test_problems_are_left_out_before_configurations() -> None:
    found = {f"docker.io/a/b:{number}": LookupResult(9e9, 60.0, problem=f"{number * 7919}") for number in range(1000)}
    found["docker.io/library/old:1"] = LookupResult(1.0, NEVER, config("old"))
    left = unpack(pack(found, most=2000)).results
    assert "docker.io/library/old:1" in left
    assert 1 < len(left) < 1000


def test_unwritable_results_are_left_out() -> None:
    found = {
        "docker.io/library/a:1": LookupResult(1.0, NEVER, ImageConfig(DIGEST, {"V": "\ud800"})),
        "docker.io/library/b:1": LookupResult(1.0, 60.0, problem="two\nlines"),
        "docker.io/library/c:1": LookupResult(1.0, NEVER, config("c")),
    }
    sound = {"docker.io/library/c:1": found["docker.io/library/c:1"]}
    assert unpack(pack(found)) == Content(sound, is_complete=False)


# What others may have written


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"hello", id="a text"),
        pytest.param(b"\x1f\x8b" + b"\0" * 100, id="nearly compressed"),
        pytest.param(pack({})[:-4], id="cut off"),
        pytest.param(gzip.compress(b""), id="no line"),
        pytest.param(lines(["gpu-policy-images 2", True]), id="another version"),
        pytest.param(lines([1, 2, 3]), id="no header"),
        pytest.param(gzip.compress(b"0" * (MOST_UNPACKED + 1)), id="a bomb"),
        pytest.param(b"0" * (2 * MOST_PACKED + 1), id="too large"),
        pytest.param(gzip.compress(b"[" * 100_000), id="deeply nested"),
        pytest.param(gzip.compress(b'"' * 1_000_000), id="many texts"),
    ],
)
def test_other_content_is_refused(content: bytes) -> None:
    with pytest.raises(FormatError):
        unpack(content)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(["docker.io/library/a:1", 1, DIGEST, ["amd64"], 7], id="an environment that is not there"),
        pytest.param(["docker.io/library/a:1", 1, DIGEST, ["amd64"], -1], id="an environment before the first"),
        pytest.param(["docker.io/library/a:1", 1, "sha256:", ["amd64"], 0], id="half a digest"),
        pytest.param(["docker.io/library/a:1", 1, DIGEST + "\n", ["amd64"], 0], id="a digest of two lines"),
        pytest.param(["docker.io/library/a:1", 1, DIGEST * 9, ["amd64"], 0], id="a long digest"),
        pytest.param(["docker.io/library/a:1", 1, DIGEST, ["amd64"] * 99, 0], id="many architectures"),
        pytest.param(["docker.io/library/a:1", 1, DIGEST, ["a\u0000b"], 0], id="an odd architecture"),
        pytest.param(["docker.io/library/a:1", 1, DIGEST, "amd64", 0], id="an architecture that is no list"),
        pytest.param(["docker.io/library/a:1", "1", DIGEST, ["amd64"], 0], id="a time that is a text"),
        pytest.param(["docker.io/library/a:1", 1.5, DIGEST, ["amd64"], 0], id="a time between two seconds"),
        pytest.param(["a:1", 1, DIGEST, ["amd64"], 0], id="a reference that is not spelled out"),
        pytest.param(["Docker.IO/library/a:1", 1, DIGEST, ["amd64"], 0], id="a reference in another spelling"),
        pytest.param(["docker.io/library/A:1", 1, DIGEST, ["amd64"], 0], id="no reference"),
        pytest.param(["x" * 5000, 1, DIGEST, ["amd64"], 0], id="a long reference"),
        pytest.param(["docker.io/library/a:1", 1, -1, "gone"], id="patience below zero"),
        pytest.param(["docker.io/library/a:1", 1, 10**9, "gone"], id="patience for ever"),
        pytest.param(["docker.io/library/a:1", 1, 60, ""], id="a problem without words"),
        pytest.param(["docker.io/library/a:1", 1, 60, "a\nb"], id="a problem of two lines"),
        pytest.param(["docker.io/library/a:1", 1, 60, "x" * 10_000], id="a long problem"),
        pytest.param([0, {"V": 1}], id="a variable that is a number"),
        pytest.param([0, {"V": "x" * 20_000}], id="a large environment"),
        pytest.param([], id="an empty list"),
        pytest.param({}, id="an empty map"),
        pytest.param(None, id="nothing"),
        pytest.param("x" * 200_000, id="a long line"),
    ],
)
def test_an_invalid_line_is_skipped_and_counted(line: object) -> None:
    good = ["docker.io/library/good:1", 5, DIGEST, ["amd64"], 0]
    sound = {"docker.io/library/good:1": LookupResult(5.0, NEVER, ImageConfig(DIGEST, ENV[1], ("amd64",)))}
    assert unpack(lines(HEADER, ENV, line, good)) == Content(sound, invalid_lines=1)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("\n", id="empty lines"),
        pytest.param("ab\n", id="short lines"),
        pytest.param("[" + "[]," * 40_000 + "[]]\n", id="lists in lists"),
        pytest.param('[0,{"a":"b","c":"d","e":"f"}]\n', id="small environments"),
    ],
)
def test_no_content_takes_much_memory_while_it_is_read(line: str) -> None:
    """A replica has 256 MiB; the content has been unpacked from a few KiB to 4 MiB by then."""
    text = (orjson.dumps(HEADER).decode() + "\n" + line * (3_900_000 // len(line))).encode()
    packed = gzip.compress(text)
    tracemalloc.start()
    with contextlib.suppress(FormatError):
        unpack(packed)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * 2**20


def test_excess_lines_are_not_read() -> None:
    text = b"\n".join([orjson.dumps(HEADER), *[b"0"] * 50_000])
    assert unpack(gzip.compress(text)) == Content({}, invalid_lines=50_000)


@checked
@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_format_error(content: bytes) -> None:
    for packed in (content, gzip.compress(content), gzip.compress(orjson.dumps(HEADER) + b"\n" + content)):
        try:
            unpack(packed)
        except FormatError as error:
            assert str(error)  # noqa: PT017  # both outcomes are right; it must be one of them
