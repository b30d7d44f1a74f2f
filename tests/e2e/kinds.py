"""Kinds of custom resources that make pods, on a real API server: definitions that take everything."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import quick_yaml
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually

FILE = Path(__file__).parent / "crds" / "workloads.yaml"


@dataclass(frozen=True)
class CustomKind:
    """One kind, and the path of its objects on the API server."""

    api_version: str
    kind: str
    plural: str
    is_namespaced: bool

    @classmethod
    def of(cls, definition: dict[str, Any]) -> "CustomKind":
        """The kind that a CustomResourceDefinition defines, in its only version."""
        spec = definition["spec"]
        (version,) = spec["versions"]
        names = spec["names"]
        return cls(f"{spec['group']}/{version['name']}", names["kind"], names["plural"], spec["scope"] == "Namespaced")

    def path(self, namespace: str, name: str = "") -> str:
        """The path of its objects, or of one of them."""
        place = f"/namespaces/{namespace}" if self.is_namespaced else ""
        return f"/apis/{self.api_version}{place}/{self.plural}{name and '/'}{name}"


DEFINITIONS = quick_yaml.load_all(FILE.read_text())
KINDS = tuple(CustomKind.of(definition) for definition in DEFINITIONS)


@contextmanager
def defined_kinds(plane: ControlPlane) -> Iterator[None]:
    """The API server knows all of them while the block runs."""
    plane.kubectl("apply", "-f", str(FILE))
    try:
        for kind in KINDS:
            eventually(lambda kind=kind: plane.raw("GET", kind.path("default"))[0] == 200)
        yield
    finally:
        plane.kubectl("delete", "-f", str(FILE), "--wait=false")
        await_absence(plane, [kind.path("default") for kind in KINDS])


def await_absence(plane: ControlPlane, paths: Iterable[str]) -> None:
    """Wait until kinds whose objects had these paths are gone for whoever looks, discovery included."""
    for path in paths:
        eventually(lambda path=path: plane.raw("GET", path)[0] == 404)
        group = path.split("/")[2]
        eventually(lambda group=group: group not in _groups(plane))


def _groups(plane: ControlPlane) -> set[str]:
    return {group["name"] for group in plane.raw("GET", "/apis")[1]["groups"]}
