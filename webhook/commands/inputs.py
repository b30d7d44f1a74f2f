"""What commands read, and how they print. Unusable input ends a command with exit status 2."""

import json
import locale
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from webhook.model.accelerators import BUILT_IN, Accelerators

if TYPE_CHECKING:
    from rich.console import Console

    from webhook.audit.cluster_objects import Progress
    from webhook.audit.documents import Document, DocumentError
    from webhook.audit.object_sources import Background
    from webhook.kubernetes.api_server import ApiServer
    from webhook.ledger.inventory import Inventory
    from webhook.policy.policy_set import PolicySet
    from webhook.why.reading import InventoryServer

UNUSABLE = 2
_WIDEST = 100_000
"""Columns of what is no terminal: nothing is cut or wrapped there."""
_NARROWEST = 20
"""Fewest columns of a text, however far it is indented."""


class Working:
    """Shows at a terminal that a command still works, from its third second until it prints something."""

    def __init__(self, doing: str) -> None:
        from rich import progress

        columns = progress.TextColumn("{task.description}"), progress.BarColumn(), progress.TimeElapsedColumn()
        self._bar = progress.Progress(*columns, console=console(is_error=True), transient=True)
        self._task = self._bar.add_task(doing, total=None)
        self._timer = threading.Timer(2.0, self._bar.start)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._bar.live.is_started:
            self._bar.stop()

    def show(self, made: "Progress") -> None:
        total = None if made.remaining is None else made.objects + made.remaining
        self._bar.update(self._task, description=f"{made.kind} {made.objects:,}", completed=made.objects, total=total)


def working() -> Working | None:
    """What shows that the command works; None where nobody looks."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.find_object(Working)


def on_progress(made: "Progress") -> None:
    """Show how much of a cluster was read."""
    if (shown := working()) is not None:
        shown.show(made)


def console(*, is_error: bool = False, is_file: bool = False) -> "Console":
    """The one way to print: with colours at a terminal that has them, and elsewhere plain, in lines of any length.

    Lines that may wrap softly are wrapped between words at a terminal, and keep their indentation.
    """
    from rich.console import Console
    from rich.text import Text

    class Screen(Console):
        encoding: Any = property(lambda _: locale.getencoding().lower())  # UTF-8 is Python's, not always the locale's

        def print(self, *objects: Any, soft_wrap: bool | None = None, **how: Any) -> None:
            if soft_wrap and self.is_terminal and isinstance(text := objects[0], Text):
                depth = len(text.plain) - len(text.plain.lstrip(" "))
                lines = text[depth:].wrap(self, max(self.width - depth, _NARROWEST))
                objects = (Text("\n").join(Text(" " * depth).append_text(line) for line in lines),)
            super().print(*objects, soft_wrap=soft_wrap, **how)

    stream = sys.stderr if is_error else sys.stdout
    if not is_error and (shown := working()) is not None:
        shown.stop()
    is_plain = is_file or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in ("dumb", "unknown")
    width = None if stream.isatty() and not is_file else _WIDEST
    return Screen(stderr=is_error, highlight=False, width=width, color_system=None if is_plain else "auto")


def echo(text: str, *, is_error: bool = False) -> None:
    """Print a text as it is."""
    if (shown := working()) is not None:
        shown.stop()
    click.echo(text, err=is_error, nl=not text.endswith("\n"))


WHOLE: Any = {"no_wrap": True, "overflow": "ignore", "crop": False}
"""How rich prints a line whole, however long it is."""


def print_line(*parts: str | tuple[str, str], wraps: bool = True) -> None:
    """Print one line of texts, each alone or with its style. Without `wraps` it can be copied whole."""
    from rich.text import Text

    from webhook.outcome import printable

    named = ((one, "") if isinstance(one, str) else one for one in parts)
    text = Text.assemble(*((printable(part), style) for part, style in named))
    console().print(text, **({"soft_wrap": True} if wraps else WHOLE))


def as_yaml(document: str) -> str:
    """A document in JSON as YAML."""
    import yaml

    text: str = yaml.safe_dump(json.loads(document), sort_keys=False, width=120)
    return text


def print_document(document: object, output: str) -> None:
    """Print a document for programs, as `json` or `yaml`."""
    text = json.dumps(document, indent=2)
    echo(as_yaml(text) if output == "yaml" else text)


def fail(message: str) -> NoReturn:
    """Print what is wrong and exit with status 2."""
    echo(message, is_error=True)
    sys.exit(UNUSABLE)


def warn(message: str) -> None:
    """Print a warning to standard error, apart from output that programs read."""
    echo(f"warning: {message}", is_error=True)


def manifests_of(paths: Sequence[str], *, is_strict: bool) -> "list[Document | DocumentError]":
    """The documents of files, directories and standard input. Repeated keys are warnings, or errors if strict."""
    from webhook.audit.documents import read_all

    return list(read_all(paths, sys.stdin.buffer, None if is_strict else warn))


def server_of(kubeconfig: str | None, context: str | None) -> "ApiServer":
    """The API server; exits with status 2 and the reason if there is none."""
    from webhook.kubernetes.api_errors import ClusterConfigError
    from webhook.kubernetes.kubeconfig import find_server

    try:
        return find_server(kubeconfig or os.environ.get("KUBECONFIG"), context)
    except ClusterConfigError as error:
        takes_files = "inventory" in {one.name for one in click.get_current_context().command.params}
        fail(f"{error}{', or a file instead of a cluster: --inventory FILE' * takes_files}")


def load_policies(directory: Path, *, judges_ends: bool = True) -> "PolicySet":
    """The policies of a directory; exits with status 2 after printing every mistake in them.

    With `judges_ends` an exception whose end is too far ahead is a mistake.
    """
    from webhook.policy.loader import load
    from webhook.yaml_files.file_errors import FileErrors

    try:
        return load(directory, now=time.time() if judges_ends else None)
    except FileErrors as error:
        is_there = os.path.isdir(directory)  # Path.is_dir raises if it may not look at the path
        fail(f"{error}{'' if is_there else '; name another one, or write a first policy: gpu-policy policy init'}")


def inventory_of(
    path: Path,
    accelerators: Accelerators = BUILT_IN,
    on_object: Callable[[str, Any], object] = lambda _kind, _object: None,
) -> "Inventory":
    """The facts and the pods of an inventory file; exits with status 2 if the file cannot be used.

    Prints warnings about objects that are left out. `on_object` is called with the kind of each object and the object.
    """
    from webhook.ledger.inventory import read_inventory
    from webhook.yaml_files.file_errors import FileErrors

    try:
        found = read_inventory(path, accelerators, on_object)
    except FileErrors as error:
        fail(str(error))
    for message in found.left_out:
        warn(f"{path}: {message}")
    return found


def server_of_file(inventory: Path, policies: "PolicySet | None") -> "InventoryServer":
    """What answers for an inventory as an API server does; with policies also of quotas and exceptions."""
    from webhook.why.reading import InventoryServer

    server = InventoryServer()
    found = inventory_of(inventory, BUILT_IN if policies is None else policies.accelerators, server.add)
    if policies is not None:
        server.add_statuses(policies, found.pods.seen())
    return server


def refuse_two_sources(inventory: Path | None, *, is_cluster_named: bool) -> None:
    """Exit with status 2 if both sources of facts are named."""
    if inventory is not None and is_cluster_named:
        fail("--inventory and --kubeconfig exclude each other; name one source of facts")


def background_of(
    inventory: Path | None, kubeconfig: str | Path | None, accelerators: Accelerators, context: str | None = None
) -> "Background":
    """What a file or a cluster says; nothing without either. Exits with status 2 if it cannot be read."""
    from webhook.audit.object_sources import Background, read_background

    asks_a_server = kubeconfig is not None or context is not None
    refuse_two_sources(inventory, is_cluster_named=asks_a_server)
    if inventory is not None:
        found = inventory_of(inventory, accelerators)
        return Background(found.facts, found.pods, tuple(found.pods.seen()))
    if not asks_a_server:
        return Background()
    server = server_of(None if kubeconfig is None else str(kubeconfig), context)
    background, errors = read_background(server, accelerators)
    if errors:
        fail("\n".join(map(str, errors)))
    return background
