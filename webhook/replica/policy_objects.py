"""Writes objects of kind EffectiveGPUPolicy, `kubectl get gpupolicies`: which policy a namespace has, for its people.

They decide nothing. Their kind differs from the kind of policy files, so that nobody takes one for the other.

A namespace has one if a policy names it, or if a pod in it was reviewed. It stays until its namespace goes, and shows
whatever policy the namespace has.
"""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock

from webhook.admission.admission_review import AdmissionRequest
from webhook.admission.phases import Decision
from webhook.engine.quota_usage import Place, Status
from webhook.kubernetes.api_server import ApiServer
from webhook.policy.policy_set import PolicySet
from webhook.policy.policy_store import PolicyStore
from webhook.policy.show import PolicyStatuses
from webhook.replica.status_objects import StatusObjects, StatusTiming, StoredStatus, content_of

NAME = "effective"
"""The name of the object of each namespace."""
MOST_HEARD = 100
"""Most namespaces without an object that are remembered from reviews; whoever reaches the port can make names up."""
_HEARD_SECONDS = 300.0
"""Time for which a replica tries to write the object of such a namespace."""

TIMING = StatusTiming(round=5.0, spread=5.0)


class PolicyObjects(StatusObjects):
    """The objects of one replica. Make it after the fork. No error here delays or changes an answer."""

    kind, plural = "EffectiveGPUPolicy", "gpupolicies"

    def __init__(
        self,
        namespace: str,
        kubeconfig: Path | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        timing: StatusTiming = TIMING,
    ) -> None:
        """`namespace` is the namespace of the installation. `kubeconfig` is None in the cluster."""
        super().__init__(ApiServer(kubeconfig), namespace, logging.getLogger("gpu_policy.policies"), timing, clock)
        self._policies: PolicyStore | None = None
        self._heard: dict[str, float] = {}
        self._hearing = Lock()
        self._of: tuple[PolicySet, PolicyStatuses, dict[str, Status]] | None = None

    def follow(self, policies: PolicyStore) -> None:
        self._policies = policies

    def hear(self, request: AdmissionRequest, decision: Decision) -> None:
        if decision.outcome is None or request.is_dry_run or not decision.answer.is_allowed:
            return
        namespace = request.namespace
        if not namespace or namespace in self._heard or self.has((namespace, NAME)):
            return
        with self._hearing:
            if len(self._heard) < MOST_HEARD:
                self._heard[namespace] = self._clock()

    def _wanted(self) -> Mapping[Place, Status | None] | None:
        """The status of each namespace that has an object, or is to get one."""
        if self._policies is None:
            return None
        policies, now = self._policies.current, self._clock()
        if self._of is None or self._of[0] is not policies:
            self._of = policies, PolicyStatuses(policies), {}
        _, statuses, made = self._of
        ours = self.ours
        with self._hearing:
            self._heard = {
                one: since
                for one, since in self._heard.items()
                if now - since < _HEARD_SECONDS and (one, NAME) not in ours
            }
            heard = set(self._heard)
        wanted: dict[Place, Status | None] = {}
        for namespace in {*policies.names, *heard, *(namespace for namespace, name in ours if name == NAME)}:
            if namespace not in made:
                status = statuses.of(namespace)
                made[namespace] = {**status, "content": content_of(status)}
            wanted[namespace, NAME] = made[namespace]
        return wanted

    def _is_newer(self, stored: StoredStatus, wanted: Status) -> bool:  # noqa: ARG002  # the objects of quotas need it
        """Whether an object was written after this replica loaded its policies: its writer may have newer ones."""
        if self._policies is None:
            return True
        return stored.updated > self._now(ago=time.monotonic() - self._policies.status.loaded_at_monotonic)
