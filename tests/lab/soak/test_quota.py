"""Ten storms over quotas of every kind, on three replicas that are killed and of which one hears late of every pod."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.gpu_nodes import add_node, change, remove_node
from tests.e2e.installation import Installation
from tests.e2e.load_balancer import HAPROXY
from tests.e2e.quota_cases import CASES, POLICIES, T4, Case, Contest, Sort
from tests.e2e.quota_race import Race
from tests.e2e.quota_site import QuotaSite, quota_policy
from tests.gpus.discovered_labels import discovered

IN_FLIGHT, PATIENCE = 15, 10
"""Seconds after which replicas take out entries without a pod, and after which the API server gives a create up. That
the first are not 90 is honest here because the second are not 60: each create says so in its query."""
ROUNDS, PODS = 10, 400
STORMY = [case for case in CASES if case.prefix != "sevenths"]
"""Slices are among them in a mixture; those of one size alone are in tests/e2e."""
LATE = 30.0
"""Seconds that one replica hears of pods late, at most."""


PRODUCT = "nvidia.com/gpu.product"


NODES = {
    "storm-whole": discovered("NVIDIA-H200", 8, "1", "none"),
    "storm-quarters": discovered("NVIDIA-L4-SHARED", 2, "4", "time-slicing"),
    "storm-slices": discovered("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 8, "1", "none", "single"),
}
WHOLE, QUARTERS, SLICES = ({PRODUCT: labels[PRODUCT]} for labels in NODES.values())
NODES |= {"storm-h100": discovered("NVIDIA-H100-80GB-HBM3", 8, "1", "none"), "storm-t4": {**T4}}
"""Pods that select no model could land on all of them, and count as each model with a limit."""
PARTS = {WHOLE[PRODUCT]: Fraction(1), QUARTERS[PRODUCT]: Fraction(1, 4), SLICES[PRODUCT]: Fraction(1, 7)}


def _in_parts(raw: Mapping[str, Any]) -> Fraction:
    (container,) = raw["spec"]["containers"]
    return PARTS[raw["spec"]["nodeSelector"][PRODUCT]] * int(container["resources"]["limits"]["nvidia.com/gpu"])


SHARES = Case(
    "shares",
    "{mode: enforce, gpus: 37}",
    [
        Sort(count=2, selector=QUARTERS),
        Sort(count=6, selector=QUARTERS),
        Sort(count=4, selector=SLICES),
        Sort(selector=WHOLE),
        Sort(count=2, selector=WHOLE),
    ],
    {"gpus": Fraction(37)},
    {"gpus": _in_parts},
)
"""Units of one name that are whole GPUs, quarters or sevenths, by the nodes that their pods select."""


@contextmanager
def _nodes(plane: ControlPlane) -> Iterator[None]:
    try:
        for name, labels in NODES.items():
            add_node(plane, name, labels)
            change(plane, name, {"spec": {"unschedulable": True}})  # a bound pod counts as the model of its node alone
        yield
    finally:
        for name in NODES:
            remove_node(plane, name)


@pytest.mark.skipif(HAPROXY is None, reason="no haproxy here; Debian's package is haproxy")
def test_ten_storms_never_pass_a_quota_and_each_fills_it(
    installation: Installation, make_namespace: Callable[[str], str], tmp_path: Path
) -> None:
    """400 pods for each quota of 37 from 64 threads, again and again in the same namespaces: never more than 37 at any
    instant, 37 in the end, and then the ledger has the pods that the API server has, uid for uid.
    """
    policies = POLICIES | {"shares.yaml": quota_policy("shares", SHARES.policy)}
    with (
        _nodes(installation.plane),
        QuotaSite(installation, tmp_path, policies, in_flight_seconds=IN_FLIGHT, proxied=1) as site,
    ):
        site.proxies[0].watch_delay = LATE
        with Race(site, [Contest(case, make_namespace) for case in (*STORMY, SHARES)], patience=PATIENCE) as race:
            for _ in range(ROUNDS):
                race.round(PODS, kills=2, deletions=20)
        print("\n".join(race.said))
