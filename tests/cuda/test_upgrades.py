"""Upgrades of drivers, judged by hand: what they do to an image on one kind of nodes, and why."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests import quick_yaml
from webhook.cuda.checks import Verdict
from webhook.cuda.image_check import Knowledge, Question

TABLE = quick_yaml.load(Path(__file__).with_name("upgrades.yaml").read_text())
PAIRS = TABLE["pairs"]
KNOWLEDGE = Knowledge()

YES, NO, BY_COMPAT, MAYBE = (Verdict.COMPATIBLE, Verdict.INCOMPATIBLE, Verdict.FORWARD_COMPAT_ONLY, Verdict.UNKNOWN)
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
