"""Ten storms over quotas of every kind, on three replicas that are killed and of which one hears late of every pod."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.installation import Installation
from tests.e2e.load_balancer import HAPROXY
from tests.e2e.quota_cases import CASES, POLICIES, Contest
from tests.e2e.quota_race import Race
from tests.e2e.quota_site import QuotaSite

IN_FLIGHT, PATIENCE = 15, 10
"""Seconds after which replicas take out entries without a pod, and after which the API server gives a create up. That
the first are not 90 is honest here because the second are not 60: each create says so in its query."""
ROUNDS, PODS = 10, 400
STORMY = [case for case in CASES if case.prefix != "sevenths"]
"""Slices are among them in a mixture; those of one size alone are in tests/e2e."""
LATE = 30.0
"""Seconds that one replica hears of pods late, at most."""


@pytest.mark.skipif(HAPROXY is None, reason="no haproxy here; Debian's package is haproxy")
def test_A11_ten_storms_never_pass_a_quota_and_each_fills_it(
    installation: Installation, make_namespace: Callable[[str], str], tmp_path: Path
) -> None:
    """400 pods for each quota of 37 from 64 threads, again and again in the same namespaces: never more than 37 at any
    instant, 37 in the end, and then the ledger has the pods that the API server has, uid for uid.
    """
    with QuotaSite(installation, tmp_path, POLICIES, in_flight_seconds=IN_FLIGHT, proxied=1) as site:
        site.proxies[0].watch_delay = LATE
        with Race(site, [Contest(case, make_namespace) for case in STORMY], patience=PATIENCE) as race:
            for _ in range(ROUNDS):
                race.round(PODS, kills=2, deletions=20)
        print("\n".join(race.said))
