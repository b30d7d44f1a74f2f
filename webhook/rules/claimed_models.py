"""GPU models that pods may certainly not use, and that DRA gives them: by what a claim selects, or by its DeviceClass.

A request counts if each of its alternatives gives such models only. An alternative for more devices than any node
offers is none. One with `adminAccess` reserves no device. A claim that is too large to be kept is refused, since it may
be one for such models only.
"""

from collections.abc import Iterator

from webhook.gpus.gpu_kinds import Bar, Unit, UsableGpus
from webhook.gpus.gpu_names import NVIDIA_PRODUCT
from webhook.model.accelerators import DEVICE_CLASSES
from webhook.model.claims import MOST_ALLOCATED, TOO_LARGE, DeviceRequest, Requests
from webhook.model.pod import Pod, changed
from webhook.model.pod_reader import pod_from_raw
from webhook.model.wording import few
from webhook.rules.candidates import released
from webhook.rules.rule import Facts
from webhook.rules.usable_gpus import Misfit, Usable

ANY_POD = pod_from_raw({"spec": {"tolerations": [{"operator": "Exists"}]}})  # could be scheduled to every node


def barred_models(requests: Requests, usable: Usable, facts: Facts, pod: Pod = ANY_POD) -> Iterator[str]:
    """What is wrong with the claim of a pod: it selects, or can give, only models that may not be used."""
    if requests == TOO_LARGE:
        if _by_models(usable.gpus):
            yield "has too many alternatives, so nobody can check which GPUs it gives"
        return
    for request in requests:
        if (found := barred_request(request, usable, facts, pod)) is not None:
            verb = "selects" if all(devices.product for devices in request) else "can give only"
            yield f"{verb} {found.name}"


def barred_request(request: DeviceRequest, usable: Usable, facts: Facts, pod: Pod) -> Misfit | None:
    """The models that a request can give, if none of them may be used; None if one may, or that is not certain."""
    gpus, placed = _by_models(usable.gpus), released(changed(pod, accelerators=()), facts)  # nodes need not list them
    found: dict[str, Bar] = {}
    for devices in request if gpus else ():
        if devices.least > min(facts.most_devices(devices.device_class) or MOST_ALLOCATED, MOST_ALLOCATED):
            continue
        product = "-".join(devices.product.split())
        given = [{NVIDIA_PRODUCT: product}] if product else facts.gpus_given(devices.device_class, placed)
        for labels in given or [{}]:
            models = frozenset() if devices.is_administrative else usable.catalogue.models_at(labels)
            bar = gpus.bar(Unit(DEVICE_CLASSES + devices.device_class, None, models)) if models else None
            if bar is None:
                return None
            found[usable.catalogue.called(models) or few(sorted(models))] = bar
    return Misfit(" or ".join(found), min(found.values())) if found else None


def _by_models(gpus: UsableGpus) -> UsableGpus:
    """What is said of models alone: devices of claims have no resource names. Their profile is open."""
    allowed = None if any(kind.glob for kind in gpus.allowed or ()) else gpus.allowed
    return UsableGpus(allowed, tuple([kind for kind in gpus.denied if not kind.glob]))
