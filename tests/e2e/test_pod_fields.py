"""The lists and maps that the growth test makes long are all that a real API server knows."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.lab.growth.schema import LIST, MAP, collections

pytestmark = pytest.mark.e2e

_ROOTS = {"metadata": "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "spec": "io.k8s.api.core.v1.PodSpec"}


def test_the_growth_test_misses_no_list_and_no_map_of_a_pod(control_plane: ControlPlane) -> None:
    status, document = control_plane.raw("GET", "/openapi/v3/api/v1")
    assert status == 200
    schemas = document["components"]["schemas"]
    served = {path for root, name in _ROOTS.items() for path in _below(schemas, schemas[name], root, (name,))}
    assert len(served) > 150
    assert served - {place.path for place in collections()} == set()


def _below(schemas: Mapping[str, Any], schema: Mapping[str, Any], path: str, above: tuple[str, ...]) -> Iterator[str]:
    """The lists and maps in a schema, as paths."""
    for name in _names(schema):
        if name not in above:
            yield from _below(schemas, schemas[name], path, (*above, name))
    if "items" in schema:
        yield path + LIST
        yield from _below(schemas, schema["items"], path + LIST, above)
    if isinstance(schema.get("additionalProperties"), dict):
        yield path + MAP
        yield from _below(schemas, schema["additionalProperties"], path + MAP, above)
    for key, part in schema.get("properties", {}).items():
        yield from _below(schemas, part, f"{path}.{key}", above)


def _names(schema: Mapping[str, Any]) -> list[str]:
    """The schemas that one refers to."""
    references = [schema, *schema.get("allOf", ())]
    return [one["$ref"].rpartition("/")[2] for one in references if "$ref" in one]
