"""Options that several commands take."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
OUTPUT = click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True)


def policy_of(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--policies` and `--namespace`, for commands that go by one policy or by none."""
    namespace = click.option(
        "--namespace", "-n", default="default", show_default=True, help="Namespace whose policy counts."
    )
    policies = click.option(
        "--policies",
        type=click.Path(path_type=Path),
        help="Directory of policy files: node pools, and what cudaDriver knows of images, count too.",
    )
    return policies(namespace(command))
