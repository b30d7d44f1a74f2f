"""Writes Events of reason GpuPolicyWarning on controllers, with what rules in mode `warn` say about their pods.

Events are written in the background, at most 20 a minute, and only about pods that the API server has stored: whoever
reaches the port can make pods up. The owner of a ReplicaSet gets the Event in its place. All replicas give one warning
one name in one hour, so the API server keeps the first Event and refuses the others; nothing is repeated or counted up.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prometheus_client import Counter

from webhook.admission import logs
from webhook.admission.admission_review import AdmissionRequest
from webhook.admission.metrics import Metrics
from webhook.admission.phases import Decision
from webhook.admission.warned_pods import RuleWarning, WarnedPod, heard_warnings, warnings_of
from webhook.kubernetes.api_errors import ApiServerError, RefusedError, UnreachableError
from webhook.kubernetes.api_paths import CORE, path_of
from webhook.kubernetes.api_server import JSON, METADATA, ApiServer
from webhook.model.json_parts import part
from webhook.model.workloads import controller_of
from webhook.outcome import Finding
from webhook.periodic_task import Attempts, PeriodicTask
from webhook.replica.warning_queue import Allowance, WarningQueue

REASON = "GpuPolicyWarning"
COMPONENT = "gpu-policy-webhook"
MOST_A_MINUTE = 20
"""Most Events that one replica writes, or tries to write, in any minute."""
RESULTS = ("written", "known", "unconfirmed", "dropped", "failed")
"""What becomes of warnings about pods with controllers."""

_ROUND_SECONDS = 1.0
_MOST_LOOKED_FOR = 5
"""Most pods that are looked for in one round."""
_REST_SECONDS = 30.0
"""Time without requests after one that the API server did not answer, or that came too often."""
_RESTING = (401, 429)
_ANSWER_SECONDS = 5.0
_CLOSE_SECONDS = 0.7
_HOUR = 3600
_REPLICA_SETS = "/apis/apps/v1"

_log = logging.getLogger("gpu_policy.warnings")

Injections = Callable[[str, Mapping[str, Any]], Iterable[Finding]]
"""Namespace and a pod -> what rules would inject that are not enforced."""


class _NotToldError(Exception):
    """The pod is not stored as it was reviewed, so that nothing is said about it."""


class WarningEvents:
    """The Events of one replica. Make it after the fork. No error here delays or changes an answer."""

    def __init__(self, kubeconfig: Path | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._server = ApiServer(kubeconfig)
        self._clock = clock
        self._queue = WarningQueue(self._hour, clock)
        self._allowance = Allowance(MOST_A_MINUTE, 60.0, clock)
        self._resting_until = 0.0
        self._injections: Injections = lambda _namespace, _pod: ()
        self._counts: Mapping[str, Counter] = {}
        self._is_deaf = False
        self._attempts = Attempts(_log, "Events cannot be written", (ApiServerError,), logging.WARNING)
        self._task = PeriodicTask("warning-events", self._round, _ROUND_SECONDS, waits_first=True)

    def know(self, injections: Injections) -> None:
        """Set the function that says what rules would inject into a stored pod. Call it before `start`."""
        self._injections = injections

    def start(self, metrics: Metrics) -> None:
        """Start the thread, and count what becomes of warnings."""
        self.count_in(metrics)
        self._task.start()

    def count_in(self, metrics: Metrics) -> None:
        """Count what becomes of warnings."""
        counter = metrics.count_warning_events(RESULTS, lambda: len(self._queue))
        self._counts = {result: counter.labels(result) for result in RESULTS}

    def close(self) -> None:
        """End the thread. Warnings that wait are lost; the next pod of their controllers brings them again."""
        self._task.close(_CLOSE_SECONDS)

    def hear(self, request: AdmissionRequest, decision: Decision) -> None:
        """Keep the warnings of a decision of the validating phase, if they are new in this hour."""
        try:
            heard = heard_warnings(request, decision)
            if heard is not None and self._queue.add(heard):
                self._count("dropped")
        except Exception as error:  # noqa: BLE001  # a bug here must not cost an answer that is made already
            if not self._is_deaf:
                _log.error("a bug: a warning is not kept for an Event", extra={"fields": logs.whereabouts(error)})
            self._is_deaf = True

    def write_some(self) -> None:
        """One round: look for some pods that wait, and write their Events. Raises ApiServerError."""
        if self._clock() < self._resting_until:
            return
        for _ in range(_MOST_LOOKED_FOR):
            pod = self._queue.take() if self._allowance.has_room else None
            if pod is None:
                return
            try:
                self._tell(pod)
            except _NotToldError:
                self._queue.forget(pod)
                self._count("unconfirmed")
            except ApiServerError as error:
                self._queue.forget(pod)
                self._count("failed")
                if isinstance(error, UnreachableError) or error.status in _RESTING or error.status >= 500:
                    self._resting_until = self._clock() + _REST_SECONDS
                raise

    def _round(self) -> None:
        self._attempts.make(self.write_some)

    def _tell(self, pod: WarnedPod) -> None:
        """Write the Events about one pod. Raises _NotToldError, and ApiServerError if no Event can be written now."""
        stored = self._stored(pod)
        warnings = dict(pod.warnings)
        if pod.may_lack:
            for rule, warning in warnings_of(self._injections(pod.namespace, stored)).items():
                if rule in warnings:
                    known = warnings[rule]
                    warnings[rule] = RuleWarning(known.text, known.more + 1 + warning.more)
                elif self._queue.claim(pod, rule):
                    warnings[rule] = warning
        if not warnings:
            return
        owner = self._root_of(pod.namespace, controller_of(stored) or {})
        for rule, warning in warnings.items():
            if not self._allowance.take():
                self._queue.forget(pod, [rule])
                self._count("dropped")
                continue
            try:
                self._write(pod, rule, self._event(pod, owner, rule, warning))
            except (_NotToldError, ApiServerError):
                self._queue.forget(pod, warnings)
                raise

    def _stored(self, pod: WarnedPod) -> Mapping[str, Any]:
        """The pod as the API server has it, with the uid and the controller that the review had."""
        path = path_of(CORE, "pods", namespace=pod.namespace, name=pod.name)
        try:
            stored = self._server.get(path, {}, _ANSWER_SECONDS, JSON if pod.may_lack else METADATA)
        except RefusedError as error:
            if error.status == 404:
                raise _NotToldError from error
            raise
        if (part(stored, "metadata", "uid"), (controller_of(stored) or {}).get("uid")) != (pod.uid, pod.controller):
            raise _NotToldError
        return stored

    def _root_of(self, namespace: str, owner: Mapping[str, Any]) -> Mapping[str, Any]:
        """The controller of a ReplicaSet in its place, such as a Deployment; else the owner itself."""
        if owner.get("kind") != "ReplicaSet" or not str(owner.get("apiVersion")).startswith("apps/"):
            return owner
        try:
            path = path_of(_REPLICA_SETS, "replicasets", namespace=namespace, name=str(owner.get("name")))
            found = self._server.get(path, {}, _ANSWER_SECONDS, METADATA)
        except (RefusedError, ValueError):
            return owner
        is_it = part(found, "metadata", "uid") == owner.get("uid")
        return (controller_of(found) or owner) if is_it else owner

    def _write(self, pod: WarnedPod, rule: str, event: Mapping[str, Any]) -> None:
        try:
            self._server.send("POST", path_of(CORE, "events", namespace=pod.namespace), event, _ANSWER_SECONDS)
        except RefusedError as error:
            if error.status == 409:
                self._count("known")
                return
            if error.is_about_ending(pod.namespace):
                raise _NotToldError from error
            if error.status in (400, 422):  # about this owner alone, and it would be so in each attempt of this hour
                _log.warning("no Event about %s in %s: %s", rule, pod.namespace, error)
                self._count("failed")
                return
            raise
        self._count("written")

    def _event(self, pod: WarnedPod, owner: Mapping[str, Any], rule: str, warning: RuleWarning) -> Mapping[str, Any]:
        place = {"namespace": pod.namespace}
        regarding = {key: owner[key] for key in ("apiVersion", "kind", "name", "uid") if key in owner}
        named = "/".join((pod.namespace, str(owner.get("uid")), rule, str(self._hour())))
        now = f"{datetime.fromtimestamp(self._server.now(), UTC):%Y-%m-%dT%H:%M:%SZ}"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {**place, "name": f"gpu-policy.{hashlib.sha256(named.encode()).hexdigest()[:20]}"},
            "involvedObject": {**place, **regarding},
            "related": {**place, "apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid},
            "type": "Warning",
            "reason": REASON,
            "message": warning.about(pod.name, pod.policy),
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }

    def _hour(self) -> int:
        """The number of the present hour by the API server's clock."""
        return int(self._server.now() // _HOUR)

    def _count(self, result: str) -> None:
        if (count := self._counts.get(result)) is not None:
            count.inc()
