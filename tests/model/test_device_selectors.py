"""What selectors in CEL say for certain about the product of devices."""

from tests.golden import each
from webhook.model.resource_slices import product_of

L4 = 'device.attributes["gpu.nvidia.com"].productName == "NVIDIA L4"'


def said(*expressions: object) -> str:
    return product_of([{"cel": {"expression": one}} for one in expressions])


@each(
    "expression",
    {
        "alone": L4,
        "and": f"{L4} && device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('20Gi')) >= 0",
        "on a line of its own": f"device.driver == 'gpu.nvidia.com' &&\n  {L4}",
        "after what stands in parentheses": f"x.exists(y, y && z) && {L4}",
        "other quotes": "device.attributes['gpu.nvidia.com'].productName=='NVIDIA L4'",
        "an operator in a text": f"x == 'a || b' && {L4}",
    },
)
def test_a_product_is_read_where_every_device_must_have_it(expression: str) -> None:
    assert said(expression) == "NVIDIA L4"


@each(
    "expression",
    {
        "or": f"{L4} || true",
        "not": f"!({L4})",
        "compared": f"({L4}) == false",
        "compared without parentheses": f"{L4} == false",
        "a condition": f"true ? true : {L4}",
        "a text without an end": f"x == '&& {L4}",
        "a raw text": f"x == r'\\' || true && {L4} && 'a' == r'\\'",
        "a text of several lines": f"'''\n''' == '' && {L4}",
        "a comment": f"true // && {L4}\n",
        "an or in parentheses": f"[true].exists(x, x || ({L4}))",
        "parentheses without an end": f"(true) && ({L4}",
        "another": L4.replace("==", "!="),
        "another attribute": L4.replace("productName", "architecture"),
        "too long": f"{L4} && {'x' * 3000} == y",
        "no text": 7,
    },
)
def test_nothing_is_read_where_other_devices_might_be_meant(expression: object) -> None:
    assert said(expression) == ""


def test_all_selectors_of_a_request_have_to_be_true() -> None:
    assert said("true", L4) == "NVIDIA L4"
    assert product_of([None, {"cel": 7}, {}]) == ""
