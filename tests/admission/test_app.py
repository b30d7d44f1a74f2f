"""The HTTP face: decisions for AdmissionReviews, a status and a reason for everything else, readiness."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.build import patch_of, pod, requests_only, review
from tests.clock import Clock
from tests.golden import each
from tests.replicas import POLICY, Replica
from webhook.admission import app
from webhook.admission.app import SECONDS, CachedPage
from webhook.rules.rule import Rule
from webhook.rules.rule_settings import RuleSettings


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[Replica]:
    replica = Replica(tmp_path / "policies")
    yield replica
    replica.store.close()


def test_mutate_answers_with_a_patch(replica: Replica) -> None:
    response = replica.ask("/mutate", pod(1))
    assert response["allowed"]
    assert [operation["path"] for operation in patch_of(response)] == [
        "/spec/tolerations",
        "/metadata/annotations",
        "/metadata/annotations/gpupolicy.dev~1policy",
    ]


def test_validate_refuses_a_violation(replica: Replica) -> None:
    response = replica.ask("/validate", pod(5))
    assert (response["status"]["code"], response["status"]["reason"]) == (403, "Forbidden")
    assert response["status"]["message"].startswith("gpuLimits: spec: requests 5 GPUs")


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_is_accepted_however_it_is_announced(replica: Replica, content_type: str) -> None:
    answer = replica.client.post("/mutate", data=json.dumps(review(pod(1))), content_type=content_type)
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@each(
    "method, body, content_type, status, reason",
    {
        "not a review": ("POST", b"{}", "application/json", 400, "kind: found null, expected"),
        "empty": ("POST", b"", "application/json", 400, "the body is not JSON"),
        "not UTF-8": ("POST", b"\xff", "application/json", 400, "the body is not JSON"),
        "nested deeply": ("POST", b"[" * 10**5, "application/json", 400, "the body is not JSON"),
        "YAML": ("POST", b"{}", "text/yaml", 415, "Content-Type: found text/yaml, expected app"),
        "no type": ("POST", b"{}", None, 415, "Content-Type: found none, expected app"),
        "GET": ("GET", None, None, 405, "an AdmissionReview comes with POST"),
        "PUT": ("PUT", b"{}", "application/json", 405, "an AdmissionReview comes with POST"),
    },
)
def test_what_cannot_be_answered_gets_a_status_a_reason_and_is_counted(
    replica: Replica, path: str, *, method: str, body: bytes | None, content_type: str | None, status: int, reason: str
) -> None:
    answer = replica.client.open(path, method=method, data=body, content_type=content_type)
    assert (answer.status_code, answer.mimetype) == (status, "text/plain")
    assert reason in answer.text
    assert replica.count("gpu_policy_errors_total", reason="bad_request") == 1


@pytest.mark.parametrize("path", ["/", "/Mutate", "/mutate/", "/metrics/x", "/../etc/passwd"])
def test_another_path_gets_404_and_the_list_of_paths(replica: Replica, path: str) -> None:
    answer = replica.client.post(path, json=review(pod(1)))
    assert (answer.status_code, answer.mimetype) == (404, "text/plain")
    assert "/claims and /drivers, GET /livez, /readyz, /statusz and /metrics are served" in answer.text


def test_a_wrong_method_is_told_the_right_one(replica: Replica) -> None:
    assert replica.client.get("/mutate").headers["Allow"] == "POST"
    answer = replica.client.post("/readyz")
    assert (answer.status_code, "GET" in answer.headers["Allow"]) == (405, True)


# A bug is neither a yes nor a no.


def buggy(pod: Any, settings: Any, facts: Any) -> Iterator[Any]:
    raise ValueError("the pod says hunter2")
    yield


@each(
    "path, rule",
    {
        "mutate": ("/mutate", Rule(key="faulty", promise="Fails.", settings=RuleSettings, mutate=buggy)),
        "validate": ("/validate", Rule(key="faulty", promise="Fails.", settings=RuleSettings, validate=buggy)),
        "safety net": ("/validate", Rule(key="faulty", promise="Fails.", settings=RuleSettings, mutate=buggy)),
    },
)
def test_a_bug_in_a_rule_gives_500_is_counted_and_logged_without_what_the_pod_says(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str, rule: Rule
) -> None:
    directory = tmp_path / "policies"
    directory.mkdir()
    (directory / "_default.yaml").write_text(POLICY.partition("    tol")[0] + "    faulty: {mode: enforce}\n")
    replica = Replica(directory, (rule,))
    answer = replica.client.post(path, json=review(pod(1)))
    assert (answer.status_code, answer.text) == (500, "no decision because of a bug in gpu-policy; its log says more\n")
    assert replica.count("gpu_policy_errors_total", reason="bug") == 1
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.fields["exception"] == "ValueError"  # type: ignore[attr-defined]  # given as extra
    assert "in buggy" in record.fields["stack"][-1]  # type: ignore[attr-defined]  # given as extra
    assert "hunter2" not in str(record.__dict__)


# Logs and metrics of decisions.


def test_each_decision_is_counted_once(replica: Replica) -> None:
    replica.ask("/mutate", pod(1))
    replica.ask("/mutate", requests_only())
    replica.ask("/validate", pod(5))
    replica.ask("/validate", None, "MADE UP BY SOMEBODY")
    count = replica.count
    assert count("gpu_policy_requests_total", phase="mutate", operation="CREATE", result="patched") == 1
    assert count("gpu_policy_requests_total", phase="mutate", operation="CREATE", result="refused") == 1
    assert count("gpu_policy_requests_total", phase="validate", operation="CREATE", result="refused") == 1
    assert count("gpu_policy_requests_total", phase="validate", operation="other", result="allowed") == 1
    assert count("gpu_policy_injections_total", rule="tolerations") == 1
    assert count("gpu_policy_findings_total", rule="gpuLimits", mode="enforce", kind="violation") == 2
    assert count("gpu_policy_findings_total", rule="tolerations", mode="enforce", kind="missing") == 1
    assert count("gpu_policy_request_duration_seconds_count", phase="validate") == 2


# The page of metrics.


def test_a_page_is_made_once_a_second_however_long_that_takes_and_tried_again_where_it_fails() -> None:
    """Else whoever scrapes without a pause would take all the time."""
    clock = Clock()
    pages = iter([b"1", b"2", ValueError("no"), b"3"])

    def make() -> bytes:
        clock.now += 5
        page = next(pages)
        if isinstance(page, ValueError):
            raise page
        return page

    page = CachedPage(make, clock)
    assert [page.get() for _ in range(1000)] == [b"1"] * 1000
    clock.now += SECONDS
    assert [page.get() for _ in range(1000)] == [b"2"] * 1000
    clock.now += SECONDS
    with pytest.raises(ValueError, match="no"):
        page.get()
    assert page.get() == b"3"


def test_the_page_of_metrics_is_kept_and_a_replica_that_drains_says_so_at_once(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "SECONDS", 1e9)
    first = replica.client.get("/metrics").data
    replica.metrics.error("bug")
    assert first == replica.client.get("/metrics").data
    replica.service.is_draining = True
    assert b"\ngpu_policy_ready 0.0\n" in replica.client.get("/metrics").data
