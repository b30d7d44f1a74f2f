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
    help="File with facts about the cluster: the output of "
    "`kubectl get nodes,namespaces,runtimeclasses,priorityclasses,pods -A -o yaml`, with `deviceclasses`, "
    "`resourceclaimtemplates`, `resourceclaims` and `resourceslices` in the list if the cluster has them.",
)
KUBECONFIG = click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig of the cluster from which facts are read."
)
STRICT = click.option(
    "--strict",
    is_flag=True,
    help="Treat a key that stands twice in one map of a manifest as an error. Without it, the last value counts, as in "
    "kubectl, and a warning names both lines.",
)
OUTPUT = click.option(
    "--output",
    "-o",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of standard output.",
)


def policy_of(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--policies` and `--namespace`, for commands that may use the policy of one namespace."""
    namespace = click.option(
        "--namespace", "-n", default="default", show_default=True, help="Namespace whose policy applies."
    )
    policies = click.option(
        "--policies",
        type=click.Path(path_type=Path),
        help="Directory of policy files, for their node pools, names of GPUs, rows of CUDA tables and images of "
        "cudaDriver.",
    )
    return policies(namespace(command))


def registry_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--resolve`, `--registries` and `--registry-credentials`, for commands that may ask registries."""
    resolve = click.option("--resolve", is_flag=True, help="Look the images up in their registries now.")
    registries = click.option(
        "--registries",
        type=click.Path(path_type=Path),
        help="File that lists the registries to query. Without it, built-in public registries are queried.",
    )
    credentials = click.option(
        "--registry-credentials",
        type=click.Path(path_type=Path),
        help="File with credentials for the registries, in the format of Docker's config.json.",
    )
    return resolve(registries(credentials(command)))
