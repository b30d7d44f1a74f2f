"""The current set of policies: replaced as a whole when files change, and kept while the files have mistakes.

A faulty file, a lost `_default.yaml`, `_quotas.yaml` or `_cuda.yaml`, or an empty directory never means "allow
everything". The set in use stays, and the mistake is logged and shown in the status until it is corrected.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from webhook.model.globs import is_glob
from webhook.periodic_task import Attempts, PeriodicTask
from webhook.policy.directory import Contents, read_directory
from webhook.policy.loader import build
from webhook.policy.policy_set import PolicySet
from webhook.policy.schema import CUDA_FILE, DEFAULT_FILE, QUOTAS_FILE
from webhook.rules import RULES
from webhook.rules.rule import Rule
from webhook.yaml_files.file_errors import FileError, FileErrors

HELD_SECONDS = 180.0
"""Seconds after which no other replica still uses a set that was replaced here."""

_log = logging.getLogger("gpu_policy.policy")


@dataclass(frozen=True, slots=True)
class ReloadStatus:
    """The state of loading. `loaded_at_monotonic` is in seconds of the store's clock. `last_error` is empty if the last
    reload succeeded.

    `reloads` counts the sets that replaced another one, `failures` the distinct contents that were refused, and
    `removed_quotas` the quotas that were in a set and not in the next.
    """

    hash: str
    loaded_at_monotonic: float
    last_error: str = ""
    last_ok: bool = True
    reloads: int = 0
    failures: int = 0
    removed_quotas: int = 0


def losses(current: PolicySet, policies: PolicySet, contents: Contents) -> list[FileError]:
    """Why a replica that uses `current` refuses `policies`, made of `contents`, although they have no mistake.

    A file that concerns all namespaces is gone, or a setting changed that is read only at the start.
    """
    errors = []
    if policies.accelerators != current.accelerators:
        message = (
            "differs from the names of GPUs with which this replica started and counts pods; restart the replicas "
            "(kubectl rollout restart), or undo the change"
        )
        errors.append(FileError(str(contents.path / DEFAULT_FILE), 0, "spec.accelerators.extra", message))
    for file, was_there, remedy in (
        (DEFAULT_FILE, current.has_default, "start again without it to run without default rules"),
        (QUOTAS_FILE, current.shared_quotas, "write `quotas: []` in it to run without shared quotas"),
        (CUDA_FILE, current.cuda.written, "write `spec: {}` in it to run with the tables of this release alone"),
    ):
        if was_there and file not in dict(contents.files):
            message = f"the file is gone; restore it, or {remedy}"
            errors.append(FileError(str(contents.path / file), 0, "", message))
    return errors


def removals(before: PolicySet, after: PolicySet) -> Iterator[tuple[str, bool]]:
    """The policies and quotas of their own that namespaces lose: a sentence for each, and whether it is a quota."""
    for pattern, policy in {**before.claims, "": before.default}.items():
        fallback = after.default if not pattern or is_glob(pattern) else after.for_namespace(pattern)
        later = after.claims.get(pattern, fallback)
        loses = policy.quota_of(pattern) is not None and later.quota_of(pattern) is None
        if loses or (pattern and pattern not in after.claims):
            whose = f"namespace {pattern}" if pattern else "every other namespace"
            yield (
                f"{policy.files[-1]}: {whose} has the policy {later.name} now" + ", and no quota any more" * loses,
                loses,
            )
    kept = {shared.quota.name for shared in after.shared_quotas}
    for name in sorted({shared.quota.name for shared in before.shared_quotas} - kept):
        yield f"{QUOTAS_FILE}: the shared quota {name} is no longer there", True


class PolicyStore:
    """The policies of a directory. Reading `current` never waits for a reload."""

    def __init__(
        self,
        directory: Path | str,
        rules: Sequence[Rule] = RULES,
        *,
        listener: Callable[[ReloadStatus], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        interval: float = 1.0,
    ) -> None:
        """Load the directory. `listener` gets the status after every reload, good or bad. Raises FileErrors."""
        self._directory = Path(directory)
        self._rules = tuple(rules)
        self._listener = listener
        self._clock = clock
        self._reloading = threading.Lock()
        attempts = Attempts(_log, f"checking the policies in {self._directory} failed")
        work = partial(attempts.make, self.check)
        self._task = PeriodicTask("policy-watch", work, interval, waits_first=True)
        contents = read_directory(self._directory)
        self._attempted = contents.digest
        self.current = build(contents, self._rules)
        self.status = ReloadStatus(self.current.hash, clock())
        for notice in self.current.notices:
            _log.warning("%s", notice)

    def on_disk(self) -> Contents:
        """The files in the directory now, whether or not they are in use. Raises FileErrors if it cannot be read."""
        return read_directory(self._directory)

    def check(self) -> bool:
        """Read the files, and load them if they changed. True if another set is in use now."""
        with self._reloading:
            return self._reload()

    def watch(self) -> None:
        """Call `check` every `interval` seconds in a background thread, until `close`."""
        self._task.start()

    def close(self) -> None:
        """Stop watching. The loaded policies stay usable."""
        self._task.close()

    def _reload(self) -> bool:
        try:
            contents = read_directory(self._directory)
        except FileErrors as errors:
            return self._keep(str(errors), errors)
        if contents.digest == self._attempted:
            return False
        try:
            policies = build(contents, self._rules)
        except FileErrors as errors:
            return self._keep(contents.digest, errors)
        if lost := losses(self.current, policies, contents):
            return self._keep(contents.digest, FileErrors(lost))
        self._attempted = contents.digest
        return self._take(policies)

    def _keep(self, attempt: str, errors: FileErrors) -> bool:
        """Keep the set in use, and log why once for each distinct attempt."""
        if attempt == self._attempted:
            return False
        self._attempted = attempt
        text = str(errors)
        if text != self.status.last_error:
            _log.error("policies not reloaded, those of %s stay in use:\n%s", self.current.short_hash, text)
        self._publish(replace(self.status, last_error=text, last_ok=False, failures=self.status.failures + 1))
        return False

    def _take(self, policies: PolicySet) -> bool:
        """Use another set. A set with the same content changes only the status."""
        is_other = policies.hash != self.current.hash
        now = self._clock()
        removed = list(removals(self.current, policies))
        for text, _ in removed:
            _log.warning("%s", text)
        if is_other:
            _log.info("policies reloaded: %s replaces %s", policies.short_hash, self.current.short_hash)
        elif not self.status.last_ok:
            _log.info("policies are in order again: %s", policies.short_hash)
        self.current = policies
        status = replace(self.status, hash=policies.hash, loaded_at_monotonic=now, last_error="", last_ok=True)
        quotas = status.removed_quotas + sum(is_quota for _, is_quota in removed)
        self._publish(replace(status, reloads=status.reloads + is_other, removed_quotas=quotas))
        return is_other

    def _publish(self, status: ReloadStatus) -> None:
        self.status = status
        if self._listener is not None:
            self._listener(status)
