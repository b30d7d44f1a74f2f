"""JSON lines on standard error: one per decision and per event, without pod contents and secrets."""

import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from webhook.model.shape import shortened

if TYPE_CHECKING:  # the process that only watches over the server imports this file, and nothing heavy with it
    from webhook.admission.admission_review import AdmissionRequest
    from webhook.admission.phases import Decision

DECISIONS = logging.getLogger("gpu_policy.decision")
MOST_FINDINGS = 50
"""Most findings that one line names; a pod can be written to have thousands."""
MOST_CHARACTERS = 253
"""Most characters of a text that a caller writes. Names in Kubernetes, and places with names of containers, are not
longer."""
_OF_THE_CALLER = ("uid", "operation", "kind", "namespace", "name")


class JsonFormatter(logging.Formatter):
    """A log record as one JSON object; `extra={"fields": {...}}` adds to it."""

    def format(self, record: logging.LogRecord) -> str:
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


def configure(level: str) -> None:
    """Send every log of the process to standard error as JSON lines, from `level` (debug, info, warning, error) up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.raiseExceptions = False  # a line that cannot be written is lost, and nothing else is
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
    DECISIONS.info(message, extra={"fields": fields})
