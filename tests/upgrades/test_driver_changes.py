"""What the author of a ClusterPolicy or NVIDIADriver is told: which nodes change, what breaks, what is not known."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client

from tests.build import policies, policy_file, request, review
from tests.facts.test_made_pools import node_pool
from tests.golden import golden
from tests.upgrades.generated import Cluster, cluster
from tests.upgrades.plans import CREATED, DEFAULTS
from tests.upgrades.test_changes import CUDA_12, KINDS, UNKNOWN, nodes, pod
from tests.upgrades.test_plan_and_audit import SEEDS, driver_findings, findings_by_size, selects_drivers, unseen
from webhook.admission import phases
from webhook.audit.documents import Document
from webhook.facts.facts import ClusterFacts
from webhook.ledger.ledger_store import LedgerError
from webhook.model.shape import ShapeError
from webhook.outcome import Outcome
from webhook.policy.loader import load
from webhook.policy.policy_set import PolicySet
from webhook.policy.schema import WorkloadsMode
from webhook.replica.replica import Replica
from webhook.upgrades.driver_changes import DriverJudge
from webhook.yaml_files.file_errors import FileErrors

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
        return cluster_policy(**raw["driver"]) | {"metadata": {"name": raw.get("name", "cluster-policy")}}
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
    one, facts = read(raw), facts_of(cluster, others)
    found = told(judge(*RUNNING).outcome(one, facts.cluster.driver_object(one), DEFAULTS, facts, NOW))
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
    ("raw", "labels", "remedy"),
    [
        (
            nvidia_driver("590.44.01", nodeSelector={"x": "y"}),
            {},
            "declare the pool in spec.nodePools with its driver, or ",
        ),
        (cluster_policy("590.44.01"), {}, ""),
        (cluster_policy("590.44.01"), {"nvidia.com/gpu.deploy.driver": "pre-installed"}, None),
        (cluster_policy("590.44.01", enabled=False), {}, None),
    ],
    ids=["its label", "all nodes", "a driver of its own", "no driver"],
)
def test_a_node_pool_that_may_bring_a_driver_is_left_out_and_named(
    raw: Raw, labels: dict[str, str], remedy: str | None
) -> None:
    made = node_pool(["instance-family In g5"], labels={"x": "y", **labels})
    found = told(judged(raw, ClusterFacts.of(nodes(2, *KINDS["a"], "a"), node_pools=[made])))
    why = "NodePool gpu is left out, because node images may bring a driver; "
    assert (f"{why}{remedy}use `gpu-policy plan --set gpu=590.44.01`" in str(found)) is (remedy is not None)


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


def test_a_disabled_check_says_nothing() -> None:
    assert judged(nvidia_driver("590.44.01"), facts_of("v2"), mode="disabled") is None


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
    now = cluster(seed, workloads=400)
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


EXCEPTION = """\
apiVersion: gpupolicy.dev/v1alpha1
kind: GPUPolicyExceptions
metadata: {name: _exceptions}
spec:
  exceptions:
  - {name: volta-goes, namespaces: [any], match: %s, rules: [%s], until: "2026-04-01", reason: r, ticket: OPS-1}
"""


@golden
def test_an_exception_that_names_the_kind_lets_a_driver_through(
    tmp_path: Path, match: str, rule: str, is_let_through: bool
) -> None:
    rules: dict[str, Any] = {"tolerations": {}, "cudaDriver": {}, "gpuLimits": {}}
    (tmp_path / "_default.yaml").write_text(policy_file(rules, drivers={"mode": "enforce"}))
    (tmp_path / "_exceptions.yaml").write_text(EXCEPTION % (match, rule))
    using = load(tmp_path)
    outcome = judge(*RUNNING).outcome(nvidia_driver("590.44.01", "volta"), None, using, facts_of("v2"), NOW)
    assert outcome is not None
    assert (not outcome.refusals) is is_let_through
    until = "; admitted until 2026-04-01 by exception volta-goes, OPS-1."
    assert [until in one for one in outcome.warnings] == [True, True] * is_let_through


def test_the_mode_stands_in_the_default_only(tmp_path: Path) -> None:
    (tmp_path / "_default.yaml").write_text(policy_file({}))
    assert load(tmp_path).drivers is WorkloadsMode.WARN
    (tmp_path / "team.yaml").write_text(policy_file({}, name="team", drivers={"mode": "enforce"}))
    with pytest.raises(FileErrors, match="drivers are the same in all namespaces"):
        load(tmp_path)


@golden
def test_pods_are_warned_of_the_driver_that_their_nodes_will_get(cluster: str, others: list[Raw], told: str) -> None:
    """A pod of pool v, until the nodes have it; nothing is said of a driver that is not rolled out, or runs the pod."""
    answer = phases.validate(
        request(pod("v", CUDA_12, "v")), policies({"cudaDriver": {}}), facts_of(cluster, others), NOW
    )
    assert answer.answer.is_allowed
    assert [told in one for one in answer.answer.warnings] == [True] * bool(told)


def test_a_replica_answers_for_driver_objects_alone(tmp_path: Path) -> None:
    """Of CREATE and UPDATE, by the pods of its inventory, in a dry run alike."""
    inventory, folder = tmp_path / "inventory.json", tmp_path / "policies"
    folder.mkdir()
    (folder / "_default.yaml").write_text(policy_file({"tolerations": {}}, drivers={"mode": "enforce"}))
    inventory.write_text(json.dumps({"kind": "List", "items": [*nodes(2, *KINDS["v"], "v"), *RUNNING]}))
    replica = Replica(folder, inventory)
    with closing(replica):

        def allowed(raw: Raw, operation: str = "CREATE", **parts: Any) -> bool:
            answer = Client(replica).post("/drivers", json=review(raw, operation, namespace="", **parts))
            return bool(answer.get_json()["response"]["allowed"])

        breaking, harmless = cluster_policy("590.44.01"), cluster_policy("580.95.05")
        assert not allowed(breaking)
        assert not allowed(breaking, dryRun=True)
        assert not allowed(breaking, "UPDATE", old=harmless)
        assert allowed(breaking, "UPDATE", old=breaking)
        assert allowed(breaking, subResource="status")
        assert allowed({**breaking, "apiVersion": "kyverno.io/v1"})
        assert allowed({**breaking, "kind": "GPUCluster"})
        assert allowed(harmless)
