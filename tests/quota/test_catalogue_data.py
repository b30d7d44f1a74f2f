"""The tables of models and labels go together."""

import pytest

from webhook.model.globs import is_glob
from webhook.quota.gpu_catalogue import CATALOGUE
from webhook.quota.models import MODELS, NAMES
from webhook.quota.product_labels import CLOSED, IN_WORDS, VALUES, models_at

EXAMPLES = [model for model in MODELS if model.example is not None]


@pytest.mark.parametrize("model", EXAMPLES, ids=lambda model: model.name)
def test_the_label_that_stands_for_a_model_says_that_model_and_no_other(model):
    assert model.example is not None
    assert models_at(*model.example) == {model.name}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_a_model_is_said_by_its_words_and_one_of_its_marks(model):
    mark = min(model.marks) if model.marks else ""
    assert models_at("gpu-type", "-".join([*sorted(model.words), mark]).strip("-")) == {model.name}


def test_a_name_is_of_one_model_or_of_one_family():
    names = [model.name for model in MODELS]
    assert len(set(names)) == len(names)
    assert all(model.name in NAMES[model.family] for model in MODELS)
    assert set(names).isdisjoint({model.family for model in MODELS if model.family != model.name})
    assert set(CATALOGUE.names) == set(NAMES)
    assert all(CATALOGUE.vendor(name) is not None for name in names)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value.key} {value.pattern}")
def test_a_value_means_a_known_model(value):
    assert value.model in NAMES
    written = value.pattern.replace("*", "")
    assert not is_glob(written)
    found = models_at(value.key, value.pattern.replace("*", "0"))
    assert found == NAMES[value.model]


def test_no_two_rows_have_one_pattern_on_a_label():
    rows = [(value.key, value.pattern) for value in VALUES]
    assert len(set(rows)) == len(rows)


def test_labels_that_always_name_the_gpu_are_read_by_words():
    assert CLOSED <= IN_WORDS
