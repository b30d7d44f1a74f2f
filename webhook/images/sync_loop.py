"""The thread that keeps one replica in step with the shared object: soon after there is news, and now and then."""

import logging
import random
import threading

from webhook.images.shared_results import Sharing, StoreError

READ_SECONDS = 15.0
"""How often the object is read."""
WRITE_SECONDS = 3.0
"""How long news wait for more of them."""
SLOW_BYTES = 64 * 1024
"""A larger object is written less often: for each so many bytes they wait a second longer."""

_FIRST_SECONDS = 10.0

_log = logging.getLogger("gpu_policy.images")


class SyncLoop:
    """Exchanges results when it is time. What goes wrong is said once, and never ends the thread."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._tried = threading.Event()
        self._complaint = ""
        self._thread = threading.Thread(target=self._run, name="images-shared", daemon=True)
        self.is_well = False
        """Whether the last exchange succeeded."""

    def add(self, reference: str) -> None:
        """There is news."""
        self._sharing.add(reference)
        self._wake.set()

    def start(self) -> None:
        """Begin, with a first exchange."""
        self._thread.start()

    def wait_for_the_first(self) -> None:
        """Wait until it was tried for the first time, 10 seconds at most."""
        self._tried.wait(_FIRST_SECONDS)

    def close(self, seconds: float) -> None:
        """End the thread within that time; it tries to write what is new."""
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._try()
            self._tried.set()
            if self._wake.wait(READ_SECONDS * random.uniform(0.8, 1.2)):  # noqa: S311  # apart from other replicas
                self._stop.wait(WRITE_SECONDS + self._sharing.size / SLOW_BYTES)
            self._wake.clear()
        if self._sharing.has_news:
            self._try()

    def _try(self) -> None:
        complaint, bug = "", None
        try:
            self._sharing.exchange()
        except StoreError as error:
            complaint = str(error)
        except Exception as error:  # noqa: BLE001  # a bug met in one exchange must not end all later ones
            complaint, bug = repr(error), error
        if complaint and complaint != self._complaint:
            _log.error("results are not shared with the other replicas: %s", complaint, exc_info=bug)
        self._complaint = complaint
        self.is_well = not complaint
