"""Which file a namespace gets. An exception for some namespaces can never be widened by a second one (attack A3)."""

from itertools import combinations

import pytest

from tests.golden import golden

RANKS = {"exact name": "team-a", "longer glob": "team-*", "shorter glob": "te*", "shortest glob": "*"}
NAMES = ("aaa", "mmm", "zzz")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["stronger file first", "weaker file first"])
@pytest.mark.parametrize(
    ("stronger", "weaker"), [pytest.param(*pair, id=" beats ".join(pair)) for pair in combinations(RANKS, 2)]
)
def test_a3_the_narrower_of_two_claims_wins_whatever_the_files_are_called(policies, stronger, weaker, order) -> None:
    names = [NAMES[index] for index in order]
    policies.policy("_default", "gpuLimits: {mode: enforce}")
    policies.policy(names[0], "gpuLimits: {mode: warn}", f'["{RANKS[stronger]}"]')
    policies.policy(names[1], "gpuLimits: {mode: disabled}", f'["{RANKS[weaker]}"]')
    policy = policies.load().for_namespace("team-a")
    assert (names[0], ["warn"]) == (policy.name, [bound.mode for bound in policy.rules])


@pytest.mark.parametrize("rank", RANKS)
def test_a3_any_claim_beats_the_default(policies, rank) -> None:
    policies.policy("_default", "gpuLimits: {mode: enforce}")
    policies.policy("own", "gpuLimits: {mode: audit}", f'["{RANKS[rank]}"]')
    assert policies.load().for_namespace("team-a").name == "own"


@golden
def test_a3_two_files_that_claim_a_namespace_at_the_same_rank_are_an_error(policies, one, other, expected) -> None:
    policies.policy("a", namespaces=one)
    policies.policy("b", namespaces=other)
    assert [expected] == [error.replace(str(policies.path) + "/", "") for error in policies.errors()]


def test_globs_of_one_length_that_have_no_name_in_common_live_together(policies) -> None:
    policies.policy("a", namespaces='["team-a-*", "*-x"]')
    policies.policy("b", namespaces='["team-b-*", "*-y"]')
    assert policies.load().for_namespace("team-b-1").name == "b"


def test_one_file_may_claim_a_namespace_twice(policies) -> None:
    policies.policy("a", namespaces='["team-*", "*-team", a, a]')
    assert policies.load().for_namespace("team-team").name == "a"


def test_a_file_with_namespaces_no_longer_claims_its_own_name(policies) -> None:
    policies.policy("_default")
    policies.policy("vision", namespaces='["vision-*"]')
    assert policies.load().for_namespace("vision").name == "_default"
