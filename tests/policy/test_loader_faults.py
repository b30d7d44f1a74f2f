"""Every mistake in a policy is told with file, line, key, fault and remedy."""

from typing import Annotated

import pytest
from pydantic import AfterValidator, Field, model_validator

from tests.golden import golden
from webhook.policy.loader import load
from webhook.rules.rule import Rule
from webhook.rules.rule_settings import RuleSettings
from webhook.yaml_files.file_errors import FileErrors


def _not_odd(value: int) -> int:
    if value % 2:
        raise ValueError(f"{value} is odd; write an even number")
    return value


def _word(value: str) -> str:
    if " " in value:
        raise ValueError(f'"{value}" is not a word')
    return value


class Sample(RuleSettings):
    """Settings with checks of their own."""

    even: Annotated[int, AfterValidator(_not_odd)] = 2
    """An even number."""
    word: Annotated[str, AfterValidator(_word), Field(min_length=1, pattern="^[a-z ]*$", examples=["bee"])] = "a"
    """A word."""
    words: dict[Annotated[str, AfterValidator(_word)], str] = Field(default_factory=dict)
    """Texts by word."""

    @model_validator(mode="after")
    def _is_consistent(self) -> "Sample":
        if self.word == "two" and self.even != 2:
            raise ValueError("word two needs even: 2")
        return self


@golden
def test_what_a_rule_checks_itself_is_told_in_its_words(policies, settings, expected) -> None:
    body = settings if settings.startswith("{") else f"{{{settings}}}"
    policies.policy("_default", "sample: {mode: warn}")
    policies.policy("team-a", f"sample: {body}")
    with pytest.raises(FileErrors) as caught:
        load(policies.path, [Rule(key="sample", promise="A sample.", settings=Sample)])
    assert [f"{policies.path}/team-a.yaml:6: spec.rules.sample{expected}"] == str(caught.value).splitlines()


def test_the_default_may_not_choose_namespaces(policies) -> None:
    policies.policy("_default", namespaces="[a]")
    assert policies.errors() == [
        "_default.yaml:5: spec.namespaces: _default.yaml applies to every namespace; remove the key"
    ]


def test_a_file_whose_name_cannot_be_a_namespace_is_refused(policies) -> None:
    policies.policy("Team_A")
    (error,) = policies.errors()
    assert error.startswith('Team_A.yaml:3: metadata.name: "Team_A" cannot be a namespace')
