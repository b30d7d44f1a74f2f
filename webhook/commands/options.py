"""Options that several commands take."""

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform, get_args, get_origin

import click

from webhook.commands.inputs import as_yaml, console, fail, print_document, server_of

if TYPE_CHECKING:
    from rich.console import Console

    from webhook.audit.cluster_objects import NamespaceScope
    from webhook.audit.review_objects import LookedUpImages
    from webhook.kubernetes.api_server import ApiServer
    from webhook.replica.image_lookups import Resolver

PATH = click.Path(path_type=Path)
BY_SUFFIX = "by the suffix of the file, else text"
_OF_SUFFIX = {"md": "markdown", "xml": "junit", "yml": "yaml"}


def option(text: str, default: Any = None, *names: str, **how: Any) -> Any:
    """A field of a class of options: an option with the field's name, unless `names` has others, and with its type."""
    return field(default=default, metadata={"help": text, "default": default, "names": names, **how})


def argument(**how: Any) -> Any:
    """A field of a class of options: an argument of the command line."""
    return field(metadata={"names": (), **how})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option, argument))
class Options:
    """What the command line says to a command: each subclass is a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


def takes(kind: type[Options]) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """The command gets the options and arguments of a class, and is called with an object of it.

    If the class raises ValueError, because options contradict each other, its message is printed: exit status 2.
    """

    def decorate(command: Callable[[Any], None]) -> Callable[..., None]:
        @wraps(command)
        def called(**given: Any) -> None:
            try:
                asked = kind(**given)
            except ValueError as error:
                fail(str(error))
            command(asked)

        own_first = sorted(fields(kind), key=lambda one: one.name not in kind.__annotations__)
        for one in reversed(own_first):
            _declare(one)(called)
        return called

    return decorate


def _declare(one: Field[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    how = dict(one.metadata)
    names = how.pop("names")
    if (otherwise := how.pop("otherwise", None)) is not None:
        how["help"] += f" [default: {otherwise}]"
    if Path in (one.type, *get_args(one.type)):
        how.setdefault("type", PATH)
    if "help" not in how:
        return click.argument(one.name, **how)
    if one.type is bool:
        how |= {"is_flag": True, "default": False}
    how |= {"multiple": True} if get_origin(one.type) is tuple else {}
    own = any(name.startswith("--") for name in names)
    return click.option(*names, *(() if own else (f"--{one.name.replace('_', '-')}",)), one.name, **how)


class Policies(Options):
    policies: Path = option("Directory of policy files.", Path("policies"))


class InventoryFile(Options):
    inventory: Path | None = option(
        "File with facts about the cluster: the output of "
        "`kubectl get nodes,namespaces,runtimeclasses,priorityclasses,pods -A -o yaml`, with `deviceclasses`, "
        "`resourceclaimtemplates`, `resourceclaims`, `resourceslices` and `nodepools` in the list if the cluster has "
        "them."
    )


class Facts(InventoryFile):
    kubeconfig: Path | None = option("Kubeconfig of the cluster from which facts are read.")


class OneCluster(Options):
    """One cluster: see `inputs.server_of`."""

    kubeconfig: str | None = option(
        "Kubeconfig of the cluster [default: $KUBECONFIG, ~/.kube/config, or the cluster that the process runs in]."
    )
    context: str | None = option("Context in the kubeconfig.")


class Printed(Options):
    output: str = option("Format of standard output.", "text", "-o", type=click.Choice(["text", "json", "yaml"]))

    def show(self, document: Any, show_text: Callable[["Console"], object]) -> None:
        """Print the document, or as text what `show_text` prints of it."""
        if self.output == "text":
            show_text(console())
        else:
            print_document(document, self.output)


class Strict(Options):
    strict: bool = option(
        "Treat a key that stands twice in one map of a manifest as an error. Without it, the last value counts, as in "
        "kubectl, and a warning names both lines."
    )


class Registries(Options):
    """For commands that may ask registries."""

    resolve: bool = option("Look the images up in their registries now.")
    registries: Path | None = option(
        "File that lists the registries to query. Without it, built-in public registries are queried."
    )
    registry_credentials: Path | None = option(
        "File with credentials for the registries, in the format of Docker's config.json."
    )

    def ask(self, results: str | None, kubeconfig: Path | None) -> "Resolver | None":
        """Looks images up in their registries; None without --resolve. Exits with status 2 for unusable options."""
        if not self.resolve:
            if self.registries is not None or self.registry_credentials is not None or results is not None:
                fail(
                    "--registries, --registry-credentials and --image-results need --resolve; add --resolve, or leave "
                    "them out"
                )
            return None
        from webhook.replica.image_lookups import Resolver
        from webhook.yaml_files.file_errors import FileErrors

        try:
            return Resolver(self.registries, self.registry_credentials, results, kubeconfig)
        except (FileErrors, ValueError) as error:
            fail(str(error))


class ImageResults(Options):
    image_results: str | None = option(
        "ConfigMap in which the replicas share the results of look-ups; the results of this command are added.",
        metavar="NAMESPACE/NAME",
    )


class PolicyOf(Options):
    """For commands that may use the policy of one namespace."""

    policies: Path | None = option(
        "Directory of policy files, for their node pools, names of GPUs, rows of CUDA tables and images of cudaDriver."
    )
    namespace: str = option("Namespace whose policy applies.", "default", "-n")


class SourceOptions(Registries, InventoryFile):
    """Which objects a command looks at, in files or in a cluster, and what it writes, and where."""

    paths: tuple[str, ...] = argument(nargs=-1, metavar="[FILE|DIR|- ...]")
    cluster: bool = option("Look at the nodes, pods and workloads of a live cluster.")
    kubeconfig: str | None = option(
        "With --cluster, kubeconfig of that cluster [default: $KUBECONFIG, ~/.kube/config, or the cluster that the "
        "process runs in]. For an audit of files, kubeconfig of the cluster that they are meant for.",
        metavar="PATH",
    )
    context: str | None = option("Context in the kubeconfig.")
    namespace: tuple[str, ...] = option(
        "Namespace for manifests that name none [default: default]. With --cluster, only objects of this namespace; "
        "repeatable.",
        None,
        "-n",
    )
    exclude_namespace: tuple[str, ...] = option(
        "With --cluster, leave this namespace out; repeatable [default: the namespaces that the chart excludes].",
        None,
        metavar="NAME|GLOB",
    )
    output: Path | None = option(
        "The same as --format; or a file to write instead of standard output. The file is written whole or not at all.",
        None,
        "-o",
        metavar="FORMAT|FILE",
    )
    format: str = option("Format of the report.", None, type=click.Choice(["text", "json", "yaml"]))

    def __post_init__(self) -> None:
        from webhook.audit.writing import fault_of

        if not self.cluster and len(self.namespace) > 1:
            fail("several --namespace need --cluster; for files, name one: the namespace of objects that name none")
        if not self.cluster and self.exclude_namespace:
            fail("--exclude-namespace needs --cluster; for files, name only the files to look at")
        (formats,) = (one.metadata["type"].choices for one in fields(self) if one.name == "format")
        if str(self.output) in formats:
            object.__setattr__(self, "format", str(self.output))
            object.__setattr__(self, "output", None)
        elif self.output is not None and (fault := fault_of(self.output)):
            fail(fault)
        if self.format is None:
            meant = _OF_SUFFIX.get(suffix := str(self.output).rpartition(".")[2], suffix)
            object.__setattr__(self, "format", meant if meant in formats else "text")

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

        ask = self.ask(results, Path(self.kubeconfig) if self.kubeconfig else None)
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
