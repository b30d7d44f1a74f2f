"""Packed results are read unchanged and fit, and other content does no harm."""

import gzip
import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.images.replicas import config
from tests.strategies import checked, examples
from webhook.images.cache import MOST_REFERENCES, NEVER, LookupResult
from webhook.images.packing import MOST_PACKED, MOST_UNPACKED, Content, pack, unpack
from webhook.model.image import ImageConfig
from webhook.model.shape import FormatError

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
    assert not content.is_complete
    assert 0 < len(left) < len(found)
    assert left == dict(list(found.items())[-len(left) :])


def test_problems_are_left_out_before_configurations() -> None:
    found = {f"docker.io/a/b:{number}": LookupResult(9e9, 60.0, problem=f"{number * 7919}") for number in range(1000)}
    found["docker.io/library/old:1"] = LookupResult(1.0, NEVER, config("old"))
    left = unpack(pack(found, most=2000)).results
    assert "docker.io/library/old:1" in left
    assert 1 < len(left) < 1000


# What others may have written


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"hello", id="a text"),
        pytest.param(b"\x1f\x8b" + b"\0" * 100, id="nearly compressed"),
        pytest.param(pack({})[:-4], id="cut off"),
        pytest.param(gzip.compress(b""), id="compressed nothing"),
        pytest.param(gzip.compress(b"[1, 2]"), id="a list"),
        pytest.param(gzip.compress(b'{"results": {}}'), id="a map without its keys"),
        pytest.param(
            gzip.compress(b'{"isComplete": true, "environments": [], "results": {"a": [1, "d", [], 0]}}'),
            id="an environment that is not there",
        ),
        pytest.param(gzip.compress(b"0" * (MOST_UNPACKED + 1)), id="a bomb"),
        pytest.param(gzip.compress(b"[" * 100_000), id="deeply nested"),
    ],
)
def test_other_content_is_refused(content: bytes) -> None:
    with pytest.raises(FormatError):
        unpack(content)


def test_no_images_take_much_memory_while_they_are_read() -> None:
    """Tenants choose images and their variables; a replica has 256 MiB."""
    packed = pack(many(MOST_REFERENCES, 1, variables=100))
    tracemalloc.start()
    assert unpack(packed).results
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * 2**20


@checked
@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_format_error(content: bytes) -> None:
    for packed in (content, gzip.compress(content)):
        try:
            unpack(packed)
        except FormatError as error:
            assert str(error)  # noqa: PT017  # both outcomes are right; it must be one of them
