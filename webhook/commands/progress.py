"""Shows at a terminal how far the reading of a cluster is."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webhook.audit.cluster_objects import Progress


@contextmanager
def shown_progress(*, is_shown: bool) -> "Iterator[Callable[[Progress], None]]":
    """A function that shows the progress of reading a cluster, at a terminal; elsewhere it does nothing."""
    if not is_shown or not sys.stderr.isatty():
        yield lambda _progress: None
        return
    from rich import progress
    from rich.console import Console

    columns = progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn()
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("cluster", total=None)

        def on_progress(made: "Progress") -> None:
            total = None if made.remaining is None else made.objects + made.remaining
            bar.update(task, description=made.kind, completed=made.objects, total=total)

        yield on_progress
