"""Settings that map globs, whose characters mean much in YAML and in Kubernetes, from the file to the documents."""

from collections.abc import Mapping
from typing import Annotated

import pytest
import yaml
from pydantic import AfterValidator, Field

from tests.golden import each
from webhook.policy.loader import load
from webhook.policy.show import explain
from webhook.rules.rule import Rule
from webhook.rules.rule_settings import RuleSettings
from webhook.yaml_files.file_errors import FileErrors


def _word(value: str) -> str:
    if " " in value:
        raise ValueError(f'"{value}" is not a word')
    return value


class ByGlob(RuleSettings):
    """Settings with a map from globs of images to versions."""

    images: Mapping[Annotated[str, Field(min_length=1, max_length=64)], Annotated[str, AfterValidator(_word)]] = Field(
        default_factory=dict
    )
    """Versions by glob."""


BY_GLOB = Rule(key="byGlob", promise="A map of globs.", settings=ByGlob)


def test_a_map_of_globs_is_merged_key_by_key_and_every_key_keeps_its_characters(policies, monkeypatch) -> None:
    policies.policy("_default", 'byGlob: {mode: warn, images: {registry.corp:5000/ml/*:*-cu124: "12.4", "*": none}}')
    policies.policy("team-a", 'byGlob: {images: {"*": "12.8", "*/a.b/?@sha256:*": "13.0"}}')
    loaded = load(policies.path, [BY_GLOB])
    (bound,) = loaded.for_namespace("team-a").rules
    images = {"registry.corp:5000/ml/*:*-cu124": "12.4", "*": "12.8", "*/a.b/?@sha256:*": "13.0"}
    assert bound.settings.images == images
    monkeypatch.setattr("webhook.policy.show.RULES", (BY_GLOB,))
    shown = explain(loaded, "team-a")
    assert yaml.safe_load(shown)["spec"]["rules"]["byGlob"]["images"] == images
    policies.write("team-a.yaml", shown)
    assert load(policies.path, [BY_GLOB]).for_namespace("team-a").rules[0].settings == bound.settings


@each(
    "images, expected",
    {
        "a float": ("r.corp/ml/*:*-cu124: 12.4", ".r.corp/ml/*:*-cu124: 12.4 is a number; put it in quotes"),
        "a whole number": ('"*": 12', ".*: 12 is a number; put it in quotes"),
        "a boolean": ("a/b:1: no", ".a/b:1: no is a boolean in YAML; put it in quotes"),
        "nothing": ("a/b: ", ".a/b: is empty; write a value, or remove the line to inherit it from _default.yaml"),
        "a list": ("a/b: [x]", ".a/b: found a list; write a string"),
        "what a check refuses": ("a/b: a b", '.a/b: "a b" is not a word'),
        "an empty glob": ('"": x', ".: not allowed as a key here; keys have at least 1 character"),
        "a long glob": (f"{'a' * 65}: x", f".{'a' * 65}: not allowed as a key here; keys have at most 64 characters"),
        "a number as a glob": ("7: x", ".7: the key 7 is a number in YAML; put it in quotes"),
    },
)
def test_a_fault_in_a_map_of_globs_names_the_glob(policies, images, expected) -> None:
    policies.policy("_default", "byGlob: {mode: warn}")
    policies.policy("team-a", f"byGlob: {{images: {{{images}}}}}")
    with pytest.raises(FileErrors) as caught:
        load(policies.path, [BY_GLOB])
    assert [f"{policies.path}/team-a.yaml:6: spec.rules.byGlob.images{expected}"] == str(caught.value).splitlines()
