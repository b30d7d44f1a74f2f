"""The command `gpu-policy test`: runs tests of policies."""

import logging
import re
import sys
from functools import cache
from pathlib import Path

import click

from webhook.commands.inputs import console, fail, warn
from webhook.commands.options import Strict, argument, option, takes


class TestOptions(Strict):
    directory: Path = argument(metavar="DIR|FILE")
    policies: Path | None = option(
        "Directory of policies for tests that name none. Without it, the nearest directory above the test that has a "
        "_default.yaml."
    )
    inventory: Path | None = option(
        "File with facts about the cluster, for tests that name none. Without it, nothing is known about the cluster."
    )
    pattern: str = option(
        "Run only cases whose name matches.",
        "",
        "--run",
        envvar="GPU_POLICY_TEST_RUN",
        show_default=False,
        metavar="REGEX",
    )
    junit: Path | None = option(
        "Also write the results to this file, as JUnit XML.", type=click.Path(path_type=Path, dir_okay=False)
    )
    quiet: bool = option("Print only the cases that failed, and the totals.", None, "-q")
    verbose: bool = option("Also print what happens to each resource.", None, "-v")


@click.command()
@takes(TestOptions)
def test(asked: TestOptions) -> None:
    """Run the tests of policies in FILE or below DIR.

    Tests are files of kind GPUPolicyTest.

    Exit status: 0 all cases pass, 1 a case fails, 2 a test cannot be run, such as a file that cannot be read.
    """
    from webhook.policy_tests.files import PolicyTestInputs
    from webhook.policy_tests.running import render_junit, render_text, run
    from webhook.yaml_files.file_errors import FileErrors

    try:
        wanted = re.compile(asked.pattern)
    except re.error as error:
        fail(f"--run {asked.pattern}: not a regular expression: {error}")
    logging.getLogger("gpu_policy.quota").addHandler(logging.NullHandler())  # its messages are about replicas
    try:
        results = run(
            asked.directory,
            PolicyTestInputs(asked.policies, asked.inventory),
            lambda name: wanted.search(name) is not None,
            None if asked.strict else cache(warn),  # once for each message: several cases may name one file
        )
    except FileErrors as errors:
        fail(str(errors))
    render_text(results, console(), asked.verbose - asked.quiet)
    if asked.junit is not None:
        try:
            asked.junit.write_text(render_junit(results), encoding="utf-8")
        except OSError as error:
            fail(f"--junit {asked.junit}: cannot be written: {error.strerror}")
    if not results.files:
        fail(f"--run {asked.pattern}: no case has a name that matches; leave --run out to run all cases")
    sys.exit(results.exit_status)
