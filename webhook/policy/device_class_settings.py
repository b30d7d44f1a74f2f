"""What the devices of DeviceClasses are, as policies declare it for their quotas: a GPU model, and a weight."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import model_validator

from webhook.quota.quotas import CLASSES_CONTEXT, DeclaredClass
from webhook.rules.names import ModelName, Weight
from webhook.yaml_files.camel_model import CamelModel
from webhook.yaml_files.yaml_lines import YamlNode


class DeclaredClassSettings(CamelModel):
    """What one device of a DeviceClass counts in quotas."""

    model: ModelName | None = None
    """The GPU model of the devices, such as `H100`: a name that `byModel` of a quota may have. Unset: the model that a
    selector of the claim names as productName, or else any."""
    weight: Weight | None = None
    """How many GPUs one device counts as, as a whole number or a fraction in quotes: `"1/7"` for a class of small MIG
    devices. Unset: 1."""

    @model_validator(mode="after")
    def _says_something(self) -> "DeclaredClassSettings":
        if self.model is None and self.weight is None:
            raise ValueError("says nothing; write model, weight, or both")
        return self

    @property
    def declared(self) -> DeclaredClass:
        """The settings as a value, for counting."""
        return DeclaredClass(self.model, self.weight)


class DeclaredClasses:
    """The DeviceClasses that a file declares, and those of the file that it is merged over."""

    def __init__(
        self, settings: Mapping[str, DeclaredClassSettings] | None = None, nodes: Mapping[str, YamlNode] | None = None
    ) -> None:
        self._settings = dict(settings or {})
        self._nodes = {name: node for name, node in (nodes or {}).items() if name in self._settings}

    def over(self, base: "DeclaredClasses") -> "DeclaredClasses":
        """These classes, and those of another file that are not among them."""
        return DeclaredClasses({**base._settings, **self._settings}, {**base._nodes, **self._nodes})

    def __bool__(self) -> bool:
        return bool(self._settings)

    @property
    def written(self) -> dict[str, Any]:
        """The classes as a file has them."""
        return {
            name: settings.model_dump(mode="json", by_alias=True, exclude_none=True)
            for name, settings in sorted(self._settings.items())
        }

    @property
    def text(self) -> str:
        """A text that is equal for equal classes; empty for none."""
        return json.dumps(self.written) if self._settings else ""

    @property
    def context(self) -> dict[str, Any]:
        """The part of the context with which settings of quotas are validated."""
        return {CLASSES_CONTEXT: {name: settings.declared for name, settings in self._settings.items()}}

    @property
    def models(self) -> list[tuple[str, str, YamlNode | None]]:
        """Class, model and place of each class with a model."""
        return [
            (name, settings.model, self._nodes.get(name))
            for name, settings in self._settings.items()
            if settings.model is not None
        ]
