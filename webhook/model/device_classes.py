"""DeviceClasses (DRA): the extended resource that a class gives, and the devices that it selects, as far as certain.

CEL selectors are never evaluated. Only one shape is read, in which drivers of GPUs write them, with any further
conditions after it:

    device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'

Every condition and every further selector narrows the class. So the class has no other devices than those, however
many conditions nobody reads.
"""

import re
from typing import NamedTuple

from webhook.model.device_selectors import product_of
from webhook.model.json_parts import listed, mapped, part
from webhook.model.resource_slices import GPU_DRIVERS, NVIDIA

_IN_CONTAINERS = frozenset({"gpu", "mig"})
"""Types of devices of NVIDIA's driver that containers use."""
_MOST_SELECTORS = 32
"""Most selectors that are read. The API server allows no more (DeviceSelectorsMaxSize)."""
_LONGEST = 10 * 1024
"""Most characters of a selector. The API server allows no more (CELSelectorExpressionMaxLength)."""
_DRIVER = re.compile(r"""\s*device\.driver\s*==\s*(['"])([a-z0-9.-]{1,63})\1\s*(?:&&(.*))?""", re.DOTALL)
_TYPE = re.compile(
    r"""\s*device\.attributes\[(['"])([a-z0-9.-]{1,63})\1\]\.type\s*==\s*(['"])([A-Za-z0-9-]{1,64})\3\s*(?:&&.*)?""",
    re.DOTALL,
)


class DeviceClass(NamedTuple):
    """What is known of a DeviceClass.

    `extended` is its extended resource, empty where it has none. Its devices are of this `driver` of GPUs and of this
    `type`, and `product`; these are empty where that is not certain.

    Source: `extendedResourceName` of DeviceClassSpec, in all versions of resource.k8s.io that have DeviceClasses of
    Kubernetes 1.34 and newer (KEP-5004).
    """

    extended: str = ""
    driver: str = ""
    type: str = ""
    product: str = ""

    @property
    def is_for_nvidia_containers(self) -> bool:
        return self.driver == NVIDIA and self.type in _IN_CONTAINERS


def device_class_from_raw(raw: object) -> tuple[str, DeviceClass] | None:
    """The name of a DeviceClass, and what is known of the class. None where it has no name."""
    name = part(raw, "metadata", "name")
    if not isinstance(name, str) or not name:
        return None
    spec = mapped(raw, "spec")
    resource = spec.get("extendedResourceName")
    selected = (_selected(part(one, "cel", "expression")) for one in listed(spec, "selectors")[:_MOST_SELECTORS])
    driver, kind = max(selected, default=("", ""), key=lambda found: (bool(found[0]), bool(found[1])))
    product = product_of(listed(spec, "selectors"))
    return name, DeviceClass(resource if isinstance(resource, str) else "", driver, kind, product)


def _selected(expression: object) -> tuple[str, str]:
    """The driver and the type of all devices that a selector may select; empty where they are not certain.

    `||` and `?` bind less tightly than `&&`, so nothing is certain of an expression that has one of them anywhere.

    >>> _selected("device.driver == 'gpu.amd.com'"), _selected("device.driver == 'gpu.amd.com' || true")
    (('gpu.amd.com', ''), ('', ''))
    """
    if not isinstance(expression, str) or len(expression) > _LONGEST or "||" in expression or "?" in expression:
        return "", ""
    found = _DRIVER.fullmatch(expression)
    if found is None or found[2] not in GPU_DRIVERS:
        return "", ""
    of_type = _TYPE.fullmatch(found[3] or "")
    return found[2], of_type[4] if of_type is not None and of_type[2] == found[2] else ""
