"""The base of settings, and of every part of a policy file."""

import ast
import inspect
import textwrap
from contextlib import suppress
from itertools import pairwise

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class CamelModel(BaseModel):
    """A part of a file: keys are written in camelCase, and unknown ones are errors.

    The docstring below a field is its description in the JSON Schema.
    """

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The JSON Schema with the descriptions of its fields.

        Pydantic would read them when it makes the class (`use_attribute_docstrings`). That is a fifth of the start of
        every process, and only a schema needs them.
        """
        schema = handler(core_schema)
        parts = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in _field_docstrings(cls).items():
            if (field := cls.model_fields.get(name)) is not None:
                parts[field.alias or name].setdefault("description", text)
        return schema


def _field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The docstrings below the fields of a model and of those that it extends, by name of the field.

    Empty where Python has no source, as in a program that is packed without it.
    """
    found: dict[str, str] = {}
    with suppress(OSError):
        for one in model.__mro__:
            if issubclass(one, CamelModel):
                (definition,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
                for field, below in pairwise(getattr(definition, "body", ())):
                    if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and _text(below):
                        found.setdefault(field.target.id, _text(below))
    return found


def _text(statement: ast.stmt) -> str:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return inspect.cleandoc(value.value) if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
