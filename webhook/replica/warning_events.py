"""Writes Events of reason GpuPolicyWarning on controllers, with what rules in mode `warn` say about their pods, and on
gated pods that may not start.

A controller gets the warnings about its pods in the answer, and nobody reads them there; nor does anybody read why a
queue could not take the last gate of a pod away. Events are written in the
background, one every few seconds, and only about pods that the API server has stored: whoever reaches the port can make
pods up. The owner of a ReplicaSet gets the Event in its place. All replicas give one warning one name in one hour, so
the API server keeps the first Event and refuses the others; nothing is repeated or counted up.
"""

import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from webhook.admission import logs
from webhook.admission.admission_review import AdmissionRequest
from webhook.admission.metrics import Metrics
from webhook.admission.phases import Decision, enters
from webhook.kubernetes.api_errors import ApiServerError, RefusedError
from webhook.kubernetes.api_paths import CORE, path_of
from webhook.kubernetes.api_server import METADATA, ApiServer
from webhook.model.json_parts import part
from webhook.model.shape import cut_to_bytes
from webhook.model.workloads import controller_of, is_pod
from webhook.outcome import printable, worst_first
from webhook.periodic_task import Attempts, PeriodicTask
from webhook.rules.rule_settings import Mode

REASON = "GpuPolicyWarning"
COMPONENT = "gpu-policy-webhook"
RESULTS = ("written", "known", "unconfirmed", "dropped", "failed")
"""What becomes of warnings about pods with controllers."""

MOST_A_MINUTE = 20
"""Most Events that one replica writes in any minute: one in each round."""
_ROUND_SECONDS = 60 / MOST_A_MINUTE / 0.8  # rounds are up to a fifth shorter
_LOOKED_FOR = 5
"""Most pods that are looked for in one round."""
MOST_WAITING = 200
MOST_OF_A_NAMESPACE = 20
"""Most warnings about pods of one namespace that wait: a storm in it delays the others by a minute."""
SETTLE_SECONDS = 3.0
"""Seconds from the answer about a pod until it is looked for: by then the API server has usually stored it."""
LONGEST_MESSAGE = 1024
"""Most bytes of a message in UTF-8; `events.k8s.io/v1` allows no longer ones."""
_LONGEST_NAME = 253
_ANSWER_SECONDS = 5.0
_CLOSE_SECONDS = 0.7

_log = logging.getLogger("gpu_policy.warnings")


@dataclass(frozen=True, slots=True)
class PodWarning:
    """What one rule says about a stored pod. `controller` is the uid of the controller as the pod has it, which anybody
    can write; the pod's own uid where the Event is on the pod.
    """

    namespace: str
    pod: str
    uid: str
    controller: str
    rule: str
    message: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.namespace, self.controller, self.rule


def warnings_in(request: AdmissionRequest, decision: Decision) -> list[PodWarning]:
    """The warnings of a decision of the validating phase, one for each rule: the worst finding speaks for all.

    The decision has to be about a new pod with a controller that is admitted, and no dry run. Only rules in mode `warn`
    count. A gated pod that may not start has one, with the refusal.
    """
    outcome, raw = decision.outcome, request.object
    if outcome is None or raw is None or request.is_dry_run:
        return []
    if not decision.answer.is_allowed:
        uid = part(raw, "metadata", "uid")
        if request.operation != "UPDATE" or not enters(request) or not isinstance(uid, str):
            return []
        text = cut_to_bytes(f"may not start: {printable(decision.answer.message)}", LONGEST_MESSAGE)
        return [PodWarning(request.namespace, request.name[:_LONGEST_NAME], uid, uid, "gates", text)]
    findings = [one for one in worst_first(outcome.findings) if one.mode is Mode.WARN and one.warns]
    is_new_pod = request.operation == "CREATE" and not request.subresource and is_pod(request.api_version, request.kind)
    controller = controller_of(raw) if findings and is_new_pod else None
    if controller is None:
        return []
    names = request.name or part(raw, "metadata", "name"), part(raw, "metadata", "uid"), controller.get("uid")
    pod, uid, owner = (name if isinstance(name, str) and len(name) <= _LONGEST_NAME else "" for name in names)
    if not (pod and uid and owner):
        return []
    warnings = []
    for rule in dict.fromkeys(one.rule for one in findings):
        texts = [one.note for one in findings if one.rule == rule]
        more = sum(one.number for one in findings if one.rule == rule) - 1
        others = f", and {more} more warning{'s' * (more > 1)}" if more else ""
        about = printable(f" (Pod {pod}, mode warn of policy {outcome.policy.name}{others})")
        text = cut_to_bytes(printable(texts[0]), max(LONGEST_MESSAGE - len(about.encode()), 0))
        message = cut_to_bytes(f"{text}{about}", LONGEST_MESSAGE)
        warnings.append(PodWarning(request.namespace, pod, uid, owner, rule, message))
    return warnings


class WarningEvents:
    """The Events of one replica. Make it after the fork. No error here delays or changes an answer."""

    def __init__(self, kubeconfig: Path | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._server = ApiServer(kubeconfig)
        self._clock = clock
        self._waiting: deque[tuple[float, PodWarning]] = deque()
        """Warnings, each with the time from which its pod is looked for."""
        self._told: set[tuple[str, str, str]] = set()
        self._hour = 0
        self._lock = Lock()
        self._count: Callable[[str], None] = lambda _result: None
        self._is_deaf = False
        attempts = Attempts(_log, "Events cannot be written", (ApiServerError,), logging.WARNING)
        self.round = partial(attempts.make, self.write_one)
        self._task = PeriodicTask("warning-events", self.round, _ROUND_SECONDS, waits_first=True)

    def start(self, metrics: Metrics) -> None:
        self.count_in(metrics)
        self._task.start()

    def count_in(self, metrics: Metrics) -> None:
        metrics.watch("warning_events_waiting", lambda: len(self._waiting))
        self._count = metrics.count_results("warning_events", RESULTS)

    def close(self) -> None:
        """End the thread. Warnings that wait are lost; the next pod of their controllers brings them again."""
        self._task.close(_CLOSE_SECONDS)

    def hear(self, request: AdmissionRequest, decision: Decision) -> None:
        """Keep the warnings of a decision of the validating phase that are new in this hour."""
        try:
            for warning in warnings_in(request, decision):
                self._add(warning)
        except Exception as error:  # noqa: BLE001  # a bug here must not cost an answer that is made already
            if not self._is_deaf:
                _log.error("a bug: a warning is not kept for an Event", extra={"fields": logs.whereabouts(error)})
            self._is_deaf = True

    def _add(self, warning: PodWarning) -> None:
        with self._lock:
            hour = self._hour_now()
            if hour != self._hour:
                self._hour, self._told = hour, set()
            if warning.key in self._told:
                return
            of_namespace = sum(one.namespace == warning.namespace for _, one in self._waiting)
            if of_namespace >= MOST_OF_A_NAMESPACE or len(self._waiting) >= MOST_WAITING:
                self._count("dropped")
                return
            self._told.add(warning.key)
            self._waiting.append((self._clock() + SETTLE_SECONDS, warning))

    def write_one(self) -> None:
        """One round: write the Event of the first warning whose pod is stored. Raises ApiServerError."""
        for _ in range(_LOOKED_FOR):
            with self._lock:
                if not self._waiting or self._waiting[0][0] > self._clock():
                    return
                _, warning = self._waiting.popleft()
            try:
                result = self._tell(warning)
            except ApiServerError:
                self._told.discard(warning.key)
                self._count("failed")
                raise
            if result == "unconfirmed":
                self._told.discard(warning.key)
            self._count(result)
            if result == "written":
                return

    def _tell(self, warning: PodWarning) -> str:
        """Write one Event; returns what became of it, one of RESULTS."""
        stored = self._metadata("pods", CORE, warning.namespace, warning.pod)
        owner = controller_of(stored) or {}
        if warning.controller == warning.uid:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": warning.pod, "uid": warning.uid}
        if (part(stored, "metadata", "uid"), owner.get("uid")) != (warning.uid, warning.controller):
            return "unconfirmed"
        if owner.get("kind") == "ReplicaSet" and str(owner.get("apiVersion")).startswith("apps/"):
            replica_set = self._metadata("replicasets", "/apis/apps/v1", warning.namespace, str(owner.get("name")))
            if part(replica_set, "metadata", "uid") == warning.controller:
                owner = controller_of(replica_set) or owner
        event = self._event(warning, owner)
        try:
            self._server.send("POST", path_of(CORE, "events", namespace=warning.namespace), event, _ANSWER_SECONDS)
        except RefusedError as error:
            if error.status == 409:
                return "known"
            if error.is_about_ending(warning.namespace):
                return "unconfirmed"
            if error.status in (400, 422):  # about this owner alone, and it would be so in each attempt of this hour
                _log.warning("no Event about %s in %s: %s", warning.rule, warning.namespace, error)
                return "failed"
            raise
        return "written"

    def _metadata(self, plural: str, api: str, namespace: str, name: str) -> Mapping[str, Any]:
        try:
            path = path_of(api, plural, namespace=namespace, name=name)
        except ValueError:  # no name that an object can have
            return {}
        try:
            return self._server.get(path, {}, _ANSWER_SECONDS, METADATA)
        except RefusedError as error:
            if error.status == 404:
                return {}
            raise

    def _event(self, warning: PodWarning, owner: Mapping[str, Any]) -> Mapping[str, Any]:
        place = {"namespace": warning.namespace}
        regarding = {key: owner[key] for key in ("apiVersion", "kind", "name", "uid") if key in owner}
        named = "/".join((warning.namespace, str(owner.get("uid")), warning.rule, str(self._hour_now())))
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._server.now()))
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {**place, "name": f"gpu-policy.{hashlib.sha256(named.encode()).hexdigest()[:20]}"},
            "involvedObject": {**place, **regarding},
            "related": {**place, "apiVersion": "v1", "kind": "Pod", "name": warning.pod, "uid": warning.uid},
            "type": "Warning",
            "reason": REASON,
            "message": warning.message,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }

    def _hour_now(self) -> int:
        return int(self._server.now() // 3600)
