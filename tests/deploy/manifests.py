"""What is deployed, as objects: install.yaml as it is shipped, and the chart as helm renders it."""

import json
import pickle
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pytest

from deploy.generate import INSTALL, RELEASE, find_helm, render
from tests import quick_yaml

Raw = dict[str, Any]

needs_helm = pytest.mark.skipif(find_helm() is None, reason="no helm command here; the variable HELM may name one")

NEWEST = "1.36.0"


class Objects(list[Raw]):
    """Objects of one installation, in the order in which they are applied."""

    @classmethod
    def read(cls, text: str) -> "Objects":
        """The documents of a YAML text, without the empty ones."""
        return cls(document for document in quick_yaml.load_all(text) if document)

    def of(self, kind: str) -> list[Raw]:
        """Every object of a kind."""
        return [document for document in self if document["kind"] == kind]

    def one(self, kind: str, name: str = "") -> Raw:
        """The only object of a kind, or the one of that name."""
        (found,) = [one for one in self.of(kind) if name in {"", one["metadata"]["name"]}]
        return found

    @property
    def configurations(self) -> list[Raw]:
        """Both webhook configurations."""
        return [document for document in self if document["kind"].endswith("WebhookConfiguration")]

    @property
    def entries(self) -> list[Raw]:
        """The webhooks of both configurations."""
        return [entry for configuration in self.configurations for entry in configuration["webhooks"]]

    @property
    def about_pods(self) -> list[Raw]:
        """The webhooks about pods and workloads."""
        others = ("policies.gpupolicy.dev", "claims.gpupolicy.dev", "drivers.gpupolicy.dev")
        return [entry for entry in self.entries if entry["name"] not in others]

    @property
    def about_policies(self) -> Raw:
        """The webhook that is about policies."""
        (entry,) = [entry for entry in self.entries if entry["name"] == "policies.gpupolicy.dev"]
        return entry

    @property
    def pod(self) -> Raw:
        """The pod spec of the Deployment."""
        spec: Raw = self.one("Deployment")["spec"]["template"]["spec"]
        return spec

    @property
    def container(self) -> Raw:
        """Its one container."""
        (container,) = self.pod["containers"]
        found: Raw = container
        return found

    @property
    def options(self) -> list[tuple[str, str]]:
        """The options that the container is started with."""
        return [(name, value) for name, _, value in (text.partition("=") for text in self.container["args"][1:])]


def shipped() -> Objects:
    """The objects of deploy/install.yaml."""
    return Objects.read(INSTALL.read_text())


def rendered(
    values: Mapping[str, Any] | None = None, *apis: str, version: str = NEWEST, namespace: str = RELEASE
) -> Objects:
    """The objects of the chart with these values, for a cluster of that version that has these further APIs."""
    objects: Objects = pickle.loads(_objects(json.dumps(values or {}), apis, version, namespace))  # noqa: S301  # ours
    return objects


def rendered_text(
    values: Mapping[str, Any] | None = None, *apis: str, version: str = NEWEST, namespace: str = RELEASE
) -> str:
    """The same as helm prints it, asked once."""
    return _rendered(json.dumps(values or {}), apis, version, namespace)


@lru_cache(maxsize=400)
def _objects(values: str, apis: tuple[str, ...], version: str, namespace: str) -> bytes:
    """Pickled, so that each test has objects of its own, in a tenth of the time that YAML takes."""
    return pickle.dumps(Objects.read(_rendered(values, apis, version, namespace)))


@lru_cache(maxsize=400)
def _rendered(values: str, apis: tuple[str, ...], version: str, namespace: str) -> str:
    arguments = [f"--kube-version={version}", *(f"--api-versions={api}" for api in apis)]
    return render(json.loads(values), *arguments, namespace=namespace)
