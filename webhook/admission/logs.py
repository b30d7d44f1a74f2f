"""JSON lines on standard error: one per decision and per event, without pod contents and secrets."""

import logging
import os
import sys
import threading
import time
import traceback
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

import orjson

from webhook.model.shape import shortened

if TYPE_CHECKING:  # the process that only watches over the server imports this file, and nothing heavy with it
    from webhook.admission.admission_review import AdmissionRequest
    from webhook.admission.phases import Decision

DECISIONS = logging.getLogger("gpu_policy.decision")
FLUSH_SECONDS = 0.1
"""Longest time that a line waits to be written together with others."""
MOST_FINDINGS = 50
"""Most findings that one line names; a pod can be written to have thousands."""
MOST_CHARACTERS = 253
"""Most characters of a text that a caller writes. Names in Kubernetes, and places with names of containers, are not
longer."""
_OF_THE_CALLER = ("uid", "operation", "kind", "namespace", "name")


class JsonFormatter(logging.Formatter):
    """A log record as one JSON object; `extra={"fields": {...}}` adds to it."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line of JSON; values that JSON does not have become texts."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry.update(getattr(record, "fields", {}))
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(entry, default=str).decode()


class LineHandler(logging.StreamHandler):  # type: ignore[type-arg]  # generic in stubs only
    """Writes lines to a stream, many at a time: a system call for each decision would cost a tenth of the decision.

    Lines below WARNING may wait for FLUSH_SECONDS. A warning is written at once, with all lines before it. All lines
    are written when the process ends.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._waiting: list[logging.LogRecord | str] = []
        self._process = 0  # the process whose thread writes the lines
        self._has_come = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Take one record; called with the handler's lock held.

        A record without arguments becomes a line when it is written: many lines at once take half the time.
        """
        if self._process != os.getpid():
            self._begin()
        self._waiting.append(self._line(record) if record.args or record.exc_info else record)
        if record.levelno >= logging.WARNING:
            self.flush()
        elif not self._has_come.is_set():
            self._has_come.set()

    def _begin(self) -> None:
        """Start the writing thread, also after a fork; lines that waited before the fork are written by the parent."""
        self._process, self._waiting, self._has_come = os.getpid(), [], threading.Event()
        threading.Thread(target=self._write_soon, args=(self._has_come,), daemon=True).start()

    def _write_soon(self, has_come: threading.Event) -> None:
        while True:
            has_come.wait()
            has_come.clear()
            time.sleep(FLUSH_SECONDS)
            self.flush()

    def _line(self, record: logging.LogRecord) -> str:
        try:
            return self.format(record) + self.terminator
        except Exception:  # noqa: BLE001  # a faulty log line must not end the work that it is about
            self.handleError(record)
            return ""

    def flush(self) -> None:
        """Write the waiting lines. Lines that cannot be written are lost, without an error."""
        with self.lock or nullcontext(), suppress(OSError, ValueError):
            waiting, self._waiting = self._waiting, []
            if waiting and self._process == os.getpid():
                self.stream.write("".join([one if isinstance(one, str) else self._line(one) for one in waiting]))
            super().flush()


def configure(level: str) -> None:
    """Send every log of the process to standard error as JSON lines, from `level` (debug, info, warning, error) up."""
    handler = LineHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False  # the lines do not show them
    logging.getLogger("urllib3").setLevel(logging.WARNING)
    logging.getLogger("kubernetes").setLevel(logging.WARNING)


def whereabouts(error: BaseException) -> dict[str, Any]:
    """The place where an error arose, without its text, which may quote a pod."""
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "exception": type(error).__name__,
        "stack": [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames],
    }


def short(text: str) -> str:
    """A text of a caller, shortened for a line."""
    return shortened(text, MOST_CHARACTERS)


def log_decision(phase: str, request: "AdmissionRequest", decision: "Decision", seconds: float) -> None:
    """Log one decision: who asked for what, and which rules have findings, but nothing of the pod itself."""
    if not DECISIONS.isEnabledFor(logging.INFO):
        return
    outcome = decision.outcome
    fields: dict[str, Any] = {
        "phase": phase,
        **{key: short(getattr(request, key)) for key in _OF_THE_CALLER},
        "dryRun": request.is_dry_run,
        "allowed": decision.answer.is_allowed,
        "milliseconds": round(seconds * 1000, 3),
    }
    if outcome is not None:
        fields["policy"] = outcome.policy.name
        fields["hash"] = outcome.policy.hash
        fields["injected"] = outcome.injected
        fields["findings"] = [
            {"rule": f.rule, "mode": f.mode, "kind": f.kind, "field": short(f.field), "refuses": f.refuses}
            for f in outcome.findings[:MOST_FINDINGS]
        ]
    message = "allowed" if decision.answer.is_allowed else "refused"
    record = logging.LogRecord(DECISIONS.name, logging.INFO, "", 0, message, None, None)  # no search for a caller
    record.fields = fields
    DECISIONS.handle(record)
