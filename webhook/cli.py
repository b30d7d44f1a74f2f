"""Commands of `gpu-policy`. Arguments are handled here; what they ask for is done elsewhere.

Imports stand inside the commands, so that each pays only for what it uses.
"""

import sys
import time
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

import click

from webhook.inputs import check_source_of_facts, facts_of, fail, load_inventory, load_policies, run_apart

if TYPE_CHECKING:
    pass


POLICIES = click.option(
    "--policies",
    type=click.Path(path_type=Path),
    default=Path("policies"),
    show_default=True,
    help="Directory of policy files.",
)
INVENTORY = click.option(
    "--inventory",
    type=click.Path(path_type=Path),
    help="Facts about the cluster from a file: `kubectl get nodes,namespaces,runtimeclasses,pods -A -o yaml`.",
)
KUBECONFIG = click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="Facts about the cluster from the API server it names."
)


@click.group(context_settings={"auto_envvar_prefix": "GPU_POLICY", "help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gpu-policy-webhook", prog_name="gpu-policy")
def main() -> None:
    """Kubernetes admission for GPU pods: completes the ones that can run, refuses and explains the ones that cannot."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that knows no é gets \xe9, not a traceback


@main.command()
@POLICIES
@INVENTORY
@KUBECONFIG
@click.option("--cert", type=click.Path(path_type=Path), required=True, help="Serving certificate, PEM.")
@click.option("--key", type=click.Path(path_type=Path), required=True, help="Its private key, PEM.")
@click.option("--client-ca", type=click.Path(path_type=Path), help="Accept only clients with a certificate of this CA.")
@click.option("--host", default="0.0.0.0", show_default=True, help="Address to listen on.")  # noqa: S104  # a server in a pod
@click.option("--port", type=click.IntRange(1, 65535), default=8443, show_default=True, help="Port to listen on.")
@click.option("--threads", type=click.IntRange(1, 64), default=4, show_default=True, help="Threads that answer.")
@click.option(
    "--drain-seconds",
    type=click.FloatRange(0, 300),
    default=0.0,
    show_default=True,
    help="Seconds between turning unready and closing the port on SIGTERM.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Least level that is logged.",
)
def serve(
    policies: Path,
    inventory: Path | None,
    kubeconfig: Path | None,
    cert: Path,
    key: Path,
    client_ca: Path | None,
    host: str,
    port: int,
    threads: int,
    drain_seconds: float,
    log_level: str,
) -> None:
    """Answer the API server over TLS until SIGTERM.

    Without --inventory and --kubeconfig the facts come from the cluster the process runs in.
    """
    from webhook.admission import logs
    from webhook.admission.server import Application, ServerSettings, serve

    def application() -> Application:
        from webhook.admission.replica import Replica, Sources

        return Replica(Sources(policies=policies, inventory=inventory, kubeconfig=kubeconfig))

    def check() -> None:
        load_policies(policies)
        if inventory is not None:
            load_inventory(inventory)

    logs.configure(log_level)
    run_apart(check)
    for file in (cert, key, client_ca):
        if file is not None and not file.is_file():
            fail(f"{file}: no such file; `gpu-policy certs` makes a certificate and its key")
    check_source_of_facts(inventory, kubeconfig)
    settings = ServerSettings(
        host=host,
        port=port,
        cert_file=cert,
        key_file=key,
        client_ca_file=client_ca,
        threads=threads,
        drain_seconds=drain_seconds,
    )
    serve(settings, application)


@main.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE|DIR|- ...")
@click.option("--namespace", "-n", default="default", show_default=True, help="Namespace of objects that name none.")
@POLICIES
@INVENTORY
@KUBECONFIG
@click.option("--output", "-o", type=click.Choice(["text", "json", "diff"]), default="text", show_default=True)
def review(
    paths: tuple[str, ...],
    namespace: str,
    policies: Path,
    inventory: Path | None,
    kubeconfig: Path | None,
    output: str,
) -> None:
    """Say what the webhook would answer for manifests: what is injected, what is refused and why.

    Exit status: 0 all allowed, 1 something refused, 2 unusable input or policy.
    """
    from webhook.audit import as_diff, as_json, as_text, simulate
    from webhook.audit.documents import read_all

    policy_set = load_policies(policies)
    source = facts_of(inventory, kubeconfig)
    facts = source.facts
    if facts is None:
        fail(f"facts about the cluster: {source.status(time.monotonic()).detail or 'not loaded'}")
    reviewed = simulate.review(list(read_all(paths, sys.stdin.buffer)), namespace, policy_set, facts)
    source.close()
    if output == "json":
        click.echo(as_json.render(reviewed), nl=False)
    elif output == "diff":
        for line in as_diff.render(reviewed):
            click.echo(line)
    else:
        from rich.console import Console

        console = Console(highlight=False)
        as_text.render(reviewed, console)
        if inventory is None and kubeconfig is None:
            console.print("No RuntimeClass and no node is known without --inventory or --kubeconfig.", soft_wrap=True)
    sys.exit(reviewed.exit_status)


@main.group()
def policy() -> None:
    """Look at policy files."""


@policy.command()
@POLICIES
@click.argument("directory", type=click.Path(path_type=Path), required=False)
def check(policies: Path, directory: Path | None) -> None:
    """Check the policy files of a directory and print every mistake in them; exit status 2 if there is one."""
    policy_set = load_policies(directory or policies)
    for notice in policy_set.notices:
        click.echo(f"note: {notice}", err=True)
    count = len(policy_set.policies)
    click.echo(f"{directory or policies}: {count} {'policy' if count == 1 else 'policies'}, hash {policy_set.hash}")


@policy.command()
@POLICIES
@click.argument("namespace")
def show(policies: Path, namespace: str) -> None:
    """Print what applies to a namespace, and which file each rule comes from."""
    from webhook.policy.show import explain

    click.echo(explain(load_policies(policies), namespace), nl=False)


@policy.command()
@POLICIES
@click.argument("phase", type=click.Choice(["mutate", "validate"]))
def conditions(policies: Path, phase: str) -> None:
    """Print the matchConditions with which the API server keeps away what concerns no rule of these policies."""
    import yaml

    from webhook.admission.conditions import conditions_for

    found = conditions_for(load_policies(policies), templates=phase == "mutate")
    click.echo(yaml.safe_dump({"matchConditions": [condition.raw() for condition in found]}, width=10_000), nl=False)


@policy.command()
def schema() -> None:
    """Print the JSON Schema of policy files, for editors."""
    from webhook.policy.schema import policy_schema_text

    click.echo(policy_schema_text(), nl=False)


@policy.command()
def docs() -> None:
    """Print the reference of all rules and their settings, in Markdown."""
    from webhook.policy.reference import rules_reference

    click.echo(rules_reference(), nl=False)


@main.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--name", "names", multiple=True, required=True, help="DNS name or IP address to serve; repeatable.")
def certs(directory: Path, names: tuple[str, ...]) -> None:
    """Make a CA and a serving certificate in DIRECTORY, or leave them alone where they are good.

    Writes ca.crt, ca.key, tls.crt and tls.key.
    """
    from certs.authority import CertificateError
    from certs.files import ensure_files

    try:
        result = ensure_files(directory, names)
    except CertificateError as error:
        fail(str(error))
    click.echo(result.reason)
