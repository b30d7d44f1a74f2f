"""GPU models that resource claims (DRA) select by `productName`, and that pods may certainly not use."""

from collections.abc import Iterator

from webhook.gpus.gpu_kinds import Unit, UsableGpus
from webhook.model.accelerators import DEVICE_CLASSES
from webhook.model.claims import TOO_LARGE, DeviceRequest, Requests
from webhook.rules.usable_gpus import Usable


def barred_models(requests: Requests, usable: Usable) -> Iterator[str]:
    """What people call the models that a claim selects and that may not be used.

    A request counts if each of its alternatives selects such a model. One with `adminAccess` reserves no device.
    """
    gpus = _by_models(usable.gpus)
    if not gpus or requests == TOO_LARGE:
        return
    for request in requests:
        names = [_barred(request, at, gpus, usable) for at in range(len(request))]
        if names and all(names):
            yield " or ".join(dict.fromkeys(names))


def _barred(request: DeviceRequest, at: int, gpus: UsableGpus, usable: Usable) -> str:
    """The name of the model that an alternative selects; empty if it may be used, or that is not certain."""
    devices = request[at]
    models = frozenset(usable.catalogue.models_of_product(devices.product) or ()) if devices.product else frozenset()
    if not models or devices.is_administrative:
        return ""
    bar = gpus.bar(Unit(DEVICE_CLASSES + devices.device_class, None, models))
    return (usable.catalogue.called(models) or devices.product) if bar is not None else ""


def _by_models(gpus: UsableGpus) -> UsableGpus:
    """What is said of models alone: devices of claims have no resource names, and selectors do not say the profile."""
    allowed = gpus.allowed
    if allowed is not None and any(kind.glob or kind.profile for kind in allowed):
        allowed = None
    return UsableGpus(allowed, tuple([kind for kind in gpus.denied if not kind.glob and not kind.profile]))
