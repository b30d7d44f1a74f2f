"""Names of GPUs."""

from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each, golden
from tests.strategies import checked
from webhook.gpus.gpu_names import CLOSED, IN_WORDS, base_name, is_virtual, with_parts, with_series, words_in


@golden
def test_suffixes_of_sharing_and_mig_are_not_part_of_the_name(product, name):
    assert base_name(product) == name


@checked
@given(st.text(max_size=300))
def test_the_base_name_is_a_prefix(text):
    assert text.startswith(base_name(text))


@golden
def test_a_name_is_read_word_by_word(name, words):
    assert words_in(name) - {""} == set(words.split())


@golden
def test_a_number_is_of_a_series(word, series):
    assert with_series(frozenset({word})) == {word, series} - {None}


@each(
    "word, parts",
    {
        "brand and number": ("rtx4090", {"rtx", "4090"}),
        "brand, letter and number": ("rtxa6000", {"rtx", "a6000"}),
        "two brands": ("quadrortx", set()),
        "a variant": ("a100d", {"a100"}),
        "a variant of two letters": ("h100xm", {"h100"}),
        "both": ("rtx4090d", {"rtx", "4090d", "4090"}),
        "a word that is known is no variant": ("a10g", set()),
    },
)
def test_a_word_may_mean_its_parts(word, parts):
    assert with_parts(frozenset({word}), {"a10g"}) - {word} - {"rtx4090"} == parts


@golden
def test_virtual_gpus_are_known_by_their_names(name, expected):
    assert is_virtual(name) is expected


def test_labels_that_always_name_the_gpu_are_read_by_words():
    assert CLOSED <= IN_WORDS
