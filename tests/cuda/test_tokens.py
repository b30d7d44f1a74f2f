"""Words in tags and names: every CUDA version is found, and no other number is taken for one."""

from hypothesis import given
from hypothesis import strategies as st

from tests.golden import golden
from tests.strategies import checked
from webhook.cuda.image_reading import words_in


@golden
def test_a_cuda_version_is_found(text, expected):
    assert str(words_in(text).cuda) == expected


@golden
def test_no_cuda_version_is_made_up(text):
    assert words_in(text).cuda is None


@golden
def test_words_tell_cpu_from_gpu(text, has_gpu, has_cpu):
    words = words_in(text)
    assert (words.has_gpu, words.has_cpu) == (has_gpu, has_cpu)


@golden
def test_words_name_other_vendors(text, expected):
    assert words_in(text).platform == expected


@golden
def test_words_name_architectures(text, expected):
    assert words_in(text).architectures == expected


@checked
@given(st.text(max_size=200) | st.text("cuda-_.0123456789gpurocm", max_size=200))
def test_any_text_can_be_read(text):
    words = words_in(text)
    assert words.cuda is None or all(
        words.cuda.parts == version[: len(words.cuda.parts)] or len(version) < len(words.cuda.parts)
        for version in words.versions
    )
