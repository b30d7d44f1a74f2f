"""When a replica is ready, what /readyz says, and what happens to reviews that it cannot answer now."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.build import patch_of, pod, review
from tests.golden import golden
from tests.replicas import POLICY, Replica
from webhook.facts.facts import FactsStatus


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[Replica]:
    replica = Replica(tmp_path / "policies")
    yield replica
    replica.store.close()


# Readiness.


def test_a_replica_with_policies_and_facts_is_ready(replica: Replica) -> None:
    answer = replica.client.get("/readyz")
    assert (answer.status_code, answer.text.splitlines()) == (
        200,
        [
            "ready: yes",
            f"policies: {replica.store.current.hash}",
            "policy reload: ok",
            "facts: 1 s old, API server answers (1 node)",
        ],
    )
    assert replica.client.get("/statusz").json == {
        "notReady": "",
        "policies": replica.store.current.hash,
        "refusedPolicies": "",
    }


def test_before_the_facts_are_loaded_reviews_get_503_with_retry_after(replica: Replica) -> None:
    replica.facts.facts = None
    replica.facts.state = FactsStatus(False, False, 0.0, True, "waiting for nodes")
    for path in ("/mutate", "/validate"):
        answer = replica.client.post(path, json=review(pod(1)))
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert answer.text == "facts: not loaded yet (waiting for nodes)\n"
    assert replica.count("gpu_policy_errors_total", reason="not_ready") == 2
    assert replica.client.get("/readyz").status_code == 503
    state = replica.client.get("/statusz")
    assert (state.status_code, state.json["notReady"]) == (200, "facts: not loaded yet (waiting for nodes)")


def ask_late(replica: Replica, path: str, seconds: float) -> Any:
    return replica.client.post(path, json=review(pod(1)), environ_overrides={"webhook.waited": lambda: seconds})


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@golden
def test_a_request_that_waited_too_long_is_sent_back_instead_of_computed(
    replica: Replica, path: str, query: str, seconds: float, status: int
) -> None:
    answer = ask_late(replica, path + query, seconds)
    assert status == answer.status_code
    assert replica.count("gpu_policy_errors_total", reason="overloaded") == (status == 503)
    if status == 503:
        assert answer.headers["Retry-After"] == "1"
        assert answer.text.startswith(f"overloaded: the request waited for {seconds:.1f} s of the ")


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_a_client_that_is_objected_to_gets_no_review_answered(replica: Replica, path: str) -> None:
    stranger = {"webhook.objection": "client certificate: found none"}
    answer = replica.client.post(path, json=review(pod(9)), environ_overrides=stranger)
    assert (answer.status_code, answer.mimetype, answer.text) == (403, "text/plain", "client certificate: found none\n")
    assert replica.count("gpu_policy_errors_total", reason="forbidden") == 1
    for page in ("/livez", "/readyz", "/metrics"):
        assert replica.client.get(page, environ_overrides=stranger).status_code == 200


@golden
def test_what_the_server_answers_itself_is_counted_too(replica: Replica, status: int, reason: str) -> None:
    replica.service.refused(status)
    assert replica.count("gpu_policy_errors_total", reason=reason) == 1


def test_a_stale_watch_of_an_api_server_that_answers_turns_unready_and_goes_on_answering(replica: Replica) -> None:
    """Readiness steers the traffic away; what still arrives is better answered on the last known facts than refused."""
    replica.facts.state = FactsStatus(True, True, 300.0, True, "nodes: 300 s behind")
    answer = replica.client.get("/readyz")
    assert answer.status_code == 503
    expected = "ready: no, facts: the watch is stale although the API server answers (nodes: 300 s behind)"
    assert answer.text.startswith(expected)
    assert replica.ask("/mutate", pod(1))["allowed"]


@pytest.mark.parametrize("stale", [True, False])
def test_an_unreachable_api_server_leaves_the_replica_ready_and_is_shown(replica: Replica, stale: bool) -> None:
    replica.facts.state = FactsStatus(True, stale, 600.0, False, "connection refused")
    answer = replica.client.get("/readyz")
    assert answer.status_code == 200
    assert "facts: 600 s old, API server unreachable (connection refused)" in answer.text
    page = replica.client.get("/metrics").text
    assert "gpu_policy_apiserver_reachable 0.0" in page
    assert "gpu_policy_facts_age_seconds 600.0" in page


def test_a_bad_policy_file_leaves_the_replica_ready_on_the_last_good_set_and_is_shown(replica: Replica) -> None:
    before = replica.store.current.hash
    replica.write(POLICY.replace("maxPerPod", "maxPerPot"))
    replica.store.check()
    answer = replica.client.get("/readyz")
    assert answer.status_code == 200
    assert f"policies: {before}\npolicy reload: REFUSED, last good set kept: " in answer.text
    assert "_default.yaml:7: spec.rules.gpuLimits.maxPerPot: unknown key" in answer.text
    assert not replica.ask("/validate", pod(5))["allowed"]


def test_a_draining_replica_is_unready_alive_and_answers(replica: Replica) -> None:
    replica.service.is_draining = True
    assert replica.client.get("/readyz").status_code == 503
    assert replica.client.get("/livez").status_code == 200
    assert replica.ask("/mutate", pod(1))["allowed"]


def test_readiness_is_a_metric_too(replica: Replica) -> None:
    assert "\ngpu_policy_ready 1.0\n" in replica.client.get("/metrics").text
    replica.service.is_draining = True
    assert "\ngpu_policy_ready 0.0\n" in replica.client.get("/metrics").text


def test_a_replica_whose_facts_are_not_loaded_is_alive(replica: Replica) -> None:
    replica.facts.facts = None
    answer = replica.client.get("/livez")
    assert (answer.status_code, answer.text) == (200, "ok\n")


# Policies that change while requests come in.


def test_a_new_policy_is_in_force_for_the_next_request(replica: Replica) -> None:
    required = "    nodeAffinity: {mode: enforce, required: [{key: pool, operator: Exists}]}\n"
    assert replica.ask("/validate", pod(1, spec={"tolerations": [{"operator": "Exists"}]}))["allowed"]
    replica.write(POLICY + required)
    assert replica.store.check()
    assert "/spec/affinity" in [operation["path"] for operation in patch_of(replica.ask("/mutate", pod(1)))]
    assert not replica.ask("/validate", pod(1))["allowed"]
