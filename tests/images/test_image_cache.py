"""The cache of images: bounded in number and memory. Environments are shared, and unused results are evicted first."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks import images_memory
from tests.images.replicas import config
from webhook.images.cache import MOST_REFERENCES, ImageCache, LookupResult
from webhook.model.image import ImageConfig


def found(at: float, image: ImageConfig) -> LookupResult:
    return LookupResult(at, 3600.0, image)


def problem(at: float, text: str = "it is not there") -> LookupResult:
    return LookupResult(at, 600.0, problem=text)


def references(cache: ImageCache) -> set[str]:
    return {reference for reference, _ in cache.entries()}


def test_a_reference_has_its_last_result() -> None:
    cache = ImageCache()
    cache.put("a", problem(1.0))
    cache.put("a", found(2.0, config("x")))
    entry = cache.get("a")
    assert entry is not None
    assert entry.info.config == config("x")
    assert (entry.at, entry.due, cache.known, len(cache)) == (2.0, 3602.0, 1, 1)


def test_images_with_equal_environments_share_one_object() -> None:
    cache = ImageCache()
    for name in ("x", "y"):
        cache.put(name, found(1.0, config(name, {"CUDA_VERSION": "12.4" + ".1", "NVIDIA_REQUIRE_CUDA": "cuda>=12.4"})))
    x, y = (entry.info.config for _, entry in cache.entries())
    assert x is not None
    assert y is not None
    assert x.env is y.env
    assert x.digest != y.digest


def test_references_to_one_image_share_its_configuration() -> None:
    cache = ImageCache()
    cache.put("a:1", found(1.0, config("x")))
    cache.put("a:latest", found(2.0, config("x")))
    one, other = (entry.info for _, entry in cache.entries())
    assert one is other
    assert cache.config_of(config("x").digest) == config("x")


def test_another_configuration_under_the_same_digest_is_held_beside_the_first() -> None:
    cache = ImageCache()
    cache.put("a", found(1.0, config("x")))
    cache.put("b", found(2.0, config("x", {"CUDA_VERSION": "99.9"})))
    assert [entry.info.config.env["CUDA_VERSION"] for _, entry in cache.entries() if entry.info.config] == [
        "12.4.1",
        "99.9",
    ]


def test_the_least_recently_used_result_is_evicted_first() -> None:
    cache = ImageCache(most_references=10)
    for number in range(10):
        cache.put(str(number), found(float(number), config(str(number))))
    first = cache.get("0")
    assert first is not None
    first.used = 100.0
    cache.put("new", found(101.0, config("new")))
    assert references(cache) == {"0", "new", *"3456789"}


def test_problems_are_evicted_before_configurations() -> None:
    """Otherwise names of missing images would evict images that exist."""
    cache = ImageCache(most_references=100)
    for number in range(50):
        cache.put(f"answer-{number}", found(0.0, config(str(number))))
    for number in range(1000):
        cache.put(f"problem-{number}", problem(float(number)))
    assert cache.known == 50
    assert len(cache) <= 100


def test_large_environments_evict_others() -> None:
    cache = ImageCache(most_bytes=100_000)
    for number in range(100):
        cache.put(str(number), found(float(number), config(str(number), {"CUDA_VERSION": f"{number}" + "9" * 4096})))
    assert 10 < len(cache) < 25
    assert cache.bytes <= 100_000


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcdef"), st.sampled_from([None, "x", "y", "z"]), st.sampled_from(["1", "2", "3" * 400])
        ),
        max_size=60,
    ),
    st.integers(1, 6),
    st.integers(500, 5_000),
)
def test_bounds_hold_and_evicted_results_are_not_counted(
    puts: list[tuple[str, str | None, str]], most: int, most_bytes: int
) -> None:
    cache = ImageCache(most, most_bytes)
    for at, (reference, image, value) in enumerate(puts):
        result = problem(at) if image is None else found(at, config(image, {"V": value}))
        cache.put(reference, result)
        assert len(cache) <= most
        assert cache.bytes <= most_bytes
        assert cache.known == sum(entry.info.config is not None for _, entry in cache.entries())
    for reference, _ in cache.entries():
        cache.put(reference, problem(1000.0, ""))
    alone = ImageCache(most, most_bytes)
    for reference, _ in cache.entries():
        alone.put(reference, problem(0.0, ""))
    assert cache.bytes == alone.bytes


@pytest.mark.parametrize(
    "mix",
    [
        pytest.param(images_memory.realistic, id="as clusters have them"),
        pytest.param(images_memory.distinct_environments, id="environments of 4 KiB, all different"),
        pytest.param(images_memory.failures, id="failures"),
    ],
)
def test_ten_thousand_references_take_less_than_10_mib(mix: images_memory.Mix) -> None:
    measured = images_memory.measured(mix)
    assert measured.bytes < 10 * 2**20
    assert measured.bytes < measured.estimate
    assert measured.references == MOST_REFERENCES or mix is images_memory.distinct_environments


def test_a_digest_is_found_as_long_as_a_reference_leads_to_it() -> None:
    cache = ImageCache()
    digest = "sha256:" + hashlib.sha256(b"x").hexdigest()
    cache.put("a", found(1.0, ImageConfig(digest)))
    assert cache.config_of(digest) == ImageConfig(digest)
    cache.put("a", found(2.0, config("y")))
    assert cache.config_of(digest) is None
