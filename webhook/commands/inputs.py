"""Loads the input of commands: policies and facts. Unusable input ends a command with a message and exit status 2.

Imports stand inside the functions, so that each command pays only for what it uses.
"""

import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from webhook.model.accelerators import BUILT_IN, Accelerators

if TYPE_CHECKING:
    from webhook.audit.documents import Document, DocumentError
    from webhook.facts.facts import FactsSource
    from webhook.facts.inventory import Inventory
    from webhook.facts.static_pods import StaticPods
    from webhook.ledger.ledgers import Ledgers
    from webhook.policy.policy_set import PolicySet
    from webhook.replica.image_lookups import Resolver

UNUSABLE = 2
"""Exit status for unusable input or policy."""

_TWO_SOURCES = "--inventory and --kubeconfig exclude each other; name one source of facts"


def fail(message: str) -> NoReturn:
    """Print what is wrong and exit with status 2."""
    click.echo(message, err=True)
    sys.exit(UNUSABLE)


def run_apart(check: Callable[[], None]) -> None:
    """Run a check in another process, so that this process does not import what it needs; exit where it fails."""

    def run() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            check()
        finally:
            logging.shutdown()  # such a process ends without writing out what waits

    process = multiprocessing.get_context("fork").Process(target=run)

    def stop(_signal: int, _frame: object) -> NoReturn:  # the first process of a container is not ended by default
        process.terminate()
        sys.exit(0)

    before = signal.signal(signal.SIGTERM, stop)
    process.start()
    process.join()
    signal.signal(signal.SIGTERM, before)
    if process.exitcode:
        sys.exit(UNUSABLE)


def warn(message: str) -> None:
    """Print a note to standard error, apart from output that programs read."""
    click.echo(f"warning: {message}", err=True)


def manifests_of(paths: Sequence[str], *, is_strict: bool) -> "list[Document | DocumentError]":
    """The documents of files, directories and standard input. Repeated keys are warnings, or errors if strict."""
    from webhook.audit.documents import read_all

    return list(read_all(paths, sys.stdin.buffer, None if is_strict else warn))


def load_policies(directory: Path) -> "PolicySet":
    """The policies of a directory; exits with status 2 after printing every mistake in them."""
    from webhook.policy.loader import load
    from webhook.yaml_files.file_errors import FileErrors

    try:
        return load(directory)
    except FileErrors as error:
        fail(str(error))


def load_inventory(path: Path, accelerators: Accelerators = BUILT_IN) -> "FactsSource":
    """The facts of an inventory file; exits with status 2 where it cannot be used."""
    from webhook.facts.facts import StaticFacts

    return StaticFacts(inventory_of(path, accelerators).facts)


def inventory_pods(path: Path, accelerators: Accelerators = BUILT_IN) -> "StaticPods":
    """The pods of an inventory file that count against quotas; exits with status 2 where it cannot be used."""
    return inventory_of(path, accelerators).pods


def inventory_of(path: Path, accelerators: Accelerators = BUILT_IN) -> "Inventory":
    """An inventory file, read once; exits with status 2 where it cannot be used. Prints notes on unusable parts."""
    return _read_once(path, os.path.abspath(path), _version_of(path), accelerators)


def _version_of(path: Path) -> tuple[int, int]:
    """When a file was written, in nanoseconds, and its size; zeros where it cannot be read."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=1)
def _read_once(path: Path, _place: str, _version: tuple[int, int], accelerators: Accelerators) -> "Inventory":
    """An inventory from the cache; the key says which file it is, which a relative path alone does not."""
    from webhook.facts import inventory

    try:
        found = inventory.read_inventory(path, accelerators)
    except inventory.InventoryError as error:
        fail(str(error))
    for message in found.left_out:
        warn(f"{path}: {message}")
    more = found.pods.unreadable - len(found.pods.left_out)
    if more > 0:
        warn(f"{path}: {more} more pods do not count against quotas")
    return found


def ledgers_of(inventory: Path | None, kubeconfig: Path | None, accelerators: Accelerators = BUILT_IN) -> "Ledgers":
    """Ledgers in memory for one command, with the pods of a file, of a cluster, or with none."""
    from webhook.facts.static_pods import StaticPods
    from webhook.ledger.context import LedgerContext
    from webhook.ledger.ledger_store import MemoryStore
    from webhook.ledger.ledgers import Ledgers

    if kubeconfig is None:
        pods = StaticPods() if inventory is None else inventory_pods(inventory, accelerators)
        return Ledgers(LedgerContext(MemoryStore(), pods))
    from webhook.facts.pod_source import LivePods
    from webhook.kubernetes.api_server import ApiServer

    return Ledgers(LedgerContext(MemoryStore(), LivePods(ApiServer(kubeconfig), accelerators=accelerators)))


def namespaces_of(kubeconfig: Path) -> frozenset[str]:
    """The names of a cluster's namespaces; exits with status 2 where they cannot be listed."""
    from webhook.doctor.cluster import UnavailableError, connect

    try:
        cluster = connect(str(kubeconfig), None)
        return frozenset(one["metadata"]["name"] for one in cluster.items("/api/v1/namespaces"))
    except UnavailableError as error:
        fail(f"namespaces of the cluster: {error}")


def check_registration(path: Path) -> None:
    """Exit with status 2 where a file does not have both webhook configurations."""
    from webhook.kubernetes.webhook_configurations import RegistrationError, load_registration

    try:
        load_registration(path)
    except RegistrationError as error:
        fail(str(error))


def check_certificate_names(names: tuple[str, ...]) -> None:
    """Exit with status 2 for names that no certificate can have."""
    from certs.authority import CertificateError, general_names

    try:
        general_names(names)
    except CertificateError as error:
        fail(f"--certificate-name: {error}")


def check_registries(registries: Path, credentials: Path | None) -> None:
    """Exit with status 2 where a list of registries, or the credentials for them, cannot be used."""
    from webhook.images.allowlist import AllowList, AllowListError
    from webhook.images.credentials import Credentials, CredentialsError

    try:
        AllowList.load(registries)
        Credentials(credentials)
    except (AllowListError, CredentialsError) as error:
        fail(str(error))


def registries_of(
    is_asked_for: bool, registries: Path | None, credentials: Path | None, results: str | None, kubeconfig: Path | None
) -> "Resolver | None":
    """Looks images up in their registries; None without --resolve."""
    if not is_asked_for:
        if registries is not None or credentials is not None or results is not None:
            fail(
                "--registries, --registry-credentials and --image-results need --resolve; add --resolve, or leave "
                "them out"
            )
        return None
    from webhook.replica.image_lookups import Resolver, UnusableError

    try:
        return Resolver(registries, credentials, results, kubeconfig)
    except UnusableError as error:
        fail(str(error))


def check_source_of_facts(inventory: Path | None, kubeconfig: Path | None) -> None:
    """Exit with status 2 for mistakes that can be found without the Kubernetes client, which only the worker loads."""
    if inventory is not None and kubeconfig is not None:
        fail(_TWO_SOURCES)
    if kubeconfig is not None and not kubeconfig.is_file():
        fail(f"{kubeconfig}: no such file; name a kubeconfig that kubectl accepts")
    if inventory is None and kubeconfig is None and "KUBERNETES_SERVICE_HOST" not in os.environ:
        fail(
            "no source of facts about the cluster: this process does not run in a pod; give --inventory or --kubeconfig"
        )


def facts_of(inventory: Path | None, kubeconfig: Path | None, accelerators: Accelerators = BUILT_IN) -> "FactsSource":
    """Facts for one command: from a file, from a cluster (after at most 30 s), or none."""
    from webhook.facts.facts import ClusterFacts, StaticFacts

    if inventory is not None and kubeconfig is not None:
        fail(_TWO_SOURCES)
    if inventory is not None:
        return load_inventory(inventory, accelerators)
    if kubeconfig is None:
        return StaticFacts(ClusterFacts(), "no source of facts")
    from webhook.facts.live import LiveFacts
    from webhook.kubernetes.api_errors import ClusterConfigError

    try:
        source = LiveFacts(kubeconfig=kubeconfig, accelerators=accelerators)
    except ClusterConfigError as error:
        fail(str(error))
    source.start()
    deadline = time.monotonic() + 30
    while source.facts is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return source
