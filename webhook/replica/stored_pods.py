"""Reads the pods that Kubernetes makes claims for, each as it is stored at this moment."""

import logging
import time
from threading import Semaphore
from typing import TYPE_CHECKING

from webhook.admission.pod_look_up import PodUnknownError
from webhook.kubernetes.api_errors import ApiServerError
from webhook.kubernetes.api_paths import CORE, path_of
from webhook.model.claim_owner import ClaimOwner
from webhook.model.subject import PodSubject, subject_of

if TYPE_CHECKING:
    from webhook.kubernetes.api_server import ApiServer

AT_A_TIME = 2
"""Most pods that are read at a time: a pod of 1.5 MiB may take 60 MiB of memory while it is read."""

_log = logging.getLogger("gpu_policy.claims")


class PodsOfClaims:
    """Implements `webhook.admission.pod_look_up.StoredPods` by one request for each claim. Threads may share it."""

    def __init__(self, server: "ApiServer") -> None:
        self._server = server
        self._turns = Semaphore(AT_A_TIME)

    def subject(self, namespace: str, owner: ClaimOwner, seconds: float) -> PodSubject | None:
        """See `webhook.admission.pod_look_up.StoredPods`."""
        ends = time.monotonic() + seconds
        if not self._turns.acquire(timeout=max(0.0, seconds)):
            raise PodUnknownError("too many pods are being looked up; Kubernetes tries again")
        try:
            return self._read(namespace, owner, max(0.05, ends - time.monotonic()))
        finally:
            self._turns.release()

    def _read(self, namespace: str, owner: ClaimOwner, seconds: float) -> PodSubject | None:
        try:
            path = path_of(CORE, "pods", namespace=namespace, name=owner.name)
        except ValueError:  # no name of a pod
            return None
        try:
            found = self._server.get(path, {}, seconds)
        except ApiServerError as error:
            if error.is_about_missing(owner.name):
                return None
            _log.warning("exceptions of a pod are not known: %s", error.sentence("GET", path))
            text = f"{error.for_authors('the pod cannot be read')}; Kubernetes tries again"
            raise PodUnknownError(text, error.code) from error
        return subject_of(found) if owner.is_of(found) else None
