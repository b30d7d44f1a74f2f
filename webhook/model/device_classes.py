"""DeviceClasses (DRA): the extended resource that a class gives, and the devices that it selects, as far as certain.

CEL selectors are never evaluated. Of classes only one shape is read, in which drivers of GPUs write them, with any
further conditions after it:

    device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'

Every condition and every further selector narrows the class. So the class has no other devices than those, however
many conditions nobody reads. Of classes and requests the product is read, too, where one part of a conjunction compares
`productName`, which NVIDIA's and AMD's drivers have, with a text.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from webhook.model.json_parts import listed, mapped, part
from webhook.model.resource_slices import GPU_DRIVERS, NVIDIA

_IN_CONTAINERS = frozenset({"gpu", "mig"})
"""Types of devices of NVIDIA's driver that containers use."""
_LONGEST_KEPT = 2048
"""Most characters of an expression about products; tenants write it in claims, and answers are kept."""
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
    selected = (_selected(part(one, "cel", "expression")) for one in listed(spec, "selectors"))
    driver, kind = max(selected, default=("", ""), key=lambda found: (bool(found[0]), bool(found[1])))
    product = product_of(listed(spec, "selectors"))
    return name, DeviceClass(resource if isinstance(resource, str) else "", driver, kind, product)


def _selected(expression: object) -> tuple[str, str]:
    """The driver and the type of all devices that a selector may select; empty where they are not certain.

    `||` and `?` bind less tightly than `&&`, so nothing is certain of an expression that has one of them anywhere.

    >>> _selected("device.driver == 'gpu.amd.com'"), _selected("device.driver == 'gpu.amd.com' || true")
    (('gpu.amd.com', ''), ('', ''))
    """
    if not isinstance(expression, str) or "||" in expression or "?" in expression:
        return "", ""
    found = _DRIVER.fullmatch(expression)
    if found is None or found[2] not in GPU_DRIVERS:
        return "", ""
    of_type = _TYPE.fullmatch(found[3] or "")
    return found[2], of_type[4] if of_type is not None and of_type[2] == found[2] else ""


_COMPARED = re.compile(
    r"""device\.attributes\[(?:"[a-z0-9.-]+"|'[a-z0-9.-]+')\]\.productName\s*==\s*(?:"([^"\\]{1,64})"|'([^'\\]{1,64})')"""
)
_TEXT = re.compile(r"""(?:"[^"\n]*"|'[^'\n]*')""")


def product_of(selectors: Iterable[object]) -> str:
    """The product that all devices of a request have; empty where the selectors leave it open."""
    for selector in selectors:
        expression = part(selector, "cel", "expression")
        if isinstance(expression, str) and len(expression) <= _LONGEST_KEPT and (found := _product(expression)):
            return found
    return ""


@lru_cache(maxsize=1024)
def _product(expression: str) -> str:
    for one in _conjunction(expression):
        compared = _COMPARED.fullmatch(one.strip())
        if compared is not None:
            return compared.group(1) or compared.group(2)
    return ""


def _conjunction(expression: str) -> Iterator[str]:
    """The parts of an expression that all have to be true; nothing where it is no plain conjunction."""
    if "\\" in expression or '"""' in expression or "'''" in expression:
        return  # where such texts end would need all of the grammar
    bare = _TEXT.sub(lambda text: "_" * len(text.group()), expression)  # operators in texts are none
    if any(sign in bare for sign in ("||", "?", "//", '"', "'")):
        return
    depth = start = 0
    for at, sign in enumerate(bare):
        depth += (sign in "([{") - (sign in ")]}")
        if not depth and bare.startswith("&&", at):
            yield expression[start:at]
            start = at + 2
    if not depth:
        yield expression[start:]
