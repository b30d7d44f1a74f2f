"""Upgrades of drivers, judged by hand: what they do to an image on one kind of nodes, and why."""

import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests import quick_yaml
from tests.facts.samples import node
from tests.rules.samples import container, pod
from webhook.audit.documents import Document
from webhook.audit.fitting import Knowledge, Question
from webhook.audit.owners import Owners
from webhook.cuda.checks import Verdict
from webhook.cuda.cuda_tables import SHIPPED
from webhook.facts.facts import ClusterFacts
from webhook.model.accelerators import BUILT_IN
from webhook.upgrades.changed_cluster import ChangedCluster
from webhook.upgrades.node_changes import KnownNodes, UnusableChangesError, changes_of
from webhook.upgrades.workload_planner import PlanRequest, plan_of, policies_without_files

TABLE = quick_yaml.load(Path(__file__).with_name("upgrades.yaml").read_text())
PAIRS = TABLE["pairs"]
KNOWLEDGE = Knowledge()
WHEN = datetime(2026, 11, 25, tzinfo=UTC)
NEWER = "700.12"
"""A driver of a branch that no table knows."""

YES, NO, BY_COMPAT, MAYBE = (
    Verdict.COMPATIBLE,
    Verdict.INCOMPATIBLE,
    Verdict.FORWARD_COMPAT_ONLY,
    Verdict.UNKNOWN,
)
CHANGES = {
    **{(verdict, verdict): "same" for verdict in (YES, NO, BY_COMPAT)},
    **{(before, NO): "breaks" for before in (YES, BY_COMPAT, MAYBE)},
    **{(NO, after): "unblocked" for after in (YES, BY_COMPAT)},
    **{(MAYBE, after): "gains" for after in (YES, BY_COMPAT)},
    **{(before, MAYBE): "unknown" for before in Verdict},
    (YES, BY_COMPAT): "compatOnly",
    (BY_COMPAT, YES): "same",
}
"""What a plan says of a workload whose only nodes change so."""


def verdict(pair, driver):
    question = Question(pair["image"], driver=driver, product=pair["gpu"], arch=pair.get("arch", "amd64"))
    return KNOWLEDGE.answer(question)


@pytest.mark.parametrize("pair", [pytest.param(pair, id=pair["id"]) for pair in PAIRS])
def test_an_upgrade_does_to_an_image_what_the_facts_say(pair):
    before, after = verdict(pair, pair["from"]), verdict(pair, pair["to"])
    assert (before.verdict, after.verdict) == (pair["was"], pair["becomes"]), (before.reason, after.reason)


def planned(pair):
    """What `gpu-policy cuda plan` says of a pod with the image, in a cluster with one node."""
    labels = {"pool": "a", "nvidia.com/gpu.product": pair["gpu"], "kubernetes.io/arch": pair.get("arch", "amd64")}
    driver = pair["from"]
    if driver is not None:
        labels[f"nvidia.com/cuda.driver-version.{'full' if '.' in driver else 'major'}"] = driver
    facts = ClusterFacts.of([node("n0", labels=labels, capacity={"nvidia.com/gpu": "1"})])
    known = KnownNodes(facts.cluster.nodes, (), BUILT_IN, SHIPPED)
    changes = changes_of([f"pool=a={pair['to']}"], [], known)
    request = PlanRequest(ChangedCluster(facts, changes, (), None, SHIPPED), policies_without_files(), WHEN)
    raw = pod(container(gpus=1, image=pair["image"]))
    (workload,) = plan_of(request, [Document("pod.yaml", 1, 1, raw)], Owners()).workloads
    return workload


@pytest.mark.parametrize("pair", [pytest.param(pair, id=pair["id"]) for pair in PAIRS if pair["to"] != NEWER])
def test_a_plan_says_of_the_upgrade_what_the_facts_say(pair):
    workload = planned(pair)
    assert workload.change == pair["change"], workload.reason


def test_a_branch_that_no_table_knows_cannot_be_planned():
    """A plan would have to guess what it drives; the verdict about a node that has it already is no guess."""
    (pair,) = [pair for pair in PAIRS if pair["to"] == NEWER]
    with pytest.raises(UnusableChangesError, match="driver branch 700 is not in the tables"):
        planned(pair)


@pytest.mark.parametrize("pair", [pytest.param(pair, id=pair["id"]) for pair in PAIRS])
def test_a_pair_says_what_follows_from_its_verdicts_and_where_it_was_read(pair):
    """A slip of the hand in one of the three would make the table worthless."""
    assert pair["change"] == CHANGES[Verdict(pair["was"]), Verdict(pair["becomes"])]
    assert pair["why"]
    assert set(re.split(", ", pair["source"])) <= set(TABLE["sources"])


def test_the_pairs_cover_every_change_and_every_verdict():
    assert len(PAIRS) >= 60
    assert len({pair["id"] for pair in PAIRS}) == len(PAIRS)
    assert set(Counter(pair["change"] for pair in PAIRS)) == set(CHANGES.values())
    assert {pair[key] for pair in PAIRS for key in ("was", "becomes")} == set(Verdict)
    assert {pair.get("arch", "amd64") for pair in PAIRS} == {"amd64", "arm64"}
