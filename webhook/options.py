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
    help="Facts about the cluster from a file: "
    "`kubectl get nodes,namespaces,runtimeclasses,priorityclasses,pods -A -o yaml`, with `deviceclasses` where the "
    "cluster has them.",
)
KUBECONFIG = click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="Facts about the cluster from the API server it names."
)
STRICT = click.option(
    "--strict",
    is_flag=True,
    help="Refuse manifests with a key that stands twice in one map; otherwise the last value counts, as for kubectl, "
    "and a warning names both lines.",
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


def registry_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--resolve`, `--registries` and `--registry-credentials`, for commands that may ask registries."""
    resolve = click.option("--resolve", is_flag=True, help="Ask the registries of the images now.")
    registries = click.option(
        "--registries", type=click.Path(path_type=Path), help="The only ones to ask; by default the public ones."
    )
    credentials = click.option(
        "--registry-credentials", type=click.Path(path_type=Path), help="For these, as in Docker's config.json."
    )
    return resolve(registries(credentials(command)))
