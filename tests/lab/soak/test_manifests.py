"""A real API server and a real scheduler agree with what is said of the corpus of manifests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.corpus import CLUSTERS, read_corpus
from tests.e2e.control_plane import ControlPlane
from tests.lab.soak.manifest_judges import COPIES, Candidate, Judges, candidates, standing
from webhook.policy.loader import load

CORPUS = read_corpus()
POLICY = load(Path(__file__).parents[3] / "policies").for_namespace("default")


@pytest.fixture
def judges(control_plane: ControlPlane, make_namespace: Callable[[str], str]) -> Judges:
    """Both, in a namespace of the test's own."""
    control_plane.start_scheduler()
    return Judges(control_plane, make_namespace("corpus"))


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_scheduler_contradicts_no_warning_of_schedulable_and_no_silence(
    control_plane: ControlPlane, judges: Judges, cluster: str
) -> None:
    found = [one for one in candidates(CORPUS, cluster, POLICY) if one.is_left_to_the_scheduler]
    with standing(control_plane, cluster):
        found = [one for one in found if not judges.complaint(one.completed)]
        warned = {name(one): one for one in found if one.unschedulable}
        silent = [one for one in found if not one.unschedulable]
        pending = judges.pending([one.completed for one in warned.values()])
        unbound: dict[str, str] = {}
        for start in range(0, len(silent), COPIES):
            unbound |= judges.bound([one.completed for one in silent[start : start + COPIES]])

    assert {one.title: one.unschedulable for key, one in warned.items() if key not in pending} == {}
    assert {one.title: unbound[name(one)] for one in silent if name(one) in unbound} == {}
    assert len(warned) > 10
    assert len(silent) > 50


def name(candidate: Candidate) -> str:
    return str(candidate.written["metadata"]["name"])


def test_the_api_server_takes_completed_pods_where_it_takes_them_as_written(
    control_plane: ControlPlane, judges: Judges
) -> None:
    with standing(control_plane, "mixed"):
        found = list(candidates(CORPUS, "mixed", POLICY))
        valid = [one for one in found if not judges.complaint(one.written)]
        complaints = {one.title: judges.complaint(one.completed) for one in valid}

    assert {title: complaint for title, complaint in complaints.items() if complaint} == {}
    assert len(valid) > 200
