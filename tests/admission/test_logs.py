"""Logs are lines of JSON, one for each decision, and hold nothing of what a pod says but where a finding stands."""

import io
import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.e2e.eventually import eventually
from tests.reviews import FACTS, container, env, pod, policies, request, requests_only
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


def test_A48_what_a_caller_writes_is_cut(lines: Any) -> None:
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


def test_lines_wait_to_be_written_together_and_a_warning_waits_for_nothing() -> None:
    """One write for many decisions; what matters at once is written at once, with all before it."""
    stream = io.StringIO()
    handler = logs.LineHandler(stream)
    for number, level in enumerate((logging.INFO, logging.INFO, logging.WARNING)):
        before = stream.getvalue()
        handler.handle(logging.LogRecord("a", level, "", 0, f"line {number}", None, None))
        assert before == ""
    assert stream.getvalue() == "line 0\nline 1\nline 2\n"


def test_a_waiting_line_is_written_soon_by_itself() -> None:
    """Nobody has to log anything else for a line to appear."""
    stream = io.StringIO()
    handler = logs.LineHandler(stream)
    handler.handle(logging.LogRecord("a", logging.INFO, "", 0, "alone", None, None))
    eventually(lambda: stream.getvalue() == "alone\n")


FORKED = """
import logging, os, sys, time
from webhook.admission import logs

class Counting:
    lines = 0

    def write(self, text):
        sys.stderr.write(text)
        self.lines += text.count("\\n")

    def flush(self):
        sys.stderr.flush()

stream = Counting()
handler = logs.LineHandler(stream)
handler.setFormatter(logging.Formatter("%(message)s"))

def say(text):
    handler.handle(logging.LogRecord("a", logging.INFO, "", 0, text, None, None))

say("by the parent, before")
if child := os.fork():
    os.waitpid(child, 0)
    say("by the parent, after")
    logging.shutdown([lambda: handler])
else:
    for number in range(3):
        say(f"by the child, {number}")
    deadline = time.monotonic() + 60
    while stream.lines < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    sys.stderr.flush()
    os._exit(0)
"""


def test_a_process_that_was_forked_writes_its_own_lines_and_no_others() -> None:
    """The server's worker is forked while a line of its parent waits: no line may be lost, kept, or written twice."""
    done = subprocess.run([sys.executable, "-c", FORKED], stderr=subprocess.PIPE, text=True, check=True, timeout=120)
    assert sorted(done.stderr.splitlines()) == [
        "by the child, 0",
        "by the child, 1",
        "by the child, 2",
        "by the parent, after",
        "by the parent, before",
    ]


class Slow(io.StringIO):
    """Takes its time, as a full pipe does."""

    def write(self, text: str) -> int:
        time.sleep(0.05)
        return super().write(text)


class Full(io.StringIO):
    """Fails at first, as a full disk does."""

    failed = 0

    def write(self, text: str) -> int:
        if not self.failed:
            self.failed += 1
            raise OSError(28, "No space left on device")
        return super().write(text)


def test_lines_that_come_while_others_are_written_are_written_soon_by_themselves() -> None:
    stream = Slow()
    handler = logs.LineHandler(stream)
    for number in range(300):
        handler.handle(logging.LogRecord("a", logging.INFO, "", 0, str(number), None, None))
        time.sleep(0.001)
    eventually(lambda: stream.getvalue().count("\n") == 300)


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
def test_after_a_line_that_could_not_be_written_the_next_ones_are(level: int) -> None:
    stream = Full()
    handler = logs.LineHandler(stream)
    handler.handle(logging.LogRecord("a", level, "", 0, "lost", None, None))
    eventually(lambda: stream.failed == 1)
    handler.handle(logging.LogRecord("a", logging.INFO, "", 0, "written", None, None))
    eventually(lambda: stream.getvalue() == "written\n")
