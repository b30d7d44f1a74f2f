"""What selectors in CEL say for certain about the product of devices."""

import pytest

from webhook.model.resource_slices import product_of

L4 = 'device.attributes["gpu.nvidia.com"].productName == "NVIDIA L4"'


def said(*expressions: object) -> str:
    return product_of([{"cel": {"expression": one}} for one in expressions])


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(L4, id="alone"),
        pytest.param(f"{L4} && device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('20Gi')) >= 0", id="and"),
        pytest.param(f"device.driver == 'gpu.nvidia.com' &&\n  {L4}", id="on a line of its own"),
        pytest.param(f"x.exists(y, y && z) && {L4}", id="after what stands in parentheses"),
        pytest.param("device.attributes['gpu.nvidia.com'].productName=='NVIDIA L4'", id="other quotes"),
        pytest.param(f"x == 'a || b' && {L4}", id="an operator in a text"),
    ],
)
def test_a_product_is_read_where_every_device_must_have_it(expression: str) -> None:
    assert said(expression) == "NVIDIA L4"


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(f"{L4} || true", id="or"),
        pytest.param(f"!({L4})", id="not"),
        pytest.param(f"({L4}) == false", id="compared"),
        pytest.param(f"{L4} == false", id="compared without parentheses"),
        pytest.param(f"true ? true : {L4}", id="a condition"),
        pytest.param(f"x == '&& {L4}", id="a text without an end"),
        pytest.param(f"x == r'\\' || true && {L4} && 'a' == r'\\'", id="a raw text"),
        pytest.param(f"'''\n''' == '' && {L4}", id="a text of several lines"),
        pytest.param(f"true // && {L4}\n", id="a comment"),
        pytest.param(f"[true].exists(x, x || ({L4}))", id="an or in parentheses"),
        pytest.param(f"(true) && ({L4}", id="parentheses without an end"),
        pytest.param(L4.replace("==", "!="), id="another"),
        pytest.param(L4.replace("productName", "architecture"), id="another attribute"),
        pytest.param(f"{L4} && {'x' * 3000} == y", id="too long"),
        pytest.param(7, id="no text"),
    ],
)
def test_nothing_is_read_where_other_devices_might_be_meant(expression: object) -> None:
    assert said(expression) == ""


def test_all_selectors_of_a_request_have_to_be_true() -> None:
    assert said("true", L4) == "NVIDIA L4"
    assert product_of([None, {"cel": 7}, {}]) == ""
