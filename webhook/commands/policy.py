"""The commands of `gpu-policy policy`: policy files are checked, shown and documented.

Imports stand inside the functions, so that each command pays only for what it uses.
"""

from pathlib import Path

import click

from webhook.commands.inputs import fail, load_policies
from webhook.commands.options import POLICIES


@click.group()
def policy() -> None:
    """Check, show and document policies."""


@policy.command()
@POLICIES
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Kubeconfig of a cluster. With it the command also names namespaces that do not exist there, but for which "
    "a policy is looser than the default: whoever creates such a namespace gets the looser policy.",
)
@click.argument("directory", type=click.Path(path_type=Path), required=False)
def check(policies: Path, kubeconfig: Path | None, directory: Path | None) -> None:
    """Check the policy files of a directory.

    Prints every mistake in them.

    Exit status: 0 no mistake, 2 a mistake.
    """
    from webhook.model.wording import counted

    policy_set = load_policies(directory or policies)
    for notice in policy_set.notices:
        click.echo(f"note: {notice}", err=True)
    if kubeconfig is not None:
        from webhook.policy.show import loosened_for_nobody

        for loosened, patterns in loosened_for_nobody(policy_set, _namespaces(kubeconfig)):
            absent = f"{', '.join(patterns)}: no such namespace in the cluster"
            click.echo(f"note: {loosened.files[-1]}: {absent}; whoever creates one gets this policy", err=True)
    parts = counted(len(policy_set.policies), "policy", "policies")
    if policy_set.pots:
        parts += f", {counted(len(policy_set.pots), 'pot')} of quota"
    if rows := policy_set.cuda.counts:
        parts += f", rows for the tables of CUDA ({rows})"
    click.echo(f"{directory or policies}: {parts}, hash {policy_set.hash}")


@policy.command()
@POLICIES
@click.argument("namespace")
def show(policies: Path, namespace: str) -> None:
    """Print the rules and quotas that apply to NAMESPACE.

    Each has the name of the file that it comes from.
    """
    from webhook.policy.show import explain

    click.echo(explain(load_policies(policies), namespace), nl=False)


@policy.command()
@click.option(
    "--kind",
    type=click.Choice(["GPUPolicy", "GPUQuotaPots", "GPUCudaTables", "GPUPolicyTest"]),
    default="GPUPolicy",
    show_default=True,
    help="Kind of the files.",
)
def schema(kind: str) -> None:
    """Print the JSON Schema of a kind of file, for editors.

    The kinds are policies (GPUPolicy), _quotas.yaml (GPUQuotaPots), _cuda.yaml (GPUCudaTables) and tests of policies
    (GPUPolicyTest).
    """
    from webhook.policy.cuda_rows import cuda_schema_text
    from webhook.policy.policy_quotas import quotas_schema_text
    from webhook.policy.schema import policy_schema_text
    from webhook.policy_tests.format import policy_test_schema_text

    texts = {
        "GPUPolicy": policy_schema_text,
        "GPUQuotaPots": quotas_schema_text,
        "GPUCudaTables": cuda_schema_text,
        "GPUPolicyTest": policy_test_schema_text,
    }
    click.echo(texts[kind](), nl=False)


@policy.command()
def docs() -> None:
    """Print the reference of all rules and their settings, in Markdown."""
    from webhook.rules_page.page_of_rules import rules_reference

    click.echo(rules_reference(), nl=False)


def _namespaces(kubeconfig: Path) -> frozenset[str]:
    """The names of a cluster's namespaces; exits with status 2 if they cannot be listed."""
    from webhook.doctor.cluster import UnavailableError, connect

    try:
        cluster = connect(str(kubeconfig), None)
        return frozenset(one["metadata"]["name"] for one in cluster.items("/api/v1/namespaces"))
    except UnavailableError as error:
        fail(f"namespaces of the cluster: {error}")
