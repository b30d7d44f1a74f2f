"""Kinds of custom resources that make pods, on a real API server: definitions that take everything."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

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


DEFINITIONS = list(yaml.safe_load_all(FILE.read_text()))
KINDS = tuple(CustomKind.of(definition) for definition in DEFINITIONS)


def define_kinds(plane: ControlPlane) -> None:
    """Have the API server know all of them, from now on."""
    plane.kubectl("apply", "-f", str(FILE))
    for kind in KINDS:
        eventually(lambda kind=kind: plane.raw("GET", kind.path("default"))[0] == 200)
