"""Renders reports in any format, and writes them to files or standard output. A file is written whole or not at all."""

import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line asks for the names of formats before it knows whether it audits
    from rich.console import Console

    from webhook.audit.report import AuditReport

FORMATS: dict[str, str] = {
    "text": "as_text.render",
    "json": "as_json.render",
    "html": "html.page.render",
    "markdown": "as_markdown.render",
    "sarif": "as_sarif.render",
    "junit": "as_junit.render",
    "policyreport": "policy_results.render_policy_reports",
    "openreports": "policy_results.render_open_reports",
}
"""The one list of formats: each with the function below `webhook.audit.reports` that renders it."""


def rendered(report: "AuditReport", form: str, console: "Console | None" = None) -> str:
    """The report in one of FORMATS; as `text` with the colours and the width of the console, which prints nothing."""
    module, _, name = FORMATS[form].rpartition(".")
    render = getattr(import_module(f"webhook.audit.reports.{module}"), name)
    if form != "text":
        text: str = render(report)
        return text
    from rich.console import Console  # noqa: PLC0415  # for this format only

    console = console or Console(highlight=False, color_system=None)
    with console.capture() as captured:
        render(report, console)
    return captured.get()


def fault_of(path: Path) -> str:
    """Why a file cannot be written, as far as that is known beforehand; empty if it seems possible."""
    if os.path.isdir(path):  # Path.is_dir raises if it may not look at the path
        return f"{path} is a directory; name a file in it"
    parent = path.absolute().parent
    if not os.path.isdir(parent):  # as above
        return f"{path} cannot be written: there is no directory {parent}; make it first"
    return ""


def write_file(text: str, path: Path) -> None:
    """Write a file at once, with the permissions of the file that it replaces. Readers never see it half-written.

    An existing path that is not a regular file, such as /dev/stderr, is written to directly. Raises OSError.
    """
    content = text.encode("utf-8", "backslashreplace")
    path = Path(os.path.realpath(path))  # Path.resolve raises no OSError for links in a circle
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    draft = path.with_name(f".{path.name[:100]}.{token_hex(4)}")
    try:
        draft.write_bytes(content)
        if path.exists():
            draft.chmod(path.stat().st_mode & 0o7777)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def write_output(text: str) -> None:
    """Write to standard output. A closed pipe is no error. Raises OSError for other faults."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        with suppress(OSError, ValueError):  # or the interpreter complains when it flushes at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise
