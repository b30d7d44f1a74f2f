"""The commands of `gpu-policy policy`: policy files are checked, shown and documented."""

from pathlib import Path

import click

from webhook.commands.inputs import echo, fail, load_policies, print_document
from webhook.commands.options import OUTPUT, PATH, POLICIES


@click.group()
def policy() -> None:
    """Check, show and document policies."""


@policy.command()
@POLICIES
@click.argument("directory", type=PATH, required=False)
def check(policies: Path, directory: Path | None) -> None:
    """Check the policy files of a directory.

    Prints every mistake in them.

    Exit status: 0 no mistake, 2 a mistake.
    """
    from webhook.model.wording import counted

    policy_set = load_policies(directory or policies)
    for notice in policy_set.notices:
        echo(f"note: {notice}", is_error=True)
    parts = counted(len(policy_set.policies), "policy", "policies")
    if policy_set.shared_quotas:
        parts += f", {counted(len(policy_set.shared_quotas), 'shared quota')}"
    if exceptions := policy_set.exceptions.all:
        parts += f", {counted(len(exceptions), 'exception')}"
    if rows := policy_set.cuda.counts:
        parts += f", rows for the tables of CUDA ({rows})"
    echo(f"{directory or policies}: {parts}, hash {policy_set.hash}")


@policy.command()
@POLICIES
@click.argument("namespace")
def show(policies: Path, namespace: str) -> None:
    """Print the rules and quotas that apply to NAMESPACE.

    Each has the name of the file that it comes from.
    """
    from webhook.policy.show import explain

    echo(explain(load_policies(policies), namespace))


@policy.command()
@POLICIES
@click.option(
    "--expiring",
    metavar="TIME",
    help="Only exceptions that end within this time, such as 14d or 12h, and have not ended yet.",
)
@OUTPUT
def exceptions(policies: Path, expiring: str | None, output: str) -> None:
    """Print the exceptions of _exceptions.yaml.

    The first to end comes first.
    """
    import time

    from webhook.policy.show import as_json, lines, listed

    now, within = time.time(), _seconds(expiring)
    found = listed(load_policies(policies, judges_ends=False).exceptions.all, now, within)
    if output != "text":
        items = [as_json(one, now) for one in found]
        head = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUPolicyExceptionList"}
        print_document({**head, "items": items}, output)
    elif not found:
        echo("no exceptions" if within is None else f"no exception ends within {expiring}")
    else:
        for one in found:
            echo("\n".join(lines(one, now)))


def _seconds(written: str | None) -> float | None:
    """A time such as 14d in seconds; exits with status 2 if it is none."""
    import re

    units = {"d": 86_400, "h": 3_600, "m": 60}
    found = re.fullmatch(r"([0-9]{1,4})([dhm])", written or "")
    if written is not None and found is None:
        fail(f"--expiring: {written} is no time; write days, hours or minutes such as 14d, 12h or 30m")
    return None if found is None else float(int(found[1]) * units[found[2]])


@policy.command()
@click.option(
    "--kind",
    type=click.Choice(["GPUPolicy", "GPUSharedQuotas", "GPUCudaTables", "GPUPolicyExceptions", "GPUPolicyTest"]),
    default="GPUPolicy",
    help="Kind of the files that is printed.",
)
def schema(kind: str) -> None:
    """Print the JSON Schema of a kind of file, for editors.

    The kinds are policies (GPUPolicy), _quotas.yaml (GPUSharedQuotas), _cuda.yaml (GPUCudaTables), _exceptions.yaml
    (GPUPolicyExceptions) and tests of policies (GPUPolicyTest).
    """
    import json

    from webhook.policy.cuda_file import cuda_schema
    from webhook.policy.exception_format import exceptions_schema
    from webhook.policy.policy_quotas import quotas_schema
    from webhook.policy.schema import policy_schema
    from webhook.policy_tests.format import policy_test_schema

    schemas = {
        "GPUPolicy": policy_schema,
        "GPUSharedQuotas": quotas_schema,
        "GPUCudaTables": cuda_schema,
        "GPUPolicyExceptions": exceptions_schema,
        "GPUPolicyTest": policy_test_schema,
    }
    echo(json.dumps(schemas[kind](), indent=2, ensure_ascii=False))


@policy.command()
def docs() -> None:
    """Print the reference of all rules and their settings, in Markdown."""
    from webhook.rules_page.page_of_rules import rules_reference

    echo(rules_reference())
