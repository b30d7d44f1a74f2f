"""A registration that several tests share: an API server takes its time to compile the conditions of a new one."""

from typing import Any

from tests.e2e.eventually import eventually
from tests.e2e.installation import Installation


class Registration:
    """Left, nothing is registered. `extra_rules` are added to those of the entry for workloads."""

    def __init__(self, installation: Installation, *extra_rules: dict[str, Any]) -> None:
        self._installation = installation
        self._extra_rules = extra_rules
        self._versions: list[str] = []

    def __enter__(self) -> "Registration":
        return self

    def __exit__(self, *_: object) -> None:
        self._installation.unregister()

    def restore(self) -> None:
        """Register, unless everything is as this left it; return when the API server asks."""
        if self._versions and self._versions == self._installation.registered_versions():
            return
        self._installation.unregister()
        configurations = self._installation.configurations()
        for entry in configurations[-1]["webhooks"]:
            if entry["name"] == "workloads.gpupolicy.dev":
                entry["rules"] += self._extra_rules
        self._installation.apply(configurations)
        eventually(self._installation.is_asked)
        self._versions = self._installation.registered_versions()
