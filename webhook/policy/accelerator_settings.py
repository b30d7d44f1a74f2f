"""Names of GPUs that only the platform knows, as `_default.yaml` declares them for all namespaces.

The API server has to send pods that request these GPUs, and there is one webhook configuration for all namespaces.
"""

import re
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from webhook.model.accelerators import BUILT_IN, DEVICE_CLASSES, GPU_ATTRIBUTES, Accelerators, Declared, Share, Vendor
from webhook.model.globs import is_glob
from webhook.model.shape import spelled
from webhook.yaml_files.camel_model import CamelModel

MOST_DECLARED = 64
"""Names that may be declared. The API server compares each of them with every resource of a pod."""
_DOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9*?]([A-Za-z0-9*?._-]*[A-Za-z0-9*?])?", re.ASCII)
_LONGEST_DOMAIN, _LONGEST_NAME = 253, 63
_NATIVE = "kubernetes.io"


def _resource_name(value: str) -> str:
    domain, _, name = value.partition("/")
    if not _DOMAIN.fullmatch(domain) or not _NAME.fullmatch(name) or len(domain) > _LONGEST_DOMAIN:
        raise ValueError(
            f"{spelled(value)} cannot be the name of a resource; write a domain, a slash and a name of letters, digits "
            "and inner - _ ., which may hold * and ?, such as example.com/vgpu-*"
        )
    if len(name) > _LONGEST_NAME:
        raise ValueError(
            f"{spelled(value)} is too long; no name of a resource has more than {_LONGEST_NAME} characters"
        )
    if f".{domain}".endswith(f".{_NATIVE}") and not value.startswith(DEVICE_CLASSES):
        raise ValueError(f"{spelled(value)} is a name of Kubernetes itself; no GPU has it")
    if value in GPU_ATTRIBUTES:
        raise ValueError(f"{spelled(value)} is a share of a GPU, counted in its own unit, and no GPU; remove the entry")
    return value


class DeclaredSettings(CamelModel):
    """Names of one kind of GPUs."""

    name: Annotated[str, AfterValidator(_resource_name), Field(examples=["example.com/vgpu"])]
    """Name of the resource, or a glob of names in one domain: `*` stands for any text, `?` for one character. Resources
    that are known to be GPUs keep their meaning even if the glob matches them."""
    gpu: bool = True
    """`false` says that the devices of a device class (`deviceclass.resource.kubernetes.io/...`) are no GPUs. No other
    name needs it, since names that are not declared are no GPUs."""
    vendor: Vendor | None = None
    """Who made the GPUs: `nvidia`, `amd`, `intel`, or `other`. The limit of a model in a quota counts only GPUs of the
    model's vendor. Required, unless `gpu` is false."""
    share: Share = Share.WHOLE
    """What one unit gives: a `whole` GPU, a GPU that is `shared` with others at the same time, a `slice` of a GPU, a
    GPU that goes to a virtual machine (`passthrough`), or all GPUs of the `node`. What a unit weighs in a quota is set
    in `weights` of the quota, and is 1 otherwise."""
    dra: bool = False
    """Whether a DRA driver gives it, by the `extendedResourceName` of a DeviceClass: then no node lists it, and pods
    that request it get no RuntimeClass and no environment variables. Always true of a device class."""

    @model_validator(mode="after")
    def _says_something(self) -> "DeclaredSettings":
        if not self.gpu and not self.name.startswith(DEVICE_CLASSES):
            raise ValueError(
                f"{self.name} is no device class, so it is no GPU unless it is declared as one; remove the entry"
            )
        if not self.gpu and self.model_fields_set & {"vendor", "share", "dra"}:
            raise ValueError(f"{self.name} is no GPU, so it has no vendor, share or dra; keep name and gpu")
        if self.gpu and self.vendor is None:
            raise ValueError(f"{self.name} has no vendor; write vendor: and one of {', '.join(Vendor)}")
        known = None if is_glob(self.name) else BUILT_IN.of(self.name)
        if known is not None:
            raise ValueError(f"{self.name} is already known as GPUs of {known.vendor}, {known.share}; remove the entry")
        return self

    @property
    def declared(self) -> Declared:
        """The names as a value, for reading pods."""
        return Declared(self.name, self.vendor or Vendor.OTHER, self.share if self.gpu else None, self.dra)


class AcceleratorSettings(CamelModel):
    """Names of GPUs in addition to the built-in ones."""

    extra: Annotated[tuple[DeclaredSettings, ...], Field(max_length=MOST_DECLARED)]
    """Resource names of GPUs that are not built in, such as those of vGPU plugins and the `extendedResourceName` of a
    DeviceClass. They are GPUs for every rule, quota and report. `accelerators.extra` of the chart has to name them,
    too, so that pods which request them are sent to the webhook."""

    @property
    def accelerators(self) -> Accelerators:
        """All names of GPUs. Without declared names this is one object for all policies."""
        return Accelerators(tuple(one.declared for one in self.extra)) if self.extra else BUILT_IN
