"""The command `gpu-policy doctor`: checks an installation."""

import sys
from functools import partial
from pathlib import Path

import click

from webhook.commands.inputs import server_of
from webhook.commands.options import OneCluster, Printed, option, takes


class DoctorOptions(OneCluster, Printed):
    namespace: str = option("Namespace of the webhook.", "gpu-policy", "-n")
    name: str = option("Name of the release.", "gpu-policy")
    dry_run_namespace: str = option("Namespace in which the doctor creates GPU pods as dry runs.", "default")
    policies: Path | None = option("Directory of the installation's policies, if you may not read its ConfigMaps.")


@click.command()
@takes(DoctorOptions)
def doctor(asked: DoctorOptions) -> None:
    """Check an installation: report what is wrong and how to fix it.

    The doctor uses the rights of the kubeconfig and changes nothing.

    Exit status: 0 no problem (perhaps warnings), 1 a problem, 2 the cluster cannot be reached.
    """
    from webhook.doctor.checklist import examine
    from webhook.doctor.doctor_report import render_text, to_json
    from webhook.doctor.installation import DoctorCluster, Installation, Place

    place = Place(asked.namespace, asked.name, asked.dry_run_namespace, asked.policies)
    report = examine(Installation(DoctorCluster(server_of(asked.kubeconfig, asked.context)), place))
    asked.show(to_json(report, place), partial(render_text, report))
    sys.exit(report.exit_status)
