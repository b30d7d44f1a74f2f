"""Whatever happens in a cluster, and however many events are lost: the pods that count are live in the cache."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.clock import Clock
from tests.facts.asking import is_gone, is_live
from tests.facts.pod_samples import AT_SECONDS, deleted, live, stored, uid
from tests.strategies import examples
from webhook.ledger.pod_cache import PodCache


class Cluster(RuleBasedStateMachine):
    """A cluster whose changes are reported as events, or lost until the next list."""

    @initialize()
    def begin(self) -> None:
        self.clock = Clock(AT_SECONDS)
        self.heard = PodCache(self.clock, self.clock)
        self.pods: dict[str, dict[str, Any]] = {}
        self.number = 0
        self.left: set[str] = set()

    def _tell(self, event: str, raw: dict[str, Any], *, heard: bool) -> None:
        if heard:
            self.heard.change(event, raw)
        else:
            self.heard.replace(list(self.pods.values()))

    @rule(namespace=st.sampled_from(["x", "y"]), heard=st.booleans(), gpus=st.integers(0, 2))
    def create(self, namespace: str, heard: bool, gpus: int) -> None:
        self.number += 1
        name = f"pod-{self.number}"
        self.pods[name] = stored(name, namespace, gpus=gpus)
        self._tell("ADDED", self.pods[name], heard=heard)

    @rule(data=st.data(), heard=st.booleans())
    def delete(self, data: st.DataObject, heard: bool) -> None:
        if self.pods:
            name = data.draw(st.sampled_from(sorted(self.pods)))
            raw = self.pods.pop(name)
            self.left.add(name)
            self._tell("DELETED", raw, heard=heard)

    @rule(data=st.data(), heard=st.booleans(), phase=st.sampled_from(["Running", "Failed"]))
    def change(self, data: st.DataObject, heard: bool, phase: str) -> None:
        if self.pods:
            name = data.draw(st.sampled_from(sorted(self.pods)))
            self.pods[name] = {**self.pods[name], "status": {"phase": phase}}
            self._tell("MODIFIED", self.pods[name], heard=heard)

    @rule(data=st.data(), heard=st.booleans(), ahead=st.integers(-5, 20))
    def begin_deletion(self, data: st.DataObject, heard: bool, ahead: int) -> None:
        if self.pods:
            name = data.draw(st.sampled_from(sorted(self.pods)))
            at = f"2026-03-01T12:00:{int(self.clock.now - AT_SECONDS) % 60:02d}Z"
            self.pods[name] = deleted(self.pods[name], at, ahead)
            self._tell("MODIFIED", self.pods[name], heard=heard)

    @rule(seconds=st.integers(1, 9))
    def wait(self, seconds: int) -> None:
        self.clock.now = min(self.clock.now + seconds, AT_SECONDS + 59)

    @invariant()
    def what_counts_is_what_is_live(self) -> None:
        counting = {name for name, raw in self.pods.items() if self._counts(raw)}
        assert counting == live(self.heard)
        for name in self.pods.keys() | self.left:
            assert (name in counting) == is_live(self.heard, uid(name))
            assert not (name in counting and is_gone(self.heard, uid(name)))
        for namespace in ("x", "y"):
            expected = {name for name in counting if self.pods[name]["metadata"]["namespace"] == namespace}
            assert expected == live(self.heard, namespace)

    def _counts(self, raw: dict[str, Any]) -> bool:
        metadata = raw["metadata"]
        if (
            raw["status"]["phase"] == "Failed"
            or raw["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "0"
        ):
            return False
        if "deletionTimestamp" not in metadata:
            return True
        seconds = int(metadata["deletionTimestamp"][-3:-1]) + metadata["deletionGracePeriodSeconds"]
        return self.clock.now - AT_SECONDS <= seconds


Cluster.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30)
TestCluster = Cluster.TestCase
