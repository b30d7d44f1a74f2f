"""The base of settings, and of every part of a policy file."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class CamelModel(BaseModel):
    """A part of a file: keys are written in camelCase, and unknown ones are errors.

    The docstring below a field is its description in the JSON Schema.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )
