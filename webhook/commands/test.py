"""The command `gpu-policy test`: runs tests of policies."""

import logging
import re
import sys
from functools import cache
from pathlib import Path

import click

from webhook.commands.inputs import console, fail, warn
from webhook.commands.options import PATH, STRICT, examples


@click.command(epilog=examples("test policies/tests", "test policies/tests --run quota -v"))
@click.argument("directory", type=PATH, metavar="DIR|FILE")
@click.option(
    "--policies",
    type=PATH,
    help="Directory of policies for tests that name none. Without it, the nearest directory above the test that has a "
    "_default.yaml.",
)
@click.option(
    "--inventory",
    type=PATH,
    help="File with facts about the cluster, for tests that name none. Without it, nothing is known about the cluster.",
)
@click.option(
    "--run",
    "pattern",
    envvar="GPU_POLICY_TEST_RUN",
    default="",
    show_default=False,
    metavar="REGEX",
    help="Run only cases whose name matches.",
)
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the results to this file, as JUnit XML.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print only the cases that failed, and the totals.")
@click.option("--verbose", "-v", is_flag=True, help="Also print what happens to each resource.")
@STRICT
def test(
    directory: Path,
    policies: Path | None,
    inventory: Path | None,
    pattern: str,
    junit: Path | None,
    quiet: bool,
    verbose: bool,
    strict: bool,
) -> None:
    """Run the tests of policies in FILE or below DIR.

    Tests are files of kind GPUPolicyTest.

    Exit status: 0 all cases pass, 1 a case fails, 2 a test cannot be run, such as a file that cannot be read.
    """
    from webhook.policy_tests.files import PolicyTestInputs
    from webhook.policy_tests.running import render_junit, render_text, run
    from webhook.yaml_files.file_errors import FileErrors

    try:
        wanted = re.compile(pattern)
    except re.error as error:
        fail(f"--run {pattern}: not a regular expression: {error}")
    logging.getLogger("gpu_policy.quota").addHandler(logging.NullHandler())  # its messages are about replicas
    try:
        results = run(
            directory,
            PolicyTestInputs(policies, inventory),
            lambda name: wanted.search(name) is not None,
            None if strict else cache(warn),  # once for each message: several cases may name one file
        )
    except FileErrors as errors:
        fail(str(errors))
    render_text(results, console(), verbose - quiet)
    if junit is not None:
        try:
            junit.write_text(render_junit(results), encoding="utf-8")
        except OSError as error:
            fail(f"--junit {junit}: cannot be written: {error.strerror}")
    if not results.files:
        fail(f"--run {pattern}: no case has a name that matches; leave --run out to run all cases")
    sys.exit(results.exit_status)
