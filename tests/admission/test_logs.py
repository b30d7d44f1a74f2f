"""Logs are lines of JSON, one for each decision, and hold nothing of what a pod says but where a finding stands."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.build import FACTS, container, env, pod, policies, request, requests_only
from webhook.admission import logs, phases
from webhook.admission.phases import UNCONCERNED


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What the process writes to standard error, as JSON."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    logs.configure("info")

    def written() -> list[Any]:
        root.handlers[0].flush()
        return [json.loads(line) for line in stream.getvalue().split("\n")[:-1]]

    yield written
    root.handlers[:] = handlers
    root.setLevel(level)


def log(decision: phases.Decision, **kwargs: Any) -> None:
    logs.log_decision("mutate", request(pod(1), **kwargs), decision, 0.0012345)


def test_a_decision_is_one_line(lines: Any) -> None:
    using = policies({"gpuLimits": {}, "tolerations": {}})
    log(phases.mutate(request(requests_only()), using, FACTS), name="trainer", dryRun=True)
    (line,) = lines()
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "gpu_policy.decision",
        "message": "refused",
        "phase": "mutate",
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "operation": "CREATE",
        "kind": "Pod",
        "namespace": "team",
        "name": "trainer",
        "dryRun": True,
        "allowed": False,
        "milliseconds": 1.234,
        "policy": "_default",
        "hash": using.default.hash,
        "injected": [],
        "findings": [
            {
                "rule": "gpuLimits",
                "mode": "enforce",
                "kind": "violation",
                "field": "spec.containers[c0].resources",
                "refuses": True,
            }
        ],
    }


def test_a_request_that_concerns_no_rule_is_one_line_too(lines: Any) -> None:
    log(UNCONCERNED)
    (line,) = lines()
    assert line["message"] == "allowed"
    assert "policy" not in line


@pytest.mark.parametrize("name", ['a"b\nc', "é\x1b[2J\u2028"])
def test_a_name_cannot_forge_a_line(lines: Any, name: str) -> None:
    log(UNCONCERNED, name=name)
    (line,) = lines()
    assert line["name"] == name


def test_a_pod_cannot_make_a_line_of_any_length_it_likes(lines: Any) -> None:
    many = [container("c" * 10_000, env=env("NVIDIA_VISIBLE_DEVICES", "all")) for _ in range(200)]
    log(phases.validate(request(pod(spec={"containers": many})), policies({"visibleDevices": {}}), FACTS))
    (line,) = lines()
    assert len(json.dumps(line)) < 50_000


def test_what_a_caller_writes_is_cut(lines: Any) -> None:
    long = "x" * 1_000_000
    asked = replace(request(pod(1)), uid=long, operation=long, kind=long, namespace=long, name=long)
    logs.log_decision("mutate", asked, UNCONCERNED, 0.001)
    (line,) = lines()
    assert {len(line[key]) for key in ("uid", "operation", "kind", "namespace", "name")} == {logs.MOST_CHARACTERS}


def test_below_its_level_nothing_is_written(lines: Any) -> None:
    logging.getLogger().setLevel("WARNING")
    log(UNCONCERNED)
    assert lines() == []


def test_an_error_elsewhere_is_logged_with_its_traceback_on_one_line(lines: Any) -> None:
    error = RuntimeError("the disk is full")
    logging.getLogger("gpu_policy").error("reload failed", exc_info=error)
    (line,) = lines()
    assert (line["level"], line["message"]) == ("error", "reload failed")
    assert "RuntimeError: the disk is full" in line["exception"]


def test_what_is_not_json_is_spelled_out(lines: Any) -> None:
    logging.getLogger("gpu_policy").info("serving on %s", ("::1", 8443), extra={"fields": {"path": {1}}})
    (line,) = lines()
    assert (line["message"], line["path"]) == ("serving on ('::1', 8443)", "{1}")
