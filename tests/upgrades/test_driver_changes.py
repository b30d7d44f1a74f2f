"""What the author of a ClusterPolicy or NVIDIADriver is told: which nodes change, what breaks, what is not known."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.build import policies
from tests.golden import golden
from tests.upgrades.generated import Cluster, cluster
from tests.upgrades.plans import CREATED, DEFAULTS
from tests.upgrades.test_changes import CUDA_12, KINDS, UNKNOWN, nodes, pod
from tests.upgrades.test_plan_and_audit import SEEDS, driver_findings, findings_by_size, selects_drivers, unseen
from webhook.audit.documents import Document
from webhook.facts.facts import ClusterFacts
from webhook.ledger.ledger_store import LedgerError
from webhook.model.shape import ShapeError
from webhook.outcome import Outcome
from webhook.policy.policy_set import PolicySet
from webhook.policy.schema import WorkloadsMode
from webhook.upgrades.driver_changes import DriverJudge

Raw = dict[str, Any]
NOW = CREATED.timestamp()


def nvidia_driver(version: Any, name: str = "d", **spec: Any) -> Raw:
    said = {} if version is None else {"version": version}
    return {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "NVIDIADriver",
        "metadata": {"name": name},
        "spec": said | spec,
    }


def cluster_policy(version: Any = None, **driver: Any) -> Raw:
    spec = {"driver": {"version": version, **driver}}
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": spec,
    }


def read(raw: Raw) -> Raw:
    """An object of a table: an NVIDIADriver by its spec, or a ClusterPolicy by what it says of the driver."""
    if "driver" in raw:
        return cluster_policy(**raw["driver"])
    return nvidia_driver(**{"version": None, **raw})


RUNNING = (pod("v", CUDA_12, "v"), pod("a", CUDA_12, "a"), pod("any", CUDA_12), pod("who", UNKNOWN, "a"))


def facts_of(text: str, others: Iterable[Raw] = (), **labels: str) -> ClusterFacts:
    found = [raw for one in text.split() for raw in nodes(int(one[1:]), *KINDS[one[0]], one[0])]
    for raw in found:
        raw["metadata"]["labels"] |= labels
    objects = [read(one) for one in others]
    driven = {"cluster_policies": objects, "nvidia_drivers": [one for one in objects if one["kind"] == "NVIDIADriver"]}
    driven["cluster_policies"] = [one for one in objects if one["kind"] == "ClusterPolicy"]
    return ClusterFacts.of(found, **driven)


def judge(*objects: Raw) -> DriverJudge:
    return DriverJudge(lambda _seconds: [Document("", at, 0, raw) for at, raw in enumerate(objects, 1)])


def judged(
    raw: Raw, facts: ClusterFacts, objects: Iterable[Raw] = RUNNING, *, mode: str = "warn", using: PolicySet = DEFAULTS
) -> Outcome | None:
    return judge(*objects).outcome(raw, None, replace(using, drivers=WorkloadsMode(mode)), facts, NOW)


def told(outcome: Outcome | None) -> list[str]:
    return [] if outcome is None else list(outcome.warnings)


@golden
def test_the_author_of_a_driver_object_is_told_what_it_changes(
    cluster: str, raw: Raw, others: list[Raw], warnings: list[str]
) -> None:
    found = told(judged(read(raw), facts_of(cluster, others)))
    assert len(found) == len(warnings), found
    for one, wanted in zip(found, warnings, strict=True):
        assert wanted in one


@pytest.mark.parametrize(
    ("labels", "is_left_alone"),
    [
        ({"nvidia.com/gpu.deploy.driver": "pre-installed"}, True),
        ({"nvidia.com/gpu.deploy.driver": "true", "nvidia.com/gpu.present": "true"}, False),
        ({"nvidia.com/gpu.deploy.operands": "false"}, True),
        ({"nvidia.com/gpu.workload.config": "vm-passthrough"}, True),
        ({"nvidia.com/gpu.present": "false"}, True),
    ],
    ids=str,
)
def test_nodes_that_bring_their_own_driver_are_left_alone(labels: dict[str, str], *, is_left_alone: bool) -> None:
    found = told(judged(cluster_policy("590.44.01"), facts_of("v2", **labels)))
    assert ("but for nodes that bring their own driver" in str(found)) is is_left_alone
    assert ("535.183.01 -> 590.44.01 on 2 nodes" in str(found)) is not is_left_alone


@pytest.mark.parametrize(
    ("raw", "mode", "is_refused"),
    [
        (nvidia_driver("590.44.01", nodeSelector={"pool": "v"}), "warn", False),
        (nvidia_driver("590.44.01", nodeSelector={"pool": "v"}), "enforce", True),
        (nvidia_driver("590.44.01", nodeSelector={"pool": "a"}), "enforce", False),
        (nvidia_driver("latest", nodeSelector={"pool": "v"}), "enforce", False),
        (nvidia_driver("590.44.01", "other", nodeSelector={"pool": "v"}), "enforce", False),
    ],
    ids=["a warning", "what certainly breaks", "what is unknown", "no version", "none of two is rolled out"],
)
def test_only_what_certainly_breaks_is_refused(raw: Raw, mode: str, *, is_refused: bool) -> None:
    others = [{"version": "535.183.01", "nodeSelector": {"pool": "v"}}] if raw["metadata"]["name"] == "other" else []
    outcome = judged(raw, facts_of("v2 a3", others), mode=mode)
    assert outcome is not None
    assert bool(outcome.refusals) is is_refused
    assert bool(outcome.warnings) is not is_refused


def test_a_disabled_check_and_a_change_of_something_else_say_nothing() -> None:
    raw, facts = nvidia_driver("590.44.01"), facts_of("v2")
    assert judged(raw, facts, mode="disabled") is None
    assert (
        judge(*RUNNING).outcome({**raw, "metadata": {"name": "d", "labels": {"a": "b"}}}, raw, DEFAULTS, facts, NOW)
        is None
    )
    assert judge(*RUNNING).outcome(raw, nvidia_driver("580.95.05"), DEFAULTS, facts, NOW) is not None


def test_a_malformed_selector_names_its_place() -> None:
    with pytest.raises(ShapeError, match="nodeSelector"):
        judged(nvidia_driver("590.44.01", nodeSelector=["pool"]), facts_of("v2"))


def replicas(number: int) -> list[Raw]:
    """Pods of two ReplicaSets of one Deployment."""
    found = []
    for at in range(number):
        raw, name = pod(f"d-{at}", CUDA_12, "v"), f"{'ab'[at % 2]}5c9d"
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"d-{name}", "uid": name, "controller": True}
        raw["metadata"] |= {"ownerReferences": [owner], "labels": {"pod-template-hash": name}}
        found.append(raw)
    return found


def test_the_pods_of_a_deployment_are_one_workload() -> None:
    found = told(judged(nvidia_driver("590.44.01"), facts_of("v2"), replicas(4)))
    assert ": 1 workload of team breaks," in found[0]
    assert "drivers: Deployment team/d: breaks: " in found[1]


class _Clock:
    """A second passes with each workload that is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def read(self, objects: Iterable[Raw], broken_after: int = 10**6) -> Iterator[Document]:
        for at, raw in enumerate(objects):
            if at == broken_after:
                raise LedgerError("pods cannot be listed: the time is up", "", 503)
            self.now += 1
            yield Document("", at, 0, raw)


@pytest.mark.parametrize(
    ("broken_after", "left"),
    [
        (10**6, "40 workloads more were not judged in the time."),
        (80, "not all pods were judged: pods cannot be listed"),
    ],
)
def test_workloads_that_are_not_judged_in_the_time_are_counted(
    monkeypatch: pytest.MonkeyPatch, broken_after: int, left: str
) -> None:
    clock = _Clock()
    monkeypatch.setattr("webhook.upgrades.driver_changes.time.monotonic", lambda: clock.now)
    objects = [pod(f"p{at}", CUDA_12, "v") for at in range(100)]
    slow = DriverJudge(lambda _seconds: clock.read(objects, broken_after))
    found = told(slow.outcome(nvidia_driver("590.44.01"), None, DEFAULTS, facts_of("v2"), NOW, seconds=101.0))
    assert ": 60 workloads of team break," in found[0]
    assert left in found[-1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("pool", "version"), [("a", "590.44.01"), ("b", "470.82.01"), ("c", "580.95.05")])
def test_the_warning_counts_what_an_audit_refuses_after_the_change(seed: int, pool: str, version: str) -> None:
    """Of pods that were not refused before. What selects drivers has no node then, of which cudaDriver says nothing."""
    rules: dict[str, Any] = {"tolerations": {}, "cudaDriver": {}}
    now = cluster(seed)
    hidden = unseen(now)
    objects = [
        {**raw, "kind": "Pod", "apiVersion": "v1", "spec": raw["spec"].get("template", raw)["spec"]}
        for raw in now.objects
        if raw["metadata"]["name"] not in hidden and not selects_drivers(raw)
    ]
    now = Cluster(now.nodes, now.slices, objects)
    changed = [raw["metadata"]["name"] for raw in now.nodes if raw["metadata"]["labels"]["pool"] == pool]
    then = now.upgraded(dict.fromkeys(changed, version))
    before, after = ({one.owner.name for one in findings_by_size(each, rules)} for each in (now, then))
    raw = nvidia_driver(version, nodeSelector={"pool": pool})
    outcome = judged(raw, now.facts, objects, using=policies(rules))
    assert outcome is not None
    counted = re.search(r": (\d+) workloads? of team breaks?", str(outcome.warnings))
    assert int(counted[1] if counted else 0) == len(after - before)
    assert driver_findings(objects, then.facts, rules)
