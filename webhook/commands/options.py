"""Options that several commands take."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from webhook.commands.inputs import as_yaml, console, fail, registries_of, server_of

if TYPE_CHECKING:
    from rich.console import Console

    from webhook.audit.cluster_objects import NamespaceScope
    from webhook.audit.review_objects import LookedUpImages
    from webhook.kubernetes.api_server import ApiServer

PATH = click.Path(path_type=Path)

POLICIES = click.option("--policies", type=PATH, default=Path("policies"), help="Directory of policy files.")
INVENTORY = click.option(
    "--inventory",
    type=PATH,
    help="File with facts about the cluster: the output of "
    "`kubectl get nodes,namespaces,runtimeclasses,priorityclasses,pods -A -o yaml`, with `deviceclasses`, "
    "`resourceclaimtemplates`, `resourceclaims`, `resourceslices` and `nodepools` in the list if the cluster has them.",
)
KUBECONFIG = click.option("--kubeconfig", type=PATH, help="Kubeconfig of the cluster from which facts are read.")
STRICT = click.option(
    "--strict",
    is_flag=True,
    help="Treat a key that stands twice in one map of a manifest as an error. Without it, the last value counts, as in "
    "kubectl, and a warning names both lines.",
)
CONTEXT = click.option("--context", help="Context in the kubeconfig.")
IMAGE_RESULTS = click.option(
    "--image-results",
    metavar="NAMESPACE/NAME",
    help="ConfigMap in which the replicas share the results of look-ups; the results of this command are added.",
)
OUTPUT = click.option(
    "--output", "-o", type=click.Choice(["text", "json", "yaml"]), default="text", help="Format of standard output."
)


def examples(*commands: str) -> str:
    """The end of a help. Tests run these commands where the repository is."""
    return "\b\nExamples:\n" + "\n".join(f"  gpu-policy {command}" for command in commands)


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


def source_options(formats: Iterable[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options that say which objects a command looks at, in files or in a cluster, and what it writes, and where;
    and `registry_options`.
    """
    options = (
        click.argument("paths", nargs=-1, metavar="[FILE|DIR|- ...]"),
        click.option("--cluster", is_flag=True, help="Look at the nodes, pods and workloads of a live cluster."),
        INVENTORY,
        click.option(
            "--kubeconfig",
            metavar="PATH",
            help="With --cluster, kubeconfig of that cluster [default: $KUBECONFIG, ~/.kube/config, or the cluster "
            "that the process runs in]. For an audit of files, kubeconfig of the cluster that they are meant for.",
        ),
        CONTEXT,
        click.option(
            "--namespace",
            "-n",
            multiple=True,
            help="Namespace for manifests that name none [default: default]. With --cluster, only objects of this "
            "namespace; repeatable.",
        ),
        click.option(
            "--exclude-namespace",
            multiple=True,
            metavar="NAME|GLOB",
            help="With --cluster, leave this namespace out; repeatable [default: the namespaces that the chart "
            "excludes].",
        ),
        click.option(
            "--output",
            "-o",
            type=PATH,
            metavar="FORMAT|FILE",
            help="The same as --format; or a file to write instead of standard output. The file is written whole or "
            "not at all.",
        ),
        click.option("--format", type=click.Choice([*formats, "yaml"]), default="text", help="Format of the report."),
    )

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return registry_options(command)

    return with_options


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """The options of `source_options` by their parameters. Exits with status 2 where they contradict each other."""

    formats: ClassVar[Collection[str]]

    paths: tuple[str, ...]
    cluster: bool
    inventory: Path | None
    kubeconfig: str | None
    context: str | None
    namespace: tuple[str, ...]
    exclude_namespace: tuple[str, ...]
    output: Path | None
    format: str
    resolve: bool
    registries: Path | None
    registry_credentials: Path | None

    def __post_init__(self) -> None:
        from webhook.audit.writing import fault_of

        if not self.cluster and len(self.namespace) > 1:
            fail("several --namespace need --cluster; for files, name one: the namespace of objects that name none")
        if not self.cluster and self.exclude_namespace:
            fail("--exclude-namespace needs --cluster; for files, name only the files to look at")
        if str(self.output) in (*self.formats, "yaml"):
            object.__setattr__(self, "format", str(self.output))
            object.__setattr__(self, "output", None)
        elif self.output is not None and (fault := fault_of(self.output)):
            fail(fault)

    @property
    def default_namespace(self) -> str:
        return next(iter(self.namespace), "default")

    @property
    def scope(self) -> "NamespaceScope":
        """The namespaces of a cluster: without options, all that the shipped registration sends."""
        from webhook.audit.cluster_objects import NamespaceScope
        from webhook.audit.review_objects import NEVER_SENT

        without = self.exclude_namespace or (() if self.namespace else NEVER_SENT)
        return NamespaceScope(self.namespace, tuple(filter(None, without)))

    @property
    def server(self) -> "ApiServer":
        return server_of(self.kubeconfig, self.context)

    def images(self, results: str | None = None) -> "LookedUpImages | None":
        """Look-ups of the images of objects; None without --resolve. `results` is the ConfigMap that shares them.

        Exits with status 2 for unusable options.
        """
        from webhook.audit.review_objects import LookedUpImages

        kubeconfig = Path(self.kubeconfig) if self.kubeconfig else None
        ask = registries_of(self.resolve, self.registries, self.registry_credentials, results, kubeconfig)
        return None if ask is None else LookedUpImages(ask, ask.withheld)

    def write(self, render: Callable[[str, "Console"], str]) -> None:
        """Write what is rendered in a format to the file, or to standard output. Exits with status 2 where that is
        impossible.
        """
        from webhook.audit.writing import write_file, write_output

        text = render("json" if self.format == "yaml" else self.format, console(is_file=self.output is not None))
        text = as_yaml(text) if self.format == "yaml" else text
        try:
            write_output(text) if self.output is None else write_file(text, self.output)
        except OSError as error:
            fail(f"{self.output or 'standard output'} cannot be written: {error.strerror}")


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
