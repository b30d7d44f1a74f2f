"""What a DeviceClass selects is read from one shape of selectors; everything else is uncertain."""

from typing import Any

import pytest

from tests.facts.samples import device_class
from tests.golden import each
from webhook.model.resource_slices import DeviceClass, device_class_from_raw

NVIDIA = "device.driver == 'gpu.nvidia.com'"
TYPE = "device.attributes['gpu.nvidia.com'].type == 'gpu'"


def read(*selectors: Any) -> DeviceClass:
    raw = device_class("c")
    raw["spec"]["selectors"] = [{"cel": {"expression": one}} for one in selectors]
    found = device_class_from_raw(raw)
    assert found is not None
    return found[1]


@each(
    "selectors, driver, kind",
    {
        "as NVIDIA's chart writes it": ([f"{NVIDIA} && {TYPE}"], "gpu.nvidia.com", "gpu"),
        "as Intel's chart writes it": (['device.driver == "gpu.intel.com"'], "gpu.intel.com", ""),
        "over lines": ([f"\n  {NVIDIA} &&\n  {TYPE}\n"], "gpu.nvidia.com", "gpu"),
        "narrowed further": ([f"{NVIDIA} && {TYPE} && !(a in b)"], "gpu.nvidia.com", "gpu"),
        "several selectors": (["true", f"{NVIDIA} && {TYPE}", NVIDIA], "gpu.nvidia.com", "gpu"),
        "another's type": ([f"{NVIDIA} && {TYPE.replace('.nvidia', '.amd')}"], "gpu.nvidia.com", ""),
        "not of the type": ([f"{NVIDIA} && !({TYPE})"], "gpu.nvidia.com", ""),
        "compared again": ([f"{NVIDIA} && {TYPE} == false"], "gpu.nvidia.com", ""),
        "not of the driver": ([f"{NVIDIA} == false"], "", ""),
        "negated": ([f"!({NVIDIA})"], "", ""),
        "or": ([f"{NVIDIA} || true"], "", ""),
        "either or": ([f"{NVIDIA} && {TYPE} ? false : true"], "", ""),
        "or in another line": ([f"{NVIDIA} && a\n|| true"], "", ""),
        "another driver": (["device.driver == 'gpu.example.com'"], "", ""),
        "no text": ([None, 7, [NVIDIA]], "", ""),
        "none": ([], "", ""),
    },
)
def test_only_what_is_certain_of_a_class_is_known(selectors: Any, driver: str, kind: str) -> None:
    assert read(*selectors) == DeviceClass("", driver, kind)


@pytest.mark.parametrize("spec", [None, [], {"selectors": {}}, {"selectors": [None, {"cel": 7}]}])
def test_malformed_classes_select_nothing_that_is_certain(spec: Any) -> None:
    assert device_class_from_raw({"metadata": {"name": "c"}, "spec": spec}) == ("c", DeviceClass())
