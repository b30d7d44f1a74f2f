"""Custom resource definitions that take any object, as if the operators of these kinds were installed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.kinds import await_absence

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True)
class CustomKind:
    """A kind to define. `resource` is its plural."""

    group: str
    version: str
    kind: str
    resource: str
    scope: str = "Namespaced"

    def definition(self) -> dict[str, Any]:
        """The CustomResourceDefinition, with a schema that keeps every field."""
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version = {"name": self.version, "served": True, "storage": True, "schema": schema}
        names = {"kind": self.kind, "plural": self.resource, "singular": self.kind.lower()}
        spec = {"group": self.group, "scope": self.scope, "names": names, "versions": [version]}
        head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        return {**head, "metadata": {"name": f"{self.resource}.{self.group}"}, "spec": spec}

    def path(self, namespace: str = "") -> str:
        """Where its objects are."""
        place = f"/namespaces/{namespace}" if namespace else ""
        return f"/apis/{self.group}/{self.version}{place}/{self.resource}"

    def made(self, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
        """An object of this kind."""
        head = {"apiVersion": f"{self.group}/{self.version}", "kind": self.kind}
        return {**head, "metadata": {"name": name, **metadata}, "spec": spec}


@contextmanager
def defined(plane: ControlPlane, kinds: Sequence[CustomKind]) -> Iterator[None]:
    """These kinds are served while the block runs; their objects go with them."""
    for kind in kinds:
        status, answer = plane.raw("POST", _DEFINITIONS, kind.definition())
        assert status in (201, 409), answer
    try:
        for kind in kinds:
            eventually(lambda kind=kind: plane.raw("GET", kind.path())[0] == 200)
        yield
    finally:
        for kind in kinds:
            plane.raw("DELETE", f"{_DEFINITIONS}/{kind.resource}.{kind.group}")
        await_absence(plane, [kind.path() for kind in kinds])
