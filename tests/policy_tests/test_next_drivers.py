"""A test of policies says at which time it is judged, so that it shows an upgrade of drivers before the day."""

from pathlib import Path
from typing import Any

import pytest

from tests.policy_tests.files import case, pod, results, suite, write

POLICIES = {
    "_default.yaml": {
        "spec": {
            "nodePools": [
                {
                    "name": "training",
                    "labels": {"pool": "training"},
                    "driver": "535.183.01",
                    "product": "Tesla-V100-SXM2-16GB",
                    "gpus": 8,
                    "next": {"driver": "590.44.01", "from": "2026-12-01"},
                }
            ],
            "rules": {"cudaDriver": {"mode": "enforce"}},
        }
    }
}
RUNS_BEFORE = pod(1, image="nvidia/cuda:12.2.0-base-ubuntu22.04")
WARNED: dict[str, Any] = {"warned": [{"rule": "cudaDriver"}], "allowed": True}
REFUSED: dict[str, Any] = {"refused": [{"rule": "cudaDriver"}]}


@pytest.mark.parametrize(
    ("at", "met", "unmet"),
    [
        pytest.param("2026-11-30T23:59:59Z", WARNED, REFUSED, id="a second before"),
        pytest.param("2026-12-01T00:00:00Z", REFUSED, WARNED, id="from that day on"),
    ],
)
def test_a_case_sees_the_driver_of_its_time(tmp_path: Path, at: str, met: Any, unmet: Any) -> None:
    cases = [case([RUNS_BEFORE], expect, name, at=at) for name, expect in (("met", met), ("unmet", unmet))]
    found = results(write(tmp_path / "next.yaml", suite(*cases, policies=POLICIES)))
    assert [(one.case.settings.name, one.passed) for one in found.cases] == [("met", True), ("unmet", False)]
