"""Options that several commands take."""

from pathlib import Path

import click

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
