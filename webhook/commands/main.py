"""The commands of `gpu-policy`. Only arguments are handled here.

Imports stand inside the commands, so that each pays only for what it uses.
"""

import os
import sys
import time
from io import TextIOWrapper
from pathlib import Path

import click

from webhook.commands.audit import audit
from webhook.commands.cuda import cuda
from webhook.commands.inputs import facts_of, fail, ledgers_of, load_policies, manifests_of, namespaces_of
from webhook.commands.options import INVENTORY, KUBECONFIG, POLICIES, STRICT
from webhook.commands.quota import quota
from webhook.commands.serve import serve
from webhook.commands.test import test


@click.group(context_settings={"auto_envvar_prefix": "GPU_POLICY", "help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gpu-policy-webhook", prog_name="gpu-policy")
def main() -> None:
    """Admission webhook for GPU pods: adds what they lack, and refuses pods that cannot run, with an explanation."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever started the process
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  # for as long as the process
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that knows no é gets \xe9, not a traceback


main.add_command(serve)
main.add_command(cuda)
main.add_command(quota)
main.add_command(audit)
main.add_command(test)


@main.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE|DIR|- ...")
@click.option("--namespace", "-n", default="default", show_default=True, help="Namespace of objects that name none.")
@POLICIES
@INVENTORY
@KUBECONFIG
@STRICT
@click.option("--output", "-o", type=click.Choice(["text", "json", "diff"]), default="text", show_default=True)
def review(
    paths: tuple[str, ...],
    namespace: str,
    policies: Path,
    inventory: Path | None,
    kubeconfig: Path | None,
    strict: bool,
    output: str,
) -> None:
    """Say what the webhook would answer for manifests: what it would inject or refuse, and why.

    Exit status: 0 everything is allowed, 1 something is refused, 2 the input or a policy cannot be used.
    """
    from webhook.audit import review_formats, review_objects
    from webhook.audit.input_claims import knowing_claims

    policy_set = load_policies(policies)
    source = facts_of(inventory, kubeconfig, policy_set.accelerators)
    facts = source.facts
    if facts is None:
        fail(f"facts about the cluster: {source.status(time.monotonic()).detail or 'not loaded'}")
    documents = manifests_of(paths, is_strict=strict)
    facts = knowing_claims(facts, documents, namespace)
    context = review_objects.ReviewContext(
        policy_set, facts, ledgers_of(inventory, kubeconfig, policy_set.accelerators)
    )
    reviewed = review_objects.review(documents, namespace, context)
    source.close()
    if output == "json":
        click.echo(review_formats.render_json(reviewed), nl=False)
    elif output == "diff":
        for line in review_formats.render_diff(reviewed):
            click.echo(line)
    else:
        from rich.console import Console

        console = Console(highlight=False)
        review_formats.render_text(reviewed, console)
        if inventory is None and kubeconfig is None:
            console.print("Without --inventory or --kubeconfig no node and no RuntimeClass is known.", soft_wrap=True)
    sys.exit(reviewed.exit_status)


@main.command()
@click.option(
    "--kubeconfig",
    envvar="KUBECONFIG",
    help="Kubeconfig of the cluster; without it ~/.kube/config, or the cluster that the process runs in.",
)
@click.option("--context", help="Context in the kubeconfig.")
@click.option("--namespace", "-n", default="gpu-policy", show_default=True, help="Namespace of the webhook.")
@click.option("--name", default="gpu-policy", show_default=True, help="Name of the release.")
@click.option(
    "--dry-run-namespace",
    default="default",
    show_default=True,
    help="Namespace in which the doctor creates GPU pods as dry runs.",
)
@click.option(
    "--policies",
    type=click.Path(path_type=Path),
    help="Directory of the installation's policies, if you may not read its ConfigMaps.",
)
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True)
def doctor(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    name: str,
    dry_run_namespace: str,
    policies: Path | None,
    output: str,
) -> None:
    """Check an installation, with the rights of a kubeconfig: what is wrong, and how to fix it.

    Exit status: 0 no problem (perhaps warnings), 1 a problem, 2 the cluster cannot be reached.
    """
    from rich.console import Console

    from webhook.doctor.checklist import examine
    from webhook.doctor.cluster import UnavailableError, connect
    from webhook.doctor.doctor_report import render_json, render_text
    from webhook.doctor.installation import Installation, Place

    try:
        cluster = connect(kubeconfig, context)
    except UnavailableError as error:
        fail(str(error))
    place = Place(namespace, name, dry_run_namespace, policies)
    report = examine(Installation(cluster, place))
    if output == "json":
        click.echo(render_json(report, place), nl=False)
    else:
        render_text(report, Console(highlight=False))
    sys.exit(report.exit_status)


@main.group()
def policy() -> None:
    """Check and show policy files."""


@policy.command()
@POLICIES
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Also name the namespaces that have a looser policy but do not exist in this cluster: whoever creates "
    "one gets it.",
)
@click.argument("directory", type=click.Path(path_type=Path), required=False)
def check(policies: Path, kubeconfig: Path | None, directory: Path | None) -> None:
    """Check the policy files of a directory and print every mistake in them.

    Exit status: 0 no mistake, 2 a mistake.
    """
    policy_set = load_policies(directory or policies)
    for notice in policy_set.notices:
        click.echo(f"note: {notice}", err=True)
    if kubeconfig is not None:
        from webhook.policy.show import loosened_for_nobody

        for loosened, patterns in loosened_for_nobody(policy_set, namespaces_of(kubeconfig)):
            absent = f"{', '.join(patterns)}: no such namespace in the cluster"
            click.echo(f"note: {loosened.files[-1]}: {absent}; whoever creates one gets this policy", err=True)
    from webhook.model.wording import counted

    count, pots = len(policy_set.policies), len(policy_set.pots)
    parts = counted(count, "policy", "policies")
    if pots:
        parts += f", {counted(pots, 'pot')} of quota"
    if rows := policy_set.cuda.counts:
        parts += f", rows for the tables of CUDA ({rows})"
    click.echo(f"{directory or policies}: {parts}, hash {policy_set.hash}")


@policy.command()
@POLICIES
@click.argument("namespace")
def show(policies: Path, namespace: str) -> None:
    """Print the rules and quotas that apply to a namespace, and which file each comes from."""
    from webhook.policy.show import explain

    click.echo(explain(load_policies(policies), namespace), nl=False)


@policy.command()
@click.option(
    "--kind",
    type=click.Choice(["GPUPolicy", "GPUQuotaPots", "GPUCudaTables", "GPUPolicyTest"]),
    default="GPUPolicy",
    show_default=True,
)
def schema(kind: str) -> None:
    """Print the JSON Schema of a kind of file, for editors.

    The kinds are policies (GPUPolicy), _quotas.yaml (GPUQuotaPots), _cuda.yaml (GPUCudaTables) and tests of policies
    (GPUPolicyTest).
    """
    from webhook.policy.cuda_rows import cuda_schema_text
    from webhook.policy.pots import quotas_schema_text
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


@main.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--name", "names", multiple=True, required=True, help="DNS name or IP address of the server; repeatable.")
def certs(directory: Path, names: tuple[str, ...]) -> None:
    """Make a CA and a serving certificate in DIRECTORY, unless there are valid ones.

    Writes ca.crt, ca.key, tls.crt and tls.key.
    """
    from certs.authority import CertificateError
    from certs.files import ensure_files

    try:
        result = ensure_files(directory, names)
    except CertificateError as error:
        fail(str(error))
    click.echo(result.reason)
