"""A policy that changes again and again, reaching each replica when its own kubelet gets there."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.e2e.eventually import eventually
from tests.e2e.steady_load import Create
from tests.lab.soak.site import SECONDS, Site

RELOADS = 10
OUT_OF_STEP = SECONDS / 3
"""Seconds between the first replica that gets a change and the last one."""
NOTICED = 4.0
"""Seconds in which a replica takes up a change that is mounted, with room for a busy machine."""


@dataclass(frozen=True, slots=True)
class Change:
    """The rules of a policy in each of its versions, and how a pod shows that it was completed by one of them."""

    rules: Callable[[int], str]
    shows: Callable[[dict[str, Any], int], bool]


@dataclass(frozen=True, slots=True)
class _Mounted:
    version: int
    since: float


class Rollout:
    """Version 0 is mounted everywhere at once; `run` brings the others."""

    def __init__(self, site: Site, change: Change) -> None:
        self._site = site
        self._change = change
        self._mounted: list[list[_Mounted]] = [[] for _ in site.replicas.running]
        before = set(site.policy_hashes())
        for place in range(len(self._mounted)):
            self._mount(place, 0)
        eventually(lambda: site.agreed_policy() not in (*before, None))

    def run(self) -> None:
        """Bring RELOADS further versions within SECONDS, to each replica later than to the one before it."""
        began = time.monotonic()
        places = range(len(self._mounted))
        pause, lag = (SECONDS - OUT_OF_STEP) / RELOADS, OUT_OF_STEP / (len(places) - 1)
        steps = (
            (version * pause + place * lag, place, version) for version in range(1, RELOADS + 1) for place in places
        )
        for at, place, version in sorted(steps):
            time.sleep(max(0.0, began + at - time.monotonic()))
            self._mount(place, version)

    def missing(self, create: Create) -> list[str]:
        """Nothing where a pod shows one of the versions that were in force while it was created."""
        in_force = self._in_force(create.due, create.ended)
        shown = any(self._change.shows(create.pod["spec"], version) for version in in_force)
        return [] if shown else [f"what versions {sorted(in_force)} inject"]

    def _in_force(self, since: float, until: float) -> set[int]:
        """The versions by which some replica may have decided in a span of time."""
        found = set()
        for history in self._mounted:
            ends = [following.since + NOTICED for following in history[1:]] + [until]
            found |= {
                each.version for each, end in zip(history, ends, strict=True) if each.since <= until and end >= since
            }
        return found

    def _mount(self, place: int, version: int) -> None:
        prefix = self._site.namespace.rpartition("-")[0]
        head = f"apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {{name: {prefix}}}\n"
        text = f'{head}spec:\n  namespaces: ["{prefix}-*"]\n  rules:\n{self._change.rules(version)}'
        self._mounted[place].append(_Mounted(version, time.monotonic()))
        self._site.replicas.running[place].policies.replace({**self._site.policies, f"{prefix}.yaml": text})
