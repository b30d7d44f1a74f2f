"""Names of GPUs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import checked
from webhook.gpus.gpu_names import CLOSED, IN_WORDS, base_name, is_virtual, with_parts, with_series, words_in


@pytest.mark.parametrize(
    ("product", "name"),
    [
        pytest.param("Tesla-T4", "Tesla-T4", id="nothing appended"),
        pytest.param("Tesla-T4-SHARED", "Tesla-T4", id="shared"),
        pytest.param("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "NVIDIA-A100-SXM4-40GB", id="a slice"),
        pytest.param("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED", "NVIDIA-A100-SXM4-40GB", id="a shared slice"),
        pytest.param("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me", "NVIDIA-H100-80GB-HBM3", id="a slice with media engines"),
        pytest.param("NVIDIA-H100-80GB-HBM3-MIG-INVALID", "NVIDIA-H100-80GB-HBM3", id="slices at odds"),
        pytest.param("-MIG-1g.5gb", "-MIG-1g.5gb", id="nothing before it"),
    ],
)
def test_suffixes_of_sharing_and_mig_are_not_part_of_the_name(product, name):
    assert base_name(product) == name


@checked
@given(st.text(max_size=300))
def test_the_base_name_is_a_prefix(text):
    assert text.startswith(base_name(text))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("NVIDIA-A100-SXM4-40GB", "nvidia a100 sxm4 40gb", id="hyphens"),
        pytest.param("A100_NVLINK_80GB", "a100 nvlink 80gb", id="underscores"),
        pytest.param("AMD_Instinct_MI250X_/_MI250", "amd instinct mi250x mi250", id="two names"),
        pytest.param("GeForce RTX\u00a04090", "geforce rtx 4090", id="spaces of any kind"),
    ],
)
def test_a_name_is_read_word_by_word(name, words):
    assert words_in(name) - {""} == set(words.split())


@pytest.mark.parametrize(
    ("word", "series"),
    [
        pytest.param("4090", "40xx", id="four digits"),
        pytest.param("980", "9xx", id="three digits"),
        pytest.param("a6000", "a####", id="a letter"),
        pytest.param("t400", "t###", id="a letter and three digits"),
        pytest.param("a40", None, id="two digits are a model"),
        pytest.param("mi300", None, id="two letters are, too"),
        pytest.param("4090d", None, id="a number with more behind it"),
    ],
)
def test_a_number_is_of_a_series(word, series):
    assert with_series(frozenset({word})) == {word, series} - {None}


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        pytest.param("rtx4090", {"rtx", "4090"}, id="brand and number"),
        pytest.param("rtxa6000", {"rtx", "a6000"}, id="brand, letter and number"),
        pytest.param("quadrortx", set(), id="two brands"),
        pytest.param("a100d", {"a100"}, id="a variant"),
        pytest.param("h100xm", {"h100"}, id="a variant of two letters"),
        pytest.param("rtx4090d", {"rtx", "4090d", "4090"}, id="both"),
        pytest.param("a10g", set(), id="a word that is known is no variant"),
    ],
)
def test_a_word_may_mean_its_parts(word, parts):
    assert with_parts(frozenset({word}), {"a10g"}) - {word} - {"rtx4090"} == parts


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("GRID-T4-16Q", True, id="GRID"),
        pytest.param("GRID T4", True, id="GRID without a profile"),
        pytest.param("NVIDIA-A10-24Q", True, id="a profile"),
        pytest.param("NVIDIA-A100-1-5C", True, id="a profile of a slice"),
        pytest.param("NVIDIA-RTX-6000-Ada", False, id="none"),
        pytest.param("NVIDIA-A100-SXM4-40GB", False, id="memory is no profile"),
    ],
)
def test_virtual_gpus_are_known_by_their_names(name, expected):
    assert is_virtual(name) is expected


def test_labels_that_always_name_the_gpu_are_read_by_words():
    assert CLOSED <= IN_WORDS
