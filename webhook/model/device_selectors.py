"""What the selectors of a device request say for certain about the product of the devices.

Selectors are CEL, which is not evaluated here. Only one thing is read: a selector that is a conjunction, and compares
`productName` with a text in one of its parts, as in `device.attributes["gpu.nvidia.com"].productName == "NVIDIA L4"`.
Whatever else the selectors say makes the choice of devices only smaller.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/ and the attributes of
NVIDIA's and AMD's DRA drivers, which both have a `productName`.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from webhook.model.json_parts import part

_LONGEST = 2048
"""Most characters of an expression that is read."""
_MOST = 32
"""Most selectors of a request; the API server allows no more."""
_COMPARED = re.compile(
    r"""device\.attributes\[(?:"[a-z0-9.-]+"|'[a-z0-9.-]+')\]\.productName\s*==\s*(?:"([^"\\]{1,64})"|'([^'\\]{1,64})')"""
)
_TEXT = re.compile(r"""(?:"[^"\n]*"|'[^'\n]*')""")


def product_of(selectors: Iterable[object]) -> str:
    """The product that all devices of a request have; empty where the selectors leave it open."""
    for selector in list(selectors)[:_MOST]:
        expression = part(selector, "cel", "expression")
        if isinstance(expression, str) and len(expression) <= _LONGEST and (found := _product(expression)):
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
