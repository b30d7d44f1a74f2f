"""The command `gpu-policy doctor`: checks an installation."""

import sys
from pathlib import Path

import click

from webhook.commands.inputs import console, print_document, server_of
from webhook.commands.options import OUTPUT, PATH, cluster_options, examples


@click.command(epilog=examples("doctor", "doctor -n gpu-policy -o json"))
@cluster_options
@click.option("--namespace", "-n", default="gpu-policy", help="Namespace of the webhook.")
@click.option("--name", default="gpu-policy", help="Name of the release.")
@click.option(
    "--dry-run-namespace", default="default", help="Namespace in which the doctor creates GPU pods as dry runs."
)
@click.option(
    "--policies", type=PATH, help="Directory of the installation's policies, if you may not read its ConfigMaps."
)
@OUTPUT
def doctor(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    name: str,
    dry_run_namespace: str,
    policies: Path | None,
    output: str,
) -> None:
    """Check an installation: report what is wrong and how to fix it.

    The doctor uses the rights of the kubeconfig and changes nothing.

    Exit status: 0 no problem (perhaps warnings), 1 a problem, 2 the cluster cannot be reached.
    """
    from webhook.doctor.checklist import examine
    from webhook.doctor.doctor_report import render_text, to_json
    from webhook.doctor.installation import DoctorCluster, Installation, Place

    place = Place(namespace, name, dry_run_namespace, policies)
    report = examine(Installation(DoctorCluster(server_of(kubeconfig, context)), place))
    if output != "text":
        print_document(to_json(report, place), output)
    else:
        render_text(report, console())
    sys.exit(report.exit_status)
