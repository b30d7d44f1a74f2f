"""Writes objects of kind EffectiveGPUPolicy, `kubectl get gpupolicies`: which policy a namespace has, for its people.

They decide nothing. Their kind is another one than that of policy files, so that neither is taken for the other.

A namespace has one if a policy names it, or if a pod in it was reviewed. It stays until its namespace goes, and shows
whatever policy the namespace has.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from threading import Lock
from typing import Any

import orjson

from webhook.admission.admission_review import AdmissionRequest
from webhook.admission.metrics import Metrics
from webhook.admission.phases import Decision
from webhook.kubernetes.api_server import ApiServer
from webhook.policy.policy_set import PolicySet
from webhook.policy.policy_status import PolicyStatuses
from webhook.policy.policy_store import HELD_SECONDS, PolicyStore
from webhook.replica.settings import PolicyObjectSettings
from webhook.replica.shown_kind import Place, ShownKind, Status
from webhook.replica.status_objects import StatusObjects, StatusTiming

NAME = "effective"
"""The name of the object of each namespace."""
MOST_HEARD = 100
"""Most namespaces without an object that are remembered from reviews; whoever reaches the port can make names up."""
_HEARD_SECONDS = 300.0
"""Time for which the object of such a namespace is tried to be written."""
_NOT_COMPARED = ("content", "updated")

TIMING = StatusTiming(round=5.0, spread=5.0, lag=HELD_SECONDS)
"""The lag is the time after which every replica has loaded a changed policy."""


def content_of(status: Status) -> str:
    """A hash of what a status says. The objects of thousands of namespaces are kept in memory as no more than this."""
    content = {key: value for key, value in status.items() if key not in _NOT_COMPARED}
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


class PolicyObjects:
    """The objects of one replica. Make it after the fork. No error here delays or changes an answer."""

    def __init__(
        self,
        settings: PolicyObjectSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        timing: StatusTiming = TIMING,
    ) -> None:
        self._server = ApiServer(settings.kubeconfig)
        self._clock = clock
        self._policies: PolicyStore | None = None
        self._heard: dict[str, float] = {}
        self._hearing = Lock()
        self._of: tuple[PolicySet, PolicyStatuses, dict[str, Status]] | None = None
        shown = ShownKind(
            "EffectiveGPUPolicy", "gpupolicies", lambda status: status.get("content"), self._is_newer, _kept
        )
        log = logging.getLogger("gpu_policy.policies")
        self._objects = StatusObjects(self._server, settings.namespace, shown, log, clock=clock, timing=timing)
        self.write_some = self._objects.write_some

    @property
    def known(self) -> int | None:
        """How many such objects the cluster has; None while they are not watched."""
        return self._objects.known

    def follow(self, policies: PolicyStore) -> None:
        """Show these policies. Call it before `start`."""
        self._policies = policies
        self._objects.want(self._wanted)

    def start(self, metrics: Metrics) -> None:  # noqa: ARG002  # companions are started alike
        """Start to watch objects and to write."""
        self._objects.start()

    def close(self) -> None:
        """End the threads, within 2 seconds. The objects stay."""
        self._objects.close()

    def hear(self, request: AdmissionRequest, decision: Decision) -> None:
        """Remember the namespace of a pod that was admitted."""
        if decision.outcome is None or request.is_dry_run or not decision.answer.is_allowed:
            return
        namespace = request.namespace
        if not namespace or namespace in self._heard or self._objects.has((namespace, NAME)):
            return
        with self._hearing:
            if len(self._heard) < MOST_HEARD:
                self._heard[namespace] = self._clock()

    def _wanted(self) -> Mapping[Place, Status]:
        """The status of each namespace that has an object, or is to get one."""
        if self._policies is None:
            return {}
        policies, now = self._policies.current, self._clock()
        if self._of is None or self._of[0] is not policies:
            self._of = policies, PolicyStatuses(policies), {}
        _, statuses, made = self._of
        ours = self._objects.ours
        with self._hearing:
            self._heard = {
                one: since
                for one, since in self._heard.items()
                if now - since < _HEARD_SECONDS and (one, NAME) not in ours
            }
            heard = set(self._heard)
        wanted: dict[Place, Status] = {}
        for namespace in {*policies.names, *heard, *(namespace for namespace, name in ours if name == NAME)}:
            if namespace not in made:
                status = statuses.of(namespace)
                made[namespace] = {**status, "content": content_of(status)}
            wanted[namespace, NAME] = made[namespace]
        return wanted

    def _is_newer(self, stored: Status, _wanted: Status) -> bool:
        """Whether an object was written after this replica loaded its policies: its writer may have newer ones."""
        if self._policies is None:
            return True
        loaded = self._server.now() - (time.monotonic() - self._policies.status.loaded_at_monotonic)
        return str(stored.get("updated", "")) > f"{datetime.fromtimestamp(loaded, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _kept(status: Status) -> dict[str, Any]:
    """Of a stored status, the hash of what it really says, and when it was written."""
    return {"content": content_of(status), "updated": status.get("updated")}
