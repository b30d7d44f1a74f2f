"""The base of settings, and of every part of a policy file, and the checks that many settings share.

What a check raises is a ValueError, whose text is the message about the value.
"""

import re
from collections.abc import Callable
from typing import Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from webhook.model.shape import spelled


class CamelModel(BaseModel):
    """A part of a file: keys are written in camelCase, and unknown ones are errors.

    The docstring below a field is its description in the JSON Schema.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )


def not_empty(fault: str, schema_key: str = "minItems") -> tuple[AfterValidator, Any]:
    """The annotations of a list, or with `minProperties` of a map, that has at least one entry."""

    def check(value: Any) -> Any:
        if not value:
            raise ValueError(fault)
        return value

    return AfterValidator(check), Field(json_schema_extra={schema_key: 1})


def matching(pattern: str, fault: str) -> Callable[[str], str]:
    """A check that a text matches a pattern as a whole. The message is the text and `fault`."""
    form = re.compile(pattern)

    def check(value: str) -> str:
        if not form.fullmatch(value):
            raise ValueError(f"{spelled(value)} {fault}")
        return value

    return check


def readable(read: Callable[[str], object]) -> Callable[[str], str]:
    """A check that `read` raises nothing. The text stays as it is."""
    return lambda value: (read(value), value)[1]
