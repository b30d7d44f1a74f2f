"""What a DeviceClass selects is read from one shape of selectors; everything else is uncertain."""

from typing import Any

import pytest

from tests.facts.samples import device_class
from webhook.model.resource_slices import DeviceClass, device_class_from_raw

NVIDIA = "device.driver == 'gpu.nvidia.com'"
TYPE = "device.attributes['gpu.nvidia.com'].type == 'gpu'"


def read(*selectors: Any) -> DeviceClass:
    raw = device_class("c")
    raw["spec"]["selectors"] = [{"cel": {"expression": one}} for one in selectors]
    found = device_class_from_raw(raw)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("selectors", "driver", "kind"),
    [
        pytest.param([f"{NVIDIA} && {TYPE}"], "gpu.nvidia.com", "gpu", id="as NVIDIA's chart writes it"),
        pytest.param(['device.driver == "gpu.intel.com"'], "gpu.intel.com", "", id="as Intel's chart writes it"),
        pytest.param([f"\n  {NVIDIA} &&\n  {TYPE}\n"], "gpu.nvidia.com", "gpu", id="over lines"),
        pytest.param([f"{NVIDIA} && {TYPE} && !(a in b)"], "gpu.nvidia.com", "gpu", id="narrowed further"),
        pytest.param(["true", f"{NVIDIA} && {TYPE}", NVIDIA], "gpu.nvidia.com", "gpu", id="several selectors"),
        pytest.param([f"{NVIDIA} && {TYPE.replace('.nvidia', '.amd')}"], "gpu.nvidia.com", "", id="another's type"),
        pytest.param([f"{NVIDIA} && !({TYPE})"], "gpu.nvidia.com", "", id="not of the type"),
        pytest.param([f"{NVIDIA} && {TYPE} == false"], "gpu.nvidia.com", "", id="compared again"),
        pytest.param([f"{NVIDIA} == false"], "", "", id="not of the driver"),
        pytest.param([f"!({NVIDIA})"], "", "", id="negated"),
        pytest.param([f"{NVIDIA} || true"], "", "", id="or"),
        pytest.param([f"{NVIDIA} && {TYPE} ? false : true"], "", "", id="either or"),
        pytest.param([f"{NVIDIA} && a\n|| true"], "", "", id="or in another line"),
        pytest.param(["device.driver == 'gpu.example.com'"], "", "", id="another driver"),
        pytest.param([None, 7, [NVIDIA]], "", "", id="no text"),
        pytest.param([], "", "", id="none"),
    ],
)
def test_only_what_is_certain_of_a_class_is_known(selectors: Any, driver: str, kind: str) -> None:
    assert read(*selectors) == DeviceClass("", driver, kind)


@pytest.mark.parametrize("spec", [None, [], {"selectors": {}}, {"selectors": [None, {"cel": 7}]}])
def test_malformed_classes_select_nothing_that_is_certain(spec: Any) -> None:
    assert device_class_from_raw({"metadata": {"name": "c"}, "spec": spec}) == ("c", DeviceClass())
