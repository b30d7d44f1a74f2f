"""A real API server and a real scheduler agree with what is said of the corpus of manifests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import CLUSTERS, read_corpus
from tests.e2e.control_plane import ControlPlane
from tests.lab.soak.manifest_judges import COPIES, Candidate, Judges, candidates, standing
from webhook.policy.loader import load

CORPUS = read_corpus()
POLICY = load(Path(__file__).parents[3] / "policies").for_namespace("default")
KINDS = {
    ("v1", "Pod"): "/api/v1/namespaces/{}/pods",
    ("v1", "PodTemplate"): "/api/v1/namespaces/{}/podtemplates",
    ("v1", "ReplicationController"): "/api/v1/namespaces/{}/replicationcontrollers",
    ("apps/v1", "DaemonSet"): "/apis/apps/v1/namespaces/{}/daemonsets",
    ("apps/v1", "Deployment"): "/apis/apps/v1/namespaces/{}/deployments",
    ("apps/v1", "ReplicaSet"): "/apis/apps/v1/namespaces/{}/replicasets",
    ("apps/v1", "StatefulSet"): "/apis/apps/v1/namespaces/{}/statefulsets",
    ("batch/v1", "CronJob"): "/apis/batch/v1/namespaces/{}/cronjobs",
    ("batch/v1", "Job"): "/apis/batch/v1/namespaces/{}/jobs",
}
"""Where objects of the built-in kinds are created."""


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


def test_the_api_server_too_refuses_gpus_that_stand_in_requests_only(
    control_plane: ControlPlane, judges: Judges
) -> None:
    found = [
        one
        for one in candidates(CORPUS, "mixed", POLICY)
        if any(each.rule == "gpuLimits" and "missing in limits" in each.message for each in one.outcome.refusals)
    ]

    assert [one.title for one in found if not judges.complaint(one.written)] == []
    assert len(found) > 5


def test_objects_of_built_in_kinds_are_valid_unless_something_refuses_them(
    control_plane: ControlPlane, make_namespace: Callable[[str], str]
) -> None:
    namespace = make_namespace("corpus")
    complaints: dict[str, str] = {}
    looked_at = 0
    for manifest in CORPUS:
        if manifest.is_unreadable or manifest.verdicts["mixed"].refused:
            continue
        for document in manifest.documents():
            raw: Any = document.object
            path = KINDS.get((document.api_version, document.kind))
            if path is not None and "ephemeralContainers" not in raw.get("spec", {}):  # added to pods that exist
                looked_at += 1
                body = {**raw, "metadata": {**raw.get("metadata", {}), "namespace": namespace}}
                status, answer = control_plane.raw("POST", f"{path.format(namespace)}?dryRun=All", body)
                if status not in (201, 403):  # a priority or runtime class that is not here
                    complaints[manifest.name] = str(answer)[:500]

    assert complaints == {}
    assert looked_at > 150
