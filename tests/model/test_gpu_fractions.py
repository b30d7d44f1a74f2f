"""What annotations of KAI and Run:ai, and attributes of GPUs for HAMi, ask for."""

from fractions import Fraction
from typing import Any

import pytest

from tests.build import container, pod
from tests.golden import each
from webhook.model.gpu_fractions import fraction_faults, with_fractions
from webhook.model.pod_reader import pod_from_raw

GPU = "nvidia.com/gpu"
KEY, MEMORY, DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"


def annotated(*pairs: Any, gpus: int = 0, **spec: Any) -> dict[str, Any]:
    """A pod of the containers c0 and c1 with annotations, given as keys and values in turn."""
    return pod(gpus, 0, spec=spec, annotations=dict(zip(pairs[::2], pairs[1::2], strict=True)))


@each(
    "pairs, devices, part, mib",
    {
        "half": ((KEY, "0.5"), 1, "1/2", 0),
        "rounded up": ((KEY, "0.3333333333"), 1, "333333334/1000000000", 0),
        "with an exponent": ((KEY, "2.5e-1"), 1, "1/4", 0),
        "as Go reads it": ((KEY, "+.25"), 1, "1/4", 0),
        "of several": ((KEY, "0.5", DEVICES, "8"), 8, "1/2", 0),
        "memory": ((MEMORY, "8192"), 1, "0", 8192),
        "memory of several": ((MEMORY, "8192", DEVICES, "2"), 2, "0", 8192),
        "an empty one is none": ((KEY, "", MEMORY, "8192"), 1, "0", 8192),
    },
)
def test_annotations_ask_for_a_part_of_gpus(pairs, devices, part, mib) -> None:
    (found,) = pod_from_raw(annotated(*pairs)).fractions
    assert (found.devices, found.part, found.mib, found.container) == (devices, Fraction(part), mib, 0)
    assert list(fraction_faults(pod_from_raw(annotated(*pairs)))) == []


BETWEEN, MIB, WHOLE = "a number above 0 and below 1", "a whole number of MiB above 0", "a whole number above 0"


@pytest.mark.parametrize(
    ("pairs", "key", "found", "allowed"),
    [
        *[
            pytest.param((KEY, value), KEY, f'is "{value}"', BETWEEN, id=f"{KEY} {value}")
            for value in ("x", "0", "1", "1.5", "-1", "NaN", "Inf", "1e400", " 0.5", "0x1p-1", "0_5", "500m")
        ],
        pytest.param((KEY, "9" * 401), KEY, f'is "{"9" * 57}..."', BETWEEN, id="10^401"),
        pytest.param((KEY, 0.5), KEY, "is 0.5, which is no text", BETWEEN, id="without quotes"),
        *[
            pytest.param((MEMORY, value), MEMORY, f'is "{value}"', MIB, id=f"{MEMORY} {value}")
            for value in ("abc", "0", "-1", "8Gi", "1e3")
        ],
        *[
            pytest.param((KEY, "0.5", DEVICES, value), DEVICES, f'is "{value}"', WHOLE, id=f"{DEVICES} {value}")
            for value in ("0", "-1", "two", "1.5")
        ],
        pytest.param((KEY, "0.5", MEMORY, "8192"), MEMORY, f"stands beside {KEY}", "exactly one", id="both"),
        pytest.param((DEVICES, "2"), DEVICES, f"stands without {KEY}", "exactly one", id="neither"),
    ],
)
def test_what_kai_does_not_read_is_told_and_counts_as_a_whole_gpu(pairs, key, found, allowed) -> None:
    read = pod_from_raw(annotated(*pairs))
    (fault,) = fraction_faults(read)
    assert fault.where == f"metadata.annotations[{key}]"
    assert fault.found.startswith(found)
    assert allowed in fault.allowed
    if pairs[0] != DEVICES and DEVICES not in pairs:
        assert [(one.devices, one.part, one.mib) for one in read.fractions] == [(1, 1, 0)]


@each(
    "raw",
    {
        "no such annotation": annotated("team", "a"),
        "whole GPUs beside it, which KAI refuses together": annotated(KEY, "x", gpus=1),
        "empty": annotated(DEVICES, ""),
    },
)
def test_other_pods_ask_for_nothing(raw: dict[str, Any]) -> None:
    read = pod_from_raw(raw)
    assert (read.fractions, list(fraction_faults(read)), with_fractions(read)) == ((), [], read)


@pytest.mark.parametrize(("name", "at"), [(None, "c0"), ("c1", "c1"), ("first", "first"), ("nobody", "c0")])
def test_one_container_gets_the_gpus(name: str | None, at: str) -> None:
    raw = annotated(KEY, "0.5", DEVICES, "2", initContainers=[container("first")])
    raw["metadata"]["annotations"] |= {} if name is None else {"gpu-fraction-container-name": name}
    plain = pod_from_raw(raw)
    seen = with_fractions(plain)
    assert (dict(plain.gpus), dict(seen.gpus)) == ({}, {GPU: 2})
    assert [one.name for one in seen.containers if one.gpu_count] == [at]
    assert with_fractions(seen) is seen


@each(
    "attributes, spec, expected",
    {
        "memory": ({"gpumem": 8192}, {}, (2, 0, 8192)),
        "memory and cores": ({"gpumem": 8192, "gpucores": 30}, {}, (2, "3/10", 8192)),
        "a percentage": ({"gpumem-percentage": 25}, {}, (2, "1/4", 0)),
        "more cores than memory": ({"gpumem-percentage": 25, "gpucores": 50}, {}, (2, "1/2", 0)),
        "all cores": ({"gpumem": 8192, "gpucores": 100}, {}, None),
        "all memory": ({"gpucores": 30}, {}, None),
        "0 is all memory": ({"gpumem": 0}, {}, None),
        "without a scheduler": ({"gpumem": 1}, {"nodeName": "n1"}, None),
        "GPUs at another time": ({"gpumem": 1}, {"initContainers": [container("i", limits={GPU: 1})]}, None),
    },
)
def test_attributes_of_hami_make_parts_of_the_requested_units(attributes, spec, expected) -> None:
    limits = {GPU: 2, **{f"nvidia.com/{name}": amount for name, amount in attributes.items()}}
    found = pod_from_raw(pod(container(limits=limits), spec=spec)).fractions
    assert [(one.devices, one.part, one.mib) for one in found] == (
        [] if expected is None else [(expected[0], Fraction(expected[1]), expected[2])]
    )
