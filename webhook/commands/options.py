"""Options that several commands take."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

PATH = click.Path(path_type=Path)

POLICIES = click.option("--policies", type=PATH, default=Path("policies"), help="Directory of policy files.")
INVENTORY = click.option(
    "--inventory",
    type=PATH,
    help="File with facts about the cluster: the output of "
    "`kubectl get nodes,namespaces,runtimeclasses,priorityclasses,pods -A -o yaml`, with `deviceclasses`, "
    "`resourceclaimtemplates`, `resourceclaims` and `resourceslices` in the list if the cluster has them.",
)
KUBECONFIG = click.option("--kubeconfig", type=PATH, help="Kubeconfig of the cluster from which facts are read.")
STRICT = click.option(
    "--strict",
    is_flag=True,
    help="Treat a key that stands twice in one map of a manifest as an error. Without it, the last value counts, as in "
    "kubectl, and a warning names both lines.",
)
CONTEXT = click.option("--context", help="Context in the kubeconfig.")
OUTPUT = click.option(
    "--output", "-o", type=click.Choice(["text", "json"]), default="text", help="Format of standard output."
)


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--kubeconfig` and `--context`, for commands that read one cluster: see `inputs.server_of`."""
    kubeconfig = click.option(
        "--kubeconfig",
        help="Kubeconfig of the cluster [default: $KUBECONFIG, ~/.kube/config, or the cluster that the process runs "
        "in].",
    )
    return kubeconfig(CONTEXT(command))


def policy_of(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--policies` and `--namespace`, for commands that may use the policy of one namespace."""
    namespace = click.option("--namespace", "-n", default="default", help="Namespace whose policy applies.")
    policies = click.option(
        "--policies",
        type=PATH,
        help="Directory of policy files, for their node pools, names of GPUs, rows of CUDA tables and images of "
        "cudaDriver.",
    )
    return policies(namespace(command))


def registry_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--resolve`, `--registries` and `--registry-credentials`, for commands that may ask registries."""
    resolve = click.option("--resolve", is_flag=True, help="Look the images up in their registries now.")
    registries = click.option(
        "--registries",
        type=PATH,
        help="File that lists the registries to query. Without it, built-in public registries are queried.",
    )
    credentials = click.option(
        "--registry-credentials",
        type=PATH,
        help="File with credentials for the registries, in the format of Docker's config.json.",
    )
    return resolve(registries(credentials(command)))
